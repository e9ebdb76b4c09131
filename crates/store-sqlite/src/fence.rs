//! The fence around the closures of others on the writer's connection.
//!
//! While a closure runs, SQLite asks it about everything that is prepared: statements that begin or end transactions,
//! attach files, change settings or touch the tables of the layer are refused. What was prepared without the fence is
//! not handed out behind it (see [`SqliteTx`](crate::SqliteTx)). A statement that runs beyond the closure's time is
//! interrupted. Nothing commits while a closure runs. What a closure does without a statement (sleeping, computing)
//! cannot be interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use tokio::time::Instant;

/// Steps of SQLite's machine between two looks at the time: some tenths of a millisecond.
const STEPS: i32 = 10_000;

/// What our tables and indexes begin with.
const OURS: &str = "onefold_";

/// One fence, on one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence(Arc<State>);

#[derive(Debug, Default)]
struct State {
    closed: AtomicBool,
    until: Mutex<Option<Instant>>,
    over: AtomicBool,
}

impl Fence {
    /// Puts the fence on this connection, open.
    pub(crate) fn put_on(connection: &mut Connection) -> rusqlite::Result<Fence> {
        let fence = Fence::default();
        let asked = fence.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            if asked.0.closed.load(Ordering::Relaxed) && is_forbidden(&context.action) {
                Authorization::Deny
            } else {
                Authorization::Allow
            }
        }))?;
        // After a rollback of SQLite's own, each statement of a closure would be a transaction of itself.
        let alone = fence.clone();
        connection.commit_hook(Some(move || alone.0.until.lock().is_some()))?;
        let timed = fence.clone();
        connection.progress_handler(STEPS, Some(move || timed.time_is_over()))?;
        Ok(fence)
    }

    /// Runs a closure behind the fence, for this long. The second answer says whether its time was over.
    pub(crate) fn around<A>(&self, time: Duration, closure: impl FnOnce() -> A) -> (A, bool) {
        *self.0.until.lock() = Some(Instant::now() + time);
        self.0.over.store(false, Ordering::Relaxed);
        self.0.closed.store(true, Ordering::Relaxed);
        let done = closure();
        self.0.closed.store(false, Ordering::Relaxed);
        *self.0.until.lock() = None;
        (done, self.0.over.load(Ordering::Relaxed))
    }

    /// Lets the layer itself prepare a statement in the middle of a closure.
    pub(crate) fn lifted<A>(&self, ours: impl FnOnce() -> A) -> A {
        let closed = self.0.closed.swap(false, Ordering::Relaxed);
        let done = ours();
        self.0.closed.store(closed, Ordering::Relaxed);
        done
    }

    fn time_is_over(&self) -> bool {
        let over = self.0.until.lock().is_some_and(|until| until <= Instant::now());
        if over {
            self.0.over.store(true, Ordering::Relaxed);
        }
        over
    }
}

fn is_forbidden(action: &AuthAction<'_>) -> bool {
    use AuthAction::*;
    match action {
        Transaction { .. }
        | Savepoint { .. }
        | Attach { .. }
        | Detach { .. }
        | Pragma { .. }
        | Unknown { .. } => true,
        CreateTable { table_name: name }
        | CreateTempTable { table_name: name }
        | CreateVtable { table_name: name, .. }
        | CreateView { view_name: name }
        | CreateTempView { view_name: name }
        | DropTable { table_name: name }
        | DropTempTable { table_name: name }
        | DropVtable { table_name: name, .. }
        | DropView { view_name: name }
        | DropTempView { view_name: name }
        | AlterTable { table_name: name, .. }
        | Analyze { table_name: name }
        | Reindex { index_name: name }
        | Read { table_name: name, .. }
        | Insert { table_name: name }
        | Update { table_name: name, .. }
        | Delete { table_name: name } => is_ours(name),
        CreateIndex { index_name, table_name }
        | CreateTempIndex { index_name, table_name }
        | DropIndex { index_name, table_name }
        | DropTempIndex { index_name, table_name } => is_ours(index_name) || is_ours(table_name),
        CreateTrigger { table_name, .. }
        | CreateTempTrigger { table_name, .. }
        | DropTrigger { table_name, .. }
        | DropTempTrigger { table_name, .. } => is_ours(table_name),
        _ => false,
    }
}

/// Names are compared by SQLite whatever their case.
fn is_ours(name: &str) -> bool {
    name.get(..OURS.len()).is_some_and(|start| start.eq_ignore_ascii_case(OURS))
}
