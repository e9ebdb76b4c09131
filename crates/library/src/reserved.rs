//! Reserved mode: the claim commits first, the effect happens elsewhere, the outcome commits.
//!
//! The work runs in a task of its own, so a caller that goes away cancels nothing, and a panic is an unknown outcome. Of
//! a work that is lost with its process nobody knows what it did: its operation becomes `outcome_unknown` with its
//! lease, and nothing repeats it by itself.

use std::future::Future;
use std::sync::Arc;

use onefold_core::{IdentityKey, Kept, Key, OperationId, Outcome, downstream};
use onefold_engine::{Attempt, Companion, Entered, Settled};
use onefold_store::AtomicStore;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::atomic::{keep_what_can_be, known_to};
use crate::task::detached;
use crate::verdict::{BoxError, Verdict};
use crate::{Call, CallError, Done, OnError, Onefold, Operation, Recorded, Rejection};

/// An attempt as the work sees it.
#[derive(Clone, Debug)]
pub struct Performing {
    id: OperationId,
    attempt: u32,
    key: Key,
    correlation_id: Option<String>,
    traceparent: Option<String>,
    secret: IdentityKey,
}

impl Performing {
    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.id
    }

    /// The number of the attempt: the fence.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The caller's key, as the caller gave it. What is asked for elsewhere has keys of its own
    /// ([`downstream_key`](Performing::downstream_key)).
    pub fn key(&self) -> &str {
        self.key.as_str()
    }

    /// The key under which another system is asked for one step: the same in every attempt and after a restart.
    pub fn downstream_key(&self, step: &str) -> String {
        downstream::key(self.id, step, &self.secret)
    }

    /// What ties it to other operations of one workflow: for the calls that it makes.
    pub fn correlation_id(&self) -> Option<&str> {
        self.correlation_id.as_deref()
    }

    /// The trace that the call belongs to ([`Call::traced`]): for the calls that it makes.
    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    pub(crate) fn of(attempt: &Attempt, call: &Call, secret: IdentityKey) -> Performing {
        let (id, attempt, key) = (attempt.id(), attempt.number(), call.identity.key.clone());
        let (correlation_id, traceparent) = (call.correlation_id.clone(), call.traceparent.clone());
        Performing { id, attempt, key, correlation_id, traceparent, secret }
    }
}

impl<S: AtomicStore> Onefold<S> {
    /// Performs the operation whose effect is elsewhere: at most one attempt is unresolved at a time, and an outcome that
    /// is lost is held as unknown, never silently repeated.
    ///
    /// An untyped error and a panic mean that the outcome is unknown, unless the operation says otherwise
    /// ([`Operation::on_error`]). Cancellation: dropping the future changes nothing but who hears of the result.
    pub async fn reserved<T, F, Fut>(&self, call: Call, work: F) -> Result<Done<T>, CallError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: FnOnce(Performing) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<T>, BoxError>> + Send + 'static,
    {
        let engine = self.engine().clone();
        let asked = call.for_engine(engine.identity_key());
        let companion = self.companions().of(&call.operation);
        if let Some(known) = engine.recall(&asked) {
            return known_to(&call.operation, &known);
        }
        detached(|gone| async move {
            match engine.enter(&asked, gone.wait()).await? {
                Entered::Known(known) => known_to(&call.operation, &known),
                Entered::Attempt(attempt) => {
                    let performing = Performing::of(&attempt, &call, engine.identity_key().clone());
                    let verdict = run(&call.operation, async move || work(performing).await).await;
                    settle(&call.operation, attempt, verdict, Lost::IsUnknown, companion).await
                }
            }
        })
        .await
    }
}

/// Runs the work in a task of its own and makes a verdict of whatever its end is.
pub(crate) async fn run<T, Fut>(
    operation: &Operation,
    work: impl FnOnce() -> Fut + Send + 'static,
) -> Verdict<T>
where
    T: DeserializeOwned + Send + 'static,
    Fut: Future<Output = Result<Verdict<T>, BoxError>> + Send + 'static,
{
    match tokio::spawn(async move { work().await }).await {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(error)) => match (Rejection::within(&error), operation.errors()) {
            (Some(rejection), _) => rejection.verdict(),
            (None, OnError::Unknown) => Verdict::Unknown { error },
            (None, OnError::NotDone) => Verdict::NotDone { error, retryable: true },
        },
        Err(ended) => Verdict::Unknown { error: format!("the work did not end: {ended}").into() },
    }
}

/// What an attempt without an outcome leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nobody knows.
    IsUnknown,
    /// The next attempt resumes.
    IsResumed,
}

impl Lost {
    fn told(self, id: OperationId, error: BoxError) -> CallError {
        match self {
            Lost::IsUnknown => CallError::OutcomeUnknown { id, error: Some(error) },
            Lost::IsResumed => CallError::Interrupted { id, error },
        }
    }
}

/// Reports the verdict, with what is written with it, and tells the caller what there is to tell, whether or not the store took it.
pub(crate) async fn settle<T: Serialize + DeserializeOwned>(
    operation: &Operation,
    attempt: Attempt,
    verdict: Verdict<T>,
    lost: Lost,
    companion: Option<Arc<dyn Companion>>,
) -> Result<Done<T>, CallError> {
    let (id, number, resumes) = (attempt.id(), attempt.number(), attempt.resumes());
    let known = onefold_engine::Verdict::known;
    let (value, rejected, resource) = match verdict {
        Verdict::Succeeded { resource, value } => (value, false, resource),
        Verdict::Rejected { value } => (value, true, None),
        Verdict::NotDone { error, retryable } => {
            attempt.settle(known(Outcome::NotDone, Kept::Nothing, None)).await;
            // After an attempt that was lost, "not done" speaks of this one alone.
            return Err(match resumes {
                true => CallError::Interrupted { id, error },
                false => CallError::NotDone { error, retryable },
            });
        }
        Verdict::Unknown { error } => {
            attempt.settle(onefold_engine::Verdict::unknown(error.to_string())).await;
            return Err(lost.told(id, error));
        }
    };
    let outcome = if rejected { Outcome::Rejected } else { Outcome::Succeeded };
    let kept = keep_what_can_be(operation, &value);
    if companion.is_some() && !matches!(kept, Kept::Value(_)) {
        // Whoever settles it later would have no result to write with.
        let error = "the result cannot be kept, so nothing can be written with it";
        attempt.settle(onefold_engine::Verdict::unknown(error)).await;
        return Err(lost.told(id, error.into()));
    }
    let verdict = known(outcome, kept, resource.clone());
    let settled = match companion {
        Some(companion) => attempt.settle_with(verdict, companion).await,
        None => attempt.settle(verdict).await,
    };
    let recorded = match settled {
        Settled::Recorded(_) => Recorded::Durably,
        Settled::NotStored(_) => Recorded::NotYet,
        Settled::Superseded(_) => Recorded::Superseded,
    };
    Ok(Done { value, rejected, replayed: false, recorded, id, attempt: number, resource })
}
