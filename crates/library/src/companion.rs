//! Companions: what is written in this database in the commit that settles an operation whose effect is elsewhere
//! (`docs/library.md`).
//!
//! A companion is registered once for an operation, by `Onefold::companion`, and then runs whoever settles it: the
//! attempt of [`Onefold::reserved`](crate::Onefold::reserved) or [`Onefold::resumable`](crate::Onefold::resumable), a
//! look-up ([`Onefold::reconcile`](crate::Onefold::reconcile)), a person
//! ([`Onefold::resolve`](crate::Onefold::resolve)). Nobody gets a result whose rows are not there. The companion gets
//! the result and not the request, of which a record keeps no more than a digest: what else it needs is in rows that
//! the service has written before the call.
//!
//! ```
//! use onefold::companion::Settled;
//! use onefold::{Onefold, Operation, Scope, Verdict};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), onefold::BoxError> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("shop.db");
//! let onefold = Onefold::sqlite(&path)?;
//! # rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE captures (key TEXT, charge TEXT)")?;
//! let capture = Operation::new("Capture", "one capture, and one row of it, for each key");
//! onefold
//!     .companion(&capture, |tx, settled: &Settled<String>| {
//!         if !settled.rejected() {
//!             tx.execute("INSERT INTO captures VALUES (?1, ?2)", [settled.key(), settled.value()])?;
//!         }
//!         Ok(())
//!     })
//!     .await?;
//! let call = capture.call(Scope::shared(), "payment-17", "25.00")?;
//! let done = onefold.reserved(call, |_| async { Ok(Verdict::succeeded("charge-1".to_owned())) }).await?;
//! assert_eq!(done.value(), "charge-1");
//! # Ok(())
//! # }
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use onefold_core::{Key, OperationId, Record, Resource, Scope, State};
use onefold_engine::Companion;
use onefold_store::{Advance, AtomicStore, Ended, Finish, Step};
use onefold_store_sqlite::{SqliteStore, SqliteTx, SqliteWork};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;

use crate::guest::unavailable;
use crate::sqlite::contended;
use crate::verdict::BoxError;
use crate::{CallError, Onefold, Operation, typed};

/// An operation in the moment in which it is settled.
#[derive(Clone, Debug)]
pub struct Settled<T> {
    record: Record,
    rejected: bool,
    resource: Option<Resource>,
    value: T,
}

impl<T> Settled<T> {
    /// The result that every caller gets.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Whether it was refused for good.
    pub fn rejected(&self) -> bool {
        self.rejected
    }

    /// What it brought forth.
    pub fn resource(&self) -> Option<&Resource> {
        self.resource.as_ref()
    }

    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.record.id
    }

    /// The caller's key.
    pub fn key(&self) -> &str {
        self.record.key.as_ref().map(Key::as_str).unwrap_or_default()
    }

    /// Whose key it is.
    pub fn scope(&self) -> &Scope {
        &self.record.scope
    }

    /// What ties it to other operations.
    pub fn correlation_id(&self) -> Option<&str> {
        self.record.correlation_id.as_deref()
    }

    /// The attempt that is settled.
    pub fn attempt(&self) -> u32 {
        self.record.attempt
    }

    /// The same with another form of the result.
    pub fn try_map<U, E>(self, change: impl FnOnce(T) -> Result<U, E>) -> Result<Settled<U>, E> {
        let Settled { record, rejected, resource, value } = self;
        Ok(Settled { record, rejected, resource, value: change(value)? })
    }
}

impl<T: DeserializeOwned> Settled<T> {
    fn of(operation: &Operation, record: &Record, advance: &Advance) -> Result<Settled<T>, String> {
        let (Step::Settle { state, kept, resource } | Step::Reconcile { state, kept, resource }) =
            &advance.step
        else {
            return Err("the transition settles nothing".into());
        };
        let value = typed::value(operation, kept).map_err(|error| error.to_string())?;
        let (record, resource) = (record.clone(), resource.clone());
        Ok(Settled { record, rejected: *state == State::Rejected, resource, value })
    }
}

/// The companions of a process, by the names of their operations.
#[derive(Default)]
pub(crate) struct Companions(RwLock<HashMap<String, Arc<dyn Companion>>>);

impl Companions {
    pub(crate) fn of(&self, operation: &Operation) -> Option<Arc<dyn Companion>> {
        self.named(&operation.contract().operation)
    }

    pub(crate) fn named(&self, operation: &str) -> Option<Arc<dyn Companion>> {
        self.0.read().get(operation).cloned()
    }
}

impl<S: AtomicStore> Onefold<S> {
    pub(crate) async fn accompany<T: DeserializeOwned + 'static>(
        &self,
        operation: &Operation,
        work: impl Fn(Settled<T>) -> S::Work + Send + Sync + 'static,
    ) -> Result<(), CallError> {
        let (name, operation) = (operation.contract().operation.clone(), operation.clone());
        let companion = self
            .atomic_engine()
            .companion(move |record, advance| Ok(work(Settled::of(&operation, record, advance)?)));
        self.store().note_companion(&name).await.map_err(unavailable)?;
        self.companions().0.write().insert(name, companion);
        Ok(())
    }
}

impl Onefold<SqliteStore> {
    /// Registers what is written in the commit that settles this operation as having happened or as refused, whoever
    /// settles it; see the [module](crate::companion). Do so before the first call, in every process that makes calls
    /// of it or looks for its outcomes. That it has a companion is noted in the database for good.
    ///
    /// The closure gets the transaction and the result, and nothing else; it runs on the writer's thread, so it must be
    /// short, and may run again, undone before. An error or a panic undoes it and leaves the operation as it was: the
    /// caller gets the real result as [`Recorded::NotYet`](crate::Recorded), and it is offered again for ten minutes;
    /// afterwards the outcome is unknown, for a look-up or a person. A result that cannot be kept (too long) can
    /// therefore not be settled. Atomic mode writes its rows itself and runs no companion.
    ///
    /// Errors: the store is unavailable, and nothing is registered. Cancellation: the same.
    pub async fn companion<T, F>(&self, operation: &Operation, write: F) -> Result<(), CallError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
        F: Fn(&mut SqliteTx<'_>, &Settled<T>) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let write = Arc::new(write);
        self.accompany(operation, move |settled: Settled<T>| {
            let write = write.clone();
            SqliteWork::new(move |tx| {
                tx.correlate(settled.correlation_id());
                let written = write(tx, &settled);
                let again = written.as_ref().err().and_then(|error| contended(&**error));
                again.map_or_else(|| ended(settled.id(), written), Ended::Again)
            })
        })
        .await
    }
}

/// The end of a companion.
pub(crate) fn ended(id: OperationId, written: Result<(), BoxError>) -> Ended {
    match written {
        Ok(()) => {
            Ended::Finished { finish: Finish::Succeeded, kept: onefold_core::Kept::Nothing, resource: None }
        }
        Err(error) => {
            tracing::error!(operation = %id, %error, "what is written with an outcome failed");
            Ended::NotDone
        }
    }
}
