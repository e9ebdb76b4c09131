//! Record and business rows in one transaction.
//!
//! A new operation takes two round trips beside the closure's own: the transaction is begun, the key's lock taken and
//! the record looked for in one; the finished record is inserted, once, and committed in another (decision 0013). The
//! lock lets no duplicate begin before the other has ended; the judge is the unique digest: the insert of a second
//! record is an error, and the commit that is under way behind it rolls back. Nobody sees the attempt run, and nobody
//! waits for it here with a connection in hand: whoever does not get the lock is told [`Atomically::Busy`].
//!
//! *After a crash* there is the whole or nothing. When the answer to a commit is lost, the key's lock says when the
//! server has ended that transaction, and the record says how. A connection that is not known to be out of its
//! transaction is closed. Quotas are counted at the very end, in one of many shards, so that nobody waits for the
//! commit of another for long; a claim without a quota is not counted at all.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use onefold_core::{Kept, OperationId, Resource, State, StoreTime};
use onefold_store::codec::{encode_kept, kept_length};
use onefold_store::{Atomically, Ended, Entry, Finish, Read, StoreError};
use tokio::time::timeout;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;

use crate::error::Failed;
use crate::held::Held;
use crate::server::STATEMENT_MAX;
use crate::store::PostgresStore;
use crate::tx::{About, Makes};
use crate::{PostgresTx, read};

pub(crate) mod new;
mod next;

/// How long the lock of a key is waited for by whoever must know what became of the transaction that held it.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

/// The future of a closure.
pub type Ending<'a> = Pin<Box<dyn Future<Output = Ended> + Send + 'a>>;

type Closure = dyn for<'a> FnMut(&'a mut PostgresTx) -> Ending<'a> + Send;

/// A closure that runs in a transaction with its record. It may run again when the database asks for it.
pub struct PostgresWork(Box<Closure>);

impl PostgresWork {
    /// The work that this closure does.
    pub fn new(
        closure: impl for<'a> FnMut(&'a mut PostgresTx) -> Ending<'a> + Send + 'static,
    ) -> PostgresWork {
        PostgresWork(Box::new(closure))
    }
}

impl fmt::Debug for PostgresWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresWork")
    }
}

/// Runs the closure and writes the record.
pub(crate) async fn run(
    entry: Entry,
    work: &mut PostgresWork,
    store: &PostgresStore,
) -> Result<Atomically, StoreError> {
    let ended = match entry {
        Entry::New(claim) => new::run(*claim, work, store).await,
        Entry::Next(advance) => next::run(*advance, work, store).await,
    };
    match ended {
        Err(Stopped::Store(error)) => Err(error),
        Err(Stopped::Ended(ended) | Stopped::Undone(ended)) => Ok(*ended),
        Ok(committed) => Ok(committed),
    }
}

/// Why an attempt has not committed.
pub(crate) enum Stopped {
    /// So it ended.
    Ended(Box<Atomically>),
    /// So the closure ended it, by what it saw.
    Undone(Box<Atomically>),
    /// It is not known what became of it, or it can never be.
    Store(StoreError),
}

impl Stopped {
    fn ended(ended: Atomically) -> Stopped {
        Stopped::Ended(Box::new(ended))
    }

    fn undone(ended: Atomically) -> Stopped {
        Stopped::Undone(Box::new(ended))
    }

    fn busy() -> Stopped {
        Stopped::ended(Atomically::Busy)
    }

    pub(crate) fn contended(why: String) -> Stopped {
        Stopped::ended(Atomically::Contended(why))
    }
}

impl From<Failed> for Stopped {
    fn from(failed: Failed) -> Stopped {
        match failed {
            Failed::Rerun(why) => Stopped::contended(why),
            other => Stopped::Store(other.into()),
        }
    }
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Stopped {
        Stopped::Store(error)
    }
}

/// The lock of a key: any number that no other operation is likely to have.
pub(crate) fn lock(id: OperationId) -> i64 {
    let [.., a, b, c, d, e, f, g, h] = *id.as_bytes();
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The statements that begin a transaction and take the lock of a key in it, if nobody has it; see [`tried`]. The
/// lock ends with the transaction.
fn trying(id: OperationId) -> String {
    format!("BEGIN; SELECT pg_try_advisory_xact_lock({})", lock(id))
}

/// Sends such statements. False: another transaction has the lock.
async fn tried(held: &Held, sql: &str) -> Result<bool, Failed> {
    let answers = held.simple_query(sql).await.map_err(|error| Failed::of(&error))?;
    let taken = answers.into_iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row.get(0) == Some("t")),
        _ => None,
    });
    Ok(taken.unwrap_or(false))
}

/// The same, waiting for the lock, which has an end of its own.
fn beginning(id: OperationId) -> String {
    begin_with("BEGIN", id)
}

/// The same, for a transaction that is begun so.
pub(crate) fn begin_with(begin: &str, id: OperationId) -> String {
    format!("{begin}; {}", locking(id))
}

