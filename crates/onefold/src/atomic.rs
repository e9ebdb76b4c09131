//! Atomic mode on SQLite: our transaction, your closure.

use std::sync::Arc;

use onefold_core::{Decision, Kept, Resource};
use onefold_engine::Performed;
use onefold_store::{Ended, Finish};
use onefold_store_sqlite::{SqliteTx, SqliteWork};
use parking_lot::Mutex;
use rusqlite::ErrorCode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::task::detached;
use crate::verdict::{BoxError, Verdict};
use crate::{Call, CallError, Done, Onefold, Operation, typed};

/// What the closure of a typed work has left for its caller.
enum Left<T> {
    Value(T),
    NotDone { error: BoxError, retryable: bool },
}

impl Onefold {
    /// Performs the operation in one transaction: what the closure writes and the record of its result are committed
    /// together or not at all.
    ///
    /// The closure gets the transaction and nothing else, because it may run again when the database asks for that, and
    /// because an effect outside of the database cannot be rolled back. It runs on the writer's thread, so it must be
    /// short. An error undoes everything, and the key is free: the rollback proves that nothing happened. A panic counts
    /// as an error.
    ///
    /// Errors say whether a new key is safe ([`CallError::new_key_is_safe`]). Cancellation: a call whose future is
    /// dropped is committed whole or not at all; the same call made again says which.
    ///
    /// Nothing in the closure can wait:
    ///
    /// ```compile_fail
    /// # use onefold::{Call, Onefold, Verdict};
    /// # async fn charge() -> i64 { 7 }
    /// # async fn example(onefold: Onefold, call: Call) {
    /// onefold.atomic(call, |tx| { let charged = charge().await; Ok(Verdict::succeeded(charged)) }).await;
    /// # }
    /// ```
    ///
    /// nor can the closure be a future that would wait later:
    ///
    /// ```compile_fail
    /// # use onefold::{Call, Onefold, Verdict};
    /// # async fn charge() -> i64 { 7 }
    /// # async fn example(onefold: Onefold, call: Call) {
    /// onefold.atomic(call, |tx| async { let charged = charge().await; Ok(Verdict::succeeded(charged)) }).await;
    /// # }
    /// ```
    ///
    /// nor can the transaction leave it:
    ///
    /// ```compile_fail
    /// # use onefold::{Call, Onefold, Verdict};
    /// # async fn example(onefold: Onefold, call: Call) {
    /// let mut kept = None;
    /// onefold.atomic(call, |tx| { kept = Some(tx); Ok(Verdict::succeeded(())) }).await;
    /// # }
    /// ```
    ///
    /// while the same without those lines compiles:
    ///
    /// ```
    /// # use onefold::{Call, Onefold, Verdict};
    /// # async fn example(onefold: Onefold, call: Call) {
    /// let done = onefold.atomic(call, |tx| {
    ///     let charged = tx.query_row("SELECT 7", [], |row| row.get::<_, i64>(0))?;
    ///     Ok(Verdict::succeeded(charged))
    /// }).await;
    /// # }
    /// ```
    pub async fn atomic<T, F>(&self, call: Call, work: F) -> Result<Done<T>, CallError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnMut(&mut SqliteTx<'_>) -> Result<Verdict<T>, BoxError> + Send + 'static,
    {
        let asked = call.for_engine(self.engine().identity_key());
        if let Some(known) = self.engine().recall(&asked) {
            return known_to(&call.operation, &known);
        }
        let engine = self.0.clone();
        detached(|gone| async move {
            let left = Arc::new(Mutex::new(None));
            let mut work = erased(call.operation.clone(), work, left.clone());
            let performed = engine.perform(&asked, &mut work, gone.wait()).await?;
            let left = left.lock().take();
            match (performed, left) {
                (Performed::Committed(record), Some(Left::Value(value))) => {
                    Ok(Done::of(&record, value, false))
                }
                (Performed::NotDone, Some(Left::NotDone { error, retryable })) => {
                    Err(CallError::NotDone { error, retryable })
                }
                (Performed::Stopped(why), _) => {
                    Err(CallError::NotDone { error: why.into(), retryable: false })
                }
                (Performed::Known(known), _) => known_to(&call.operation, &known),
                // The closure's word got lost on its way here; the record has it.
                (Performed::Committed(record), _) => Done::replay(&call.operation, &record),
                (Performed::NotDone, _) => {
                    Err(CallError::NotDone { error: "the work did nothing".into(), retryable: true })
                }
            }
        })
        .await
    }
}

/// Where a known operation stands, for a caller.
pub(crate) fn known_to<T: DeserializeOwned>(
    operation: &Operation,
    known: &onefold_engine::Known,
) -> Result<Done<T>, CallError> {
    match (&known.decision, &known.record) {
        (Decision::Replay, Some(record)) => Done::replay(operation, record),
        _ => Err(CallError::of(known)),
    }
}

fn erased<T, F>(operation: Operation, mut work: F, left: Arc<Mutex<Option<Left<T>>>>) -> SqliteWork
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: FnMut(&mut SqliteTx<'_>) -> Result<Verdict<T>, BoxError> + Send + 'static,
{
    SqliteWork::new(move |tx| {
        let (ended, leaves) = match work(tx) {
            Ok(Verdict::Succeeded { resource, value }) => {
                finished(&operation, Finish::Succeeded, resource, value)
            }
            Ok(Verdict::Rejected { value }) => finished(&operation, Finish::Rejected, None, value),
            Ok(Verdict::NotDone { error, retryable }) => (Ended::NotDone, Left::NotDone { error, retryable }),
            Ok(Verdict::Unknown { error }) | Err(error) => match contended(&*error) {
                Some(why) => (Ended::Again(why), Left::NotDone { error, retryable: true }),
                None => (Ended::NotDone, Left::NotDone { error, retryable: true }),
            },
        };
        *left.lock() = Some(leaves);
        ended
    })
}

fn finished<T: Serialize + DeserializeOwned>(
    operation: &Operation,
    finish: Finish,
    resource: Option<Resource>,
    value: T,
) -> (Ended, Left<T>) {
    match typed::keep(operation, &value) {
        Ok(kept) => (Ended::Finished { finish, kept, resource }, Left::Value(value)),
        Err(why) => {
            let error = format!("the result cannot be kept: {why}").into();
            (Ended::NotDone, Left::NotDone { error, retryable: false })
        }
    }
}

/// Whether the database asks for another run.
fn contended(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let code = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
        if let Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) = code {
            return Some(error.to_string());
        }
        cause = error.source();
    }
    None
}

/// What is kept of a value whose effect cannot be undone any more.
pub(crate) fn keep_what_can_be<T: Serialize + DeserializeOwned>(operation: &Operation, value: &T) -> Kept {
    typed::keep(operation, value).unwrap_or_else(|why| {
        tracing::error!(operation = %operation.contract().operation, why, "a result cannot be kept");
        Kept::NotKept { status: None, why: onefold_core::NotKept::NotStored }
    })
}
