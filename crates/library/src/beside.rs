//! The service's own reads and writes, beside the boundary: what may happen twice, and pages.
//!
//! They share the connections, the writer and the commits of the boundary, so a service needs no second connection and
//! no second wait for SQLite's one write lock. A write is of no operation: whoever asks twice writes twice. Messages
//! may be made in it, and effects noted.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::Kept;
use onefold_store::{Ended, Finish, StoreError, WriteStore, Written};
use onefold_store_sqlite::{SqliteStore, SqliteTx, SqliteWork};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::time::sleep;

use crate::Onefold;
use crate::sqlite::contended;
use crate::verdict::BoxError;

/// How often a write runs at most when the database asks for it again.
const RUNS_MAX: u32 = 6;
/// The first pause before that, at most; it doubles.
const RERUN_PAUSE: Duration = Duration::from_millis(10);

/// Why a read or a write beside the boundary has no result.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The closure's own error. Nothing was written.
    #[error("{0}")]
    Closure(#[source] BoxError),
    /// The closure panicked or was stopped. Nothing was written.
    #[error("nothing was written: {0}")]
    Stopped(String),
    /// The database does not answer. What was to be written, where anything was, may have been committed.
    #[error("the store is unavailable: {0}")]
    StoreUnavailable(String),
}

impl From<StoreError> for AccessError {
    fn from(error: StoreError) -> AccessError {
        match error {
            StoreError::Unavailable(why) => AccessError::StoreUnavailable(why),
            StoreError::Refused(_) => AccessError::Stopped(error.to_string()),
        }
    }
}

/// What the last run of a closure has left for its caller.
pub(crate) struct Left<A>(Arc<Mutex<Option<Result<A, BoxError>>>>);

impl<A> Clone for Left<A> {
    fn clone(&self) -> Self {
        Left(self.0.clone())
    }
}

impl<A> Left<A> {
    pub(crate) fn nothing() -> Left<A> {
        Left(Arc::default())
    }

    /// What the closure's word means for its transaction.
    pub(crate) fn of(&self, said: Result<A, BoxError>) -> Ended {
        let done = said.is_ok();
        *self.0.lock() = Some(said);
        match done {
            true => Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None },
            false => Ended::NotDone,
        }
    }

    pub(crate) fn taken(&self, written: Written) -> Result<A, AccessError> {
        match (written, self.0.lock().take()) {
            (Written::Done, Some(Ok(value))) => Ok(value),
            (Written::NotDone, Some(Err(error))) => Err(AccessError::Closure(error)),
            (Written::Contended(why), _) => Err(AccessError::StoreUnavailable(why)),
            (Written::Stopped(why), _) => Err(AccessError::Stopped(why)),
            (Written::Done | Written::NotDone, _) => {
                Err(AccessError::StoreUnavailable("the closure's word was lost".into()))
            }
        }
    }
}

/// Runs a write until the database has taken it.
pub(crate) async fn write<S: WriteStore, A>(
    store: &S,
    mut work: S::Work,
    left: &Left<A>,
) -> Result<A, AccessError> {
    let mut runs = 1;
    loop {
        match store.write(&mut work).await? {
            Written::Contended(_) if runs < RUNS_MAX => {
                sleep((RERUN_PAUSE * 2_u32.pow(runs)).mul_f64(rand::random())).await;
                runs += 1;
            }
            written => return left.taken(written),
        }
    }
}

impl Onefold<SqliteStore> {
    /// Reads the service's own tables, on a connection that only reads, on a thread that may block. All statements of
    /// the closure see one state of the file, and wait for no writer. Four of them run at once; a further one waits.
    ///
    /// Cancellation: it runs on, and nobody hears of it.
    ///
    /// # Panics
    /// Where the closure does.
    pub async fn read<A: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<A, BoxError> + Send + 'static,
    ) -> Result<A, AccessError> {
        self.store().lend(read).await?.map_err(AccessError::Closure)
    }

    /// Writes the service's own tables in one transaction, without an operation: what must not happen twice belongs
    /// into [`Onefold::atomic`]. The closure runs on the writer's thread, so it must be short, and it may run again
    /// when the database asks for that. An error and a panic undo everything.
    ///
    /// Cancellation: it is committed whole or not at all.
    pub async fn write<A: Send + 'static>(
        &self,
        mut write: impl FnMut(&mut SqliteTx<'_>) -> Result<A, BoxError> + Send + 'static,
    ) -> Result<A, AccessError> {
        let left = Left::nothing();
        let own = left.clone();
        let work = SqliteWork::new(move |tx| {
            let said = write(tx);
            let again = said.as_ref().err().and_then(|error| contended(&**error));
            let ended = own.of(said);
            again.map_or(ended, Ended::Again)
        });
        self::write(&**self.store(), work, &left).await
    }
}
