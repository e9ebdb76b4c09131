//! Atomic mode, whatever the database: our transaction, your closure.
//!
//! Here stands what a verdict means for the transaction and for the caller. The store runs the closure, and the
//! closure's [`Word`] takes its value to the caller as it is; only duplicates read the record.

use std::sync::Arc;

use onefold_core::{Decision, Kept, Resource};
use onefold_engine::Performed;
use onefold_store::{AtomicStore, Ended, Finish};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::task::detached;
use crate::verdict::{BoxError, Verdict};
use crate::{Call, CallError, Done, Onefold, Operation, Rejection, typed};

/// What the closure of a typed work has left for its caller.
enum Left<T> {
    Value(T),
    NotDone { error: BoxError, retryable: bool },
}

/// Takes the last word of a closure to the store and to the caller.
pub(crate) struct Word<T> {
    operation: Operation,
    left: Arc<Mutex<Option<Left<T>>>>,
}

impl<T> Clone for Word<T> {
    fn clone(&self) -> Self {
        Word { operation: self.operation.clone(), left: self.left.clone() }
    }
}

impl<T: Serialize + DeserializeOwned> Word<T> {
    /// What the closure's verdict means for its transaction.
    pub(crate) fn of(&self, verdict: Result<Verdict<T>, BoxError>) -> Ended {
        let verdict = verdict.or_else(|error| match Rejection::within(&error) {
            Some(rejection) => Ok(rejection.verdict()),
            None => Err(error),
        });
        let (ended, leaves) = match verdict {
            Ok(Verdict::Succeeded { resource, value }) => {
                finished(&self.operation, Finish::Succeeded, resource, value)
            }
            Ok(Verdict::Rejected { value }) => finished(&self.operation, Finish::Rejected, None, value),
            Ok(Verdict::NotDone { error, retryable }) => (Ended::NotDone, Left::NotDone { error, retryable }),
            Ok(Verdict::Unknown { error }) | Err(error) => {
                (Ended::NotDone, Left::NotDone { error, retryable: true })
            }
        };
        *self.left.lock() = Some(leaves);
        ended
    }
}

impl<S: AtomicStore> Onefold<S> {
    /// Performs the work that is made around a word.
    pub(crate) async fn perform<T>(
        &self,
        call: Call,
        work: impl FnOnce(Word<T>) -> S::Work,
    ) -> Result<Done<T>, CallError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        S::Work: 'static,
    {
        let asked = call.for_engine(self.engine().identity_key());
        if let Some(known) = self.engine().recall(&asked) {
            return known_to(&call.operation, &known);
        }
        let engine = self.atomic_engine().clone();
        let left = Arc::new(Mutex::new(None));
        let mut work = work(Word { operation: call.operation.clone(), left: left.clone() });
        detached(|gone| async move {
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

/// What is kept of a value whose effect cannot be undone any more.
pub(crate) fn keep_what_can_be<T: Serialize + DeserializeOwned>(operation: &Operation, value: &T) -> Kept {
    typed::keep(operation, value).unwrap_or_else(|why| {
        tracing::error!(operation = %operation.contract().operation, why, "a result cannot be kept");
        Kept::NotKept { status: None, why: onefold_core::NotKept::NotStored }
    })
}