/// The statements that take the lock in a transaction that is begun.
pub(crate) fn locking(id: OperationId) -> String {
    let (lock, wait_ms) = (lock(id), LOCK_WAIT_MAX.as_millis());
    format!(
        "SET LOCAL lock_timeout = {wait_ms}; SELECT pg_advisory_xact_lock({lock});
        SET LOCAL lock_timeout = DEFAULT"
    )
}

/// What an error of the beginning means.
pub(crate) fn begun(error: &tokio_postgres::Error) -> Failed {
    if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
        return Failed::Rerun("another attempt at this operation holds its key".into());
    }
    Failed::of(error)
}

/// A step of an attempt that ends, whatever the server does.
pub(crate) async fn bounded<A>(step: impl Future<Output = Result<A, Failed>>) -> Result<A, Failed> {
    timeout(STATEMENT_MAX, step)
        .await
        .unwrap_or_else(|_| Err(Failed::Lost("the database takes too long".into())))
}

/// What a closure has left, with the payload sealed.
pub(crate) struct Finished {
    pub(crate) finish: Finish,
    pub(crate) kept: Kept,
    pub(crate) resource: Option<Resource>,
    pub(crate) form: Option<Vec<u8>>,
    /// Whether messages are on their way out with it.
    pub(crate) made_messages: bool,
    /// Whether what it was run for came too late.
    pub(crate) too_late: bool,
}

impl Finished {
    pub(crate) fn state(&self) -> State {
        match self.finish {
            Finish::Succeeded => State::Succeeded,
            Finish::Rejected => State::Rejected,
        }
    }

    fn committed(
        self,
        now: StoreTime,
        attempt: u32,
        expires_at: Option<StoreTime>,
        store: &PostgresStore,
    ) -> Atomically {
        let Finished { finish, kept, resource, made_messages, .. } = self;
        if made_messages && finish == Finish::Succeeded {
            store.hints().give();
        }
        Atomically::Committed { now, attempt, expires_at, finish, kept, resource }
    }
}

/// Runs the closure in the open transaction.
pub(crate) async fn closure(
    held: Held,
    id: OperationId,
    about: About,
    now: StoreTime,
    work: &mut PostgresWork,
    store: &PostgresStore,
) -> Result<(Held, Finished), Stopped> {
    let (mut held, most) = (held, store.closure_time_max());
    held.closure_begins(most);
    let mut tx = PostgresTx::new(held, id, about, now, Makes::of(store));
    let ended = timeout(most, caught(work.0.as_mut(), &mut tx)).await;
    let (made_messages, too_late) = (tx.made_messages(), tx.versions().came_too_late());
    let (held, failed) = tx.into_parts();
    let ended = match ended {
        Ok(Ok(ended)) => ended,
        // What it was in the middle of is unknown: the connection is closed.
        Ok(Err(panic)) => {
            return Err(Stopped::undone(Atomically::Stopped(format!("the closure panicked: {panic}"))));
        }
        Err(_) => {
            let why = format!("the closure held its transaction for longer than {most:?}");
            return Err(Stopped::undone(Atomically::Stopped(why)));
        }
    };
    if failed.as_ref().is_some_and(Failed::ends_connection) {
        let why = failed.map(StoreError::from).map_or_else(String::new, |why| why.to_string());
        return Err(Stopped::undone(Atomically::Stopped(why)));
    }
    if let Some(Failed::Rerun(why)) = failed {
        held.roll_back().await;
        return Err(Stopped::contended(why));
    }
    match (ended, failed) {
        (Ended::Finished { .. }, Some(why)) => {
            held.roll_back().await;
            let why = StoreError::from(why);
            let why = format!("a statement of the closure failed and the closure went on: {why}");
            Err(Stopped::undone(Atomically::Stopped(why)))
        }
        (Ended::Finished { finish, kept, resource }, None) => {
            let seal = || store.sealer().seal(&id, kept_length(&kept), |out| encode_kept(&kept, out));
            let form = (kept != Kept::Nothing).then(seal);
            let bytes = form.as_ref().map_or(0, Vec::len)
                + resource.as_ref().map_or(0, |resource| resource.kind.len() + resource.id.len());
            if let Err(refused) = store.takes(bytes) {
                held.roll_back().await;
                return Err(Stopped::Store(refused));
            }
            Ok((held, Finished { finish, kept, resource, form, made_messages, too_late }))
        }
        (Ended::NotDone, _) => {
            held.roll_back().await;
            Err(Stopped::undone(Atomically::NotDone))
        }
        (Ended::Again(why), _) => {
            held.roll_back().await;
            Err(Stopped::contended(why))
        }
    }
}

/// Runs the closure's future; a panic is an error.
async fn caught(closure: &mut Closure, tx: &mut PostgresTx) -> Result<Ended, String> {
    let mut future = Box::pin(async move { closure(tx).await });
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(message(&*panic))),
    })
    .await
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}

