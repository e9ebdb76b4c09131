//! What a person says of an operation whose outcome is unknown, with a typed result.

use onefold_core::{Kept, OperationId, Outcome};
use onefold_engine::{ActError, Shown};
use onefold_store::AtomicStore;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Onefold, Operation, Verdict, typed};

/// A person's word. The texts are kept with the record.
#[derive(Debug)]
pub struct Settlement<T> {
    /// What happened. `NotDone` frees the key; `Unknown` is no word.
    pub verdict: Verdict<T>,
    /// Why; required.
    pub reason: String,
    /// What shows it; required.
    pub evidence: String,
    /// Who says so.
    pub who: String,
}

impl<S: AtomicStore> Onefold<S> {
    /// Settles an operation whose outcome is unknown, or whose attempt left without one, as a person says, together
    /// with its [companion](crate::companion) and in one commit with it. For an operation that has one this is the only
    /// way: `onefold operations resolve --as succeeded` cannot run it, and is refused.
    ///
    /// Errors have changed nothing, but for a store that did not answer: then it may be done, and asking again says so.
    /// [`ActError::NotFound`]: there is no such record, or it is another operation's. [`ActError::ValueNotKept`]: the
    /// result would not come back. Cancellation: it is settled whole, with its companion, or not at all; look, or ask
    /// again.
    pub async fn resolve<T: Serialize + DeserializeOwned>(
        &self,
        operation: &Operation,
        id: OperationId,
        settlement: Settlement<T>,
    ) -> Result<Shown, ActError> {
        let Settlement { verdict, reason, evidence, who } = settlement;
        let found = self.engine().look(id).await?.ok_or(ActError::NotFound)?;
        if found.0.operation != operation.contract().operation {
            return Err(ActError::NotFound);
        }
        let kept = |value: &T| typed::keep(operation, value).map_err(ActError::ValueNotKept);
        let (outcome, kept, resource) = match verdict {
            Verdict::Succeeded { resource, value } => (Outcome::Succeeded, kept(&value)?, resource),
            Verdict::Rejected { value } => (Outcome::Rejected, kept(&value)?, None),
            Verdict::NotDone { .. } => (Outcome::NotDone, Kept::Nothing, None),
            Verdict::Unknown { .. } => (Outcome::Unknown, Kept::Nothing, None),
        };
        let settlement = onefold_engine::Settlement { outcome, kept, resource, reason, evidence, who };
        let companion = self.companions().of(operation);
        self.engine().settle_by_hand(id, settlement, companion.as_deref()).await
    }
}
