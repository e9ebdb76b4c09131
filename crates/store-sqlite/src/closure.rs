//! Running somebody's closure in the writer's transaction, behind the fence.
//!
//! It runs on the writer's thread and blocks everybody who writes, so it has a time. One that makes SQLite roll the
//! whole transaction back (a statement of its own that is interrupted, `ON CONFLICT ROLLBACK`, a full disk) takes the
//! batch with it: nobody in it is acknowledged.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use onefold_core::{Kept, OperationId, Resource};
use onefold_store::{Atomically, Consumed, Ended, Finish, Mark, NO_OPERATION, Sealer, StoreError};
use parking_lot::Mutex;

use crate::batch::Batch;
use crate::error::{self, JobError};
use crate::tx::SqliteTx;

type Closure = dyn FnMut(&mut SqliteTx<'_>) -> Ended + Send;

/// A closure that runs in the writer's transaction. It may run again when the database asks for it.
#[derive(Clone)]
pub struct SqliteWork(Arc<Mutex<Closure>>);

impl SqliteWork {
    /// The work that this closure does.
    pub fn new(closure: impl FnMut(&mut SqliteTx<'_>) -> Ended + Send + 'static) -> SqliteWork {
        SqliteWork(Arc::new(Mutex::new(closure)))
    }
}

impl fmt::Debug for SqliteWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteWork")
    }
}

/// A closure with what it needs.
pub(crate) struct Running {
    pub(crate) work: SqliteWork,
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) time: Duration,
}

/// What a closure has left.
pub(crate) struct Left {
    pub(crate) finish: Finish,
    pub(crate) kept: Kept,
    pub(crate) resource: Option<Resource>,
    /// Whether what it was run for came too late.
    pub(crate) too_late: bool,
}

/// Why a closure leaves nothing.
pub(crate) enum Nothing {
    NotDone,
    Again(String),
    Stopped(String),
}

impl Running {
    /// Runs the closure for the operation, or the message, of this digest. What it has written is the caller's to undo.
    pub(crate) fn run(
        &self,
        id: OperationId,
        about: About<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<Result<Left, Nothing>, JobError> {
        let mut closure = self.work.0.lock();
        let (fence, sealer, time) = (batch.fence, &*self.sealer, self.time);
        let (ended, overran, made, versions, is_broken) = {
            let mut tx = SqliteTx::new(batch, id, about, sealer);
            let running = AssertUnwindSafe(|| closure(&mut tx));
            let (ended, overran) = fence.around(time, || catch_unwind(running));
            (ended, overran, tx.made_messages(), tx.versions(), tx.is_broken())
        };
        if batch.connection.is_autocommit() {
            let why = "a closure made SQLite roll the whole transaction back";
            return Err(JobError::Batch(StoreError::Unavailable(why.into())));
        }
        if overran {
            let why = format!("the closure held the database for longer than {time:?}");
            return Ok(Err(Nothing::Stopped(why)));
        }
        if is_broken {
            return Ok(Err(Nothing::Stopped("a message could be made by half only".into())));
        }
        Ok(match ended {
            Ok(Ended::Finished { finish, kept, resource }) => {
                if made && finish == Finish::Succeeded {
                    batch.messages_wait();
                }
                Ok(Left { finish, kept, resource, too_late: versions.came_too_late() })
            }
            Ok(Ended::NotDone) => Err(Nothing::NotDone),
            Ok(Ended::Again(why)) => Err(Nothing::Again(why)),
            Err(panic) => Err(Nothing::Stopped(format!("the closure panicked: {}", message(&*panic)))),
        })
    }
}

impl Nothing {
    /// What a closure is told of a lost transaction of which it is certain that nothing was committed.
    pub(crate) fn of(error: &StoreError) -> Option<Nothing> {
        let StoreError::Unavailable(why) = error else { return None };
        match why.as_str() {
            error::LOCKED | error::BROKEN => Some(Nothing::Again(why.clone())),
            error::BROKEN_ALONE => Some(Nothing::Stopped(why.clone())),
            _ => None,
        }
    }
}

impl From<Nothing> for Atomically {
    fn from(nothing: Nothing) -> Atomically {
        match nothing {
            Nothing::NotDone => Atomically::NotDone,
            Nothing::Again(why) => Atomically::Contended(why),
            Nothing::Stopped(why) => Atomically::Stopped(why),
        }
    }
}

impl From<Nothing> for Consumed {
    fn from(nothing: Nothing) -> Consumed {
        match nothing {
            Nothing::NotDone => Consumed::NotDone,
            Nothing::Again(why) => Consumed::Contended(why),
            Nothing::Stopped(why) => Consumed::Stopped(why),
        }
    }
}

/// What a closure runs for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About<'a> {
    /// An operation.
    Operation,
    /// A message that came in, with the mark that it leaves.
    Message(&'a Mark),
}

impl About<'_> {
    /// What the messages that it makes are caused by.
    pub(crate) fn cause(&self, operation: OperationId) -> Option<String> {
        match self {
            About::Message(mark) => Some(mark.identity.message.as_str().to_owned()),
            About::Operation => (operation != NO_OPERATION).then(|| operation.to_string()),
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