/// What became of a transaction whose commit was not answered. The lock says that the server has ended it.
async fn fate(
    id: OperationId,
    nonce: i64,
    why: String,
    finished: Finished,
    store: &PostgresStore,
) -> Result<Atomically, Stopped> {
    tracing::debug!(%why, "the answer to a commit was lost; the record is looked for");
    let held = Held::new(store.server().connection().await?);
    let found = bounded(async {
        held.batch_execute(&beginning(id)).await.map_err(|error| begun(&error))?;
        held.batch_execute("ROLLBACK").await.map_err(|error| Failed::of(&error))
    });
    found.await.map_err(|error| unknown(&why, StoreError::from(error)))?;
    held.give_back();
    let read = read::one(id, store.server()).await.map_err(|error| unknown(&why, error))?;
    match read.record {
        Some(raw) if raw.nonce == nonce => {
            let now = raw.record.completed_at.unwrap_or(read.now);
            Ok(finished.committed(now, raw.record.attempt, raw.record.expires_at, store))
        }
        _ => Err(Stopped::contended(format!("the connection was lost before the commit: {why}"))),
    }
}

fn unknown(first: &str, then: StoreError) -> Stopped {
    Stopped::Store(StoreError::Unavailable(format!("the answer to a commit was lost ({first}); {then}")))
}

/// What the pair of the last statement, which writes to this table, and the commit behind it means.
pub(crate) enum Committing {
    Done,
    /// It is undone, and so it ended.
    Undone(Stopped),
    /// The same, and the connection is of no more use.
    Broken(Stopped),
    /// A record stands there.
    Exists,
    /// Nobody answered.
    Lost(String),
}

pub(crate) fn committing<A>(
    table: &str,
    written: &Result<A, tokio_postgres::Error>,
    committed: &Result<(), tokio_postgres::Error>,
) -> Committing {
    let error = match (written, committed) {
        (Ok(_), Ok(())) => return Committing::Done,
        (Err(error), _) | (Ok(_), Err(error)) => error,
    };
    let ours = error.as_db_error().and_then(|told| told.table()) == Some(table)
        && error.as_db_error().and_then(|told| told.schema()) == Some("onefold");
    if written.is_err() && ours && error.code() == Some(&SqlState::UNIQUE_VIOLATION) {
        return Committing::Exists;
    }
    let waited = [SqlState::QUERY_CANCELED, SqlState::LOCK_NOT_AVAILABLE];
    if written.is_err() && error.code().is_some_and(|code| waited.contains(code)) {
        // For a transaction that is open and about to make the record.
        return Committing::Undone(Stopped::busy());
    }
    match Failed::of(error) {
        Failed::Lost(why) | Failed::Unreachable(why) => Committing::Lost(why),
        failed if failed.ends_connection() => Committing::Broken(failed.into()),
        Failed::Refused(why) | Failed::Denied(why) | Failed::Server(why)
            if written.is_ok() && error.code().is_some_and(is_of_the_work) =>
        {
            let why = format!("what the closure wrote cannot be committed: {why}");
            Committing::Undone(Stopped::undone(Atomically::Stopped(why)))
        }
        other => Committing::Undone(other.into()),
    }
}

/// Whether an error of a commit is about what was written, such as that of a constraint or a trigger that looks only
/// then, and not about the state of the server (classes of SQLSTATE: resources, objects in use, intervention, system,
/// settings).
fn is_of_the_work(code: &SqlState) -> bool {
    !["53", "55", "57", "58", "F0", "XX"].iter().any(|class| code.code().starts_with(class))
}

/// Sends a statement and the one behind it in one round trip; the second only when the first could be written, or it
/// would commit what the first should have completed. `None`: it was not sent.
pub(crate) async fn in_turn<A, E>(
    first: impl Future<Output = Result<A, E>>,
    then: impl Future<Output = Result<(), E>>,
) -> (Result<A, E>, Option<Result<(), E>>) {
    let mut first = pin!(first);
    // A statement is written at the first look at its future.
    match poll_fn(|context| Poll::Ready(first.as_mut().poll(context))).await {
        Poll::Ready(Err(error)) => (Err(error), None),
        Poll::Ready(done) => (done, Some(then.await)),
        Poll::Pending => {
            let (first, then) = tokio::join!(biased; first, then);
            (first, Some(then))
        }
    }
}

async fn found(id: OperationId, store: &PostgresStore) -> Result<Read, Stopped> {
    Ok(read::one(id, store.server()).await?.open(store.sealer())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_commit_is_not_sent_behind_a_statement_that_could_not_be_written() {
        let mut sent = false;
        let commit = async {
            sent = true;
            Ok::<(), &str>(())
        };
        let done = in_turn(std::future::ready(Err::<(), _>("too long")), commit).await;
        assert_eq!((done, sent), ((Err("too long"), None), false));
    }

    #[tokio::test]
    async fn a_commit_is_sent_before_the_statement_in_front_of_it_is_answered() {
        let (answer, answered) = tokio::sync::oneshot::channel::<()>();
        let statement = async { answered.await.map_err(|_| "no answer") };
        let commit = async { answer.send(()).map_err(|()| "it is gone") };
        assert_eq!(in_turn(statement, commit).await, (Ok(()), Some(Ok(()))));
    }
}
