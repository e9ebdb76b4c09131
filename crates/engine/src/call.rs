//! What a surface asks the engine, and what it is told.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{Contract, Decision, Fingerprint, Identity, OperationId, Record, StoreTime};
use onefold_store::StoreError;

use crate::Attempt;

/// One request under one identity.
#[derive(Clone, Debug)]
pub struct Call {
    /// What the operation promises.
    pub contract: Arc<Contract>,
    /// The operation's name in metrics: bounded in number, unlike identities.
    pub label: Arc<str>,
    /// Whose key, which operation, which key.
    pub identity: Identity,
    /// The significant request.
    pub fingerprint: Fingerprint,
    /// Ties operations of one workflow together.
    pub correlation_id: Option<String>,
}

/// What the engine tells the request to do.
pub enum Entered {
    /// The operation is yours: perform the effect and settle the attempt.
    Attempt(Attempt),
    /// The operation is known; this is where it stands.
    Known(Known),
}

/// Where a known operation stands.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its id.
    pub id: OperationId,
    /// What the request may do: never [`Decision::Begin`] or [`Decision::TakeOver`].
    pub decision: Decision,
    /// The record; `None` when the key itself is too old and there is none.
    pub record: Option<Arc<Record>>,
    /// The store's time when it was decided.
    pub now: StoreTime,
}

impl Known {
    /// When to ask again, where waiting helps.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.decision {
            Decision::Busy { retry_after } => Some(retry_after),
            Decision::Pending => Some(onefold_core::retry::RETRY_AFTER_MIN),
            Decision::Unknown | Decision::Reconcile | Decision::NeedsOperator => {
                Some(onefold_core::retry::RETRY_AFTER_MAX)
            }
            _ => None,
        }
    }
}

/// Why the engine can say nothing about the operation; nothing was begun.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// The store did not answer. The request is not performed (SEMANTICS 3, rule 6).
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The scope holds as many live keys as it may.
    #[error("the scope holds as many live keys as it may")]
    TooManyKeys,
}
