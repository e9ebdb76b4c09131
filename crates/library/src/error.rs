//! Why a call has no result, and what its caller may do about it.

use std::time::Duration;

use onefold_core::{Decision, Expiry, KeyError, OperationId, Problem, Resource, State, retry};
use onefold_engine::{Known, Refusal};
use onefold_store::StoreError;

use crate::BoxError;

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The key is empty or too long. Nothing ran.
    #[error(transparent)]
    KeyInvalid(KeyError),
    /// The request cannot be written as JSON. Nothing ran.
    #[error("the request cannot be compared: {0}")]
    RequestInvalid(String),
    /// The key was used for another request. Nothing ran.
    #[error("the key was used for a different request, which is {original}")]
    Conflict {
        /// The operation.
        id: OperationId,
        /// Where the original stands.
        original: State,
    },
    /// Another attempt runs. Nothing ran here.
    #[error("the operation is still running")]
    InProgress {
        /// The operation.
        id: OperationId,
        /// When to ask again.
        retry_after: Duration,
    },
    /// Nobody knows whether it happened. It is not repeated by itself.
    #[error("it is not known whether it happened{}", .error.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    OutcomeUnknown {
        /// The operation.
        id: OperationId,
        /// What went wrong, where it was this call.
        #[source]
        error: Option<BoxError>,
    },
    /// A workflow was interrupted: the next call goes on where it stopped, under the same downstream keys.
    #[error("the operation was interrupted and can be resumed: {error}")]
    Interrupted {
        /// The operation.
        id: OperationId,
        /// What went wrong.
        #[source]
        error: BoxError,
    },
    /// Nothing happened; the key is free.
    #[error("nothing was done: {error}")]
    NotDone {
        /// Why.
        #[source]
        error: BoxError,
        /// Whether the same request may help later.
        retryable: bool,
    },
    /// Every attempt that the operation allows did nothing.
    #[error("every allowed attempt did nothing")]
    Exhausted {
        /// The operation.
        id: OperationId,
    },
    /// The record has expired, or the key says itself that it is too old. Nothing ran.
    #[error("the key has expired")]
    Expired {
        /// The operation.
        id: OperationId,
        /// Which of the two.
        expiry: Expiry,
    },
    /// The scope holds as many live keys as it may. Nothing ran.
    #[error("too many live keys in this scope")]
    TooManyKeys,
    /// The store did not answer. Outside of a lost commit nothing ran; ask again under the same key.
    #[error("the store is unavailable: {0}")]
    StoreUnavailable(String),
    /// It is finished, and its result is not kept.
    #[error("it is finished and its result is not kept: {why}")]
    ValueNotKept {
        /// The operation.
        id: OperationId,
        /// How it is finished.
        state: State,
        /// What it made, where that is known: look there instead.
        resource: Option<Box<Resource>>,
        /// Why, as a word for programs: `too_big`, `cut`, `by_contract`, `not_stored`, `settled_by_a_person`,
        /// `settled_by_a_reconciler`, `http_answer` or `nothing`.
        reason: &'static str,
        /// Why.
        why: &'static str,
    },
    /// It is finished, and this program cannot read its result.
    #[error("it is finished; its result has version {stored} and this program knows {known}: {detail}")]
    ValueUnreadable {
        /// The operation.
        id: OperationId,
        /// How it is finished.
        state: State,
        /// What it made, where that is known.
        resource: Option<Box<Resource>>,
        /// The version of the stored form.
        stored: u16,
        /// The version of this program.
        known: u16,
        /// What is wrong with it.
        detail: String,
    },
}

impl CallError {
    /// Whether the same intention may be tried under a new key without the danger of a second effect.
    pub fn new_key_is_safe(&self) -> bool {
        match self {
            CallError::KeyInvalid(_)
            | CallError::RequestInvalid(_)
            | CallError::NotDone { .. }
            | CallError::Exhausted { .. }
            | CallError::TooManyKeys => true,
            CallError::Conflict { original, .. } => matches!(original, State::Rejected | State::Failed),
            CallError::InProgress { .. }
            | CallError::OutcomeUnknown { .. }
            | CallError::Interrupted { .. }
            | CallError::Expired { .. }
            | CallError::StoreUnavailable(_)
            | CallError::ValueNotKept { .. }
            | CallError::ValueUnreadable { .. } => false,
        }
    }

    /// When to ask again under the same key, where that helps.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            CallError::InProgress { retry_after, .. } => Some(*retry_after),
            CallError::OutcomeUnknown { .. } | CallError::TooManyKeys => Some(retry::RETRY_AFTER_MAX),
            CallError::NotDone { retryable: true, .. }
            | CallError::Interrupted { .. }
            | CallError::StoreUnavailable(_) => Some(retry::RETRY_AFTER_MIN),
            _ => None,
        }
    }

    /// The operation, where there is one.
    pub fn id(&self) -> Option<OperationId> {
        match self {
            CallError::Conflict { id, .. }
            | CallError::InProgress { id, .. }
            | CallError::OutcomeUnknown { id, .. }
            | CallError::Interrupted { id, .. }
            | CallError::Exhausted { id }
            | CallError::Expired { id, .. }
            | CallError::ValueNotKept { id, .. }
            | CallError::ValueUnreadable { id, .. } => Some(*id),
            CallError::KeyInvalid(_)
            | CallError::RequestInvalid(_)
            | CallError::NotDone { .. }
            | CallError::TooManyKeys
            | CallError::StoreUnavailable(_) => None,
        }
    }

    /// The entry of the catalogue of problems; `None` where the business alone can say what its error means.
    pub fn problem(&self) -> Option<Problem> {
        Some(match self {
            CallError::KeyInvalid(error) if error.is_ambiguous() => Problem::KeyAmbiguous,
            CallError::KeyInvalid(_) => Problem::KeyInvalid,
            CallError::RequestInvalid(_) => Problem::RequestInvalid,
            CallError::Conflict { .. } => Problem::KeyConflict,
            CallError::InProgress { .. } | CallError::Interrupted { .. } => Problem::InProgress,
            CallError::OutcomeUnknown { .. } => Problem::OutcomeUnknown,
            CallError::NotDone { .. } => return None,
            CallError::Exhausted { .. } => Problem::AttemptsExhausted,
            CallError::Expired { .. } => Problem::KeyExpired,
            CallError::TooManyKeys => Problem::TooManyKeys,
            CallError::StoreUnavailable(_) => Problem::StoreUnavailable,
            CallError::ValueNotKept { .. } | CallError::ValueUnreadable { .. } => Problem::ResponseNotKept,
        })
    }

    /// What a known operation that is not to be replayed means for the caller.
    pub(crate) fn of(known: &Known) -> CallError {
        let id = known.id;
        match known.decision {
            Decision::Conflict { original } => CallError::Conflict { id, original },
            Decision::Busy { retry_after } => CallError::InProgress { id, retry_after },
            Decision::Pending => CallError::InProgress { id, retry_after: retry::RETRY_AFTER_MIN },
            Decision::Exhausted => CallError::Exhausted { id },
            Decision::Expired(expiry) => CallError::Expired { id, expiry },
            _ => CallError::OutcomeUnknown { id, error: None },
        }
    }
}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> CallError {
        match error {
            StoreError::Unavailable(why) => CallError::StoreUnavailable(why),
            refused @ StoreError::Refused(_) => {
                CallError::NotDone { error: refused.into(), retryable: false }
            }
        }
    }
}

impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> CallError {
        match refusal {
            Refusal::Store(error) => CallError::StoreUnavailable(error.to_string()),
            Refusal::TooManyKeys => CallError::TooManyKeys,
        }
    }
}
