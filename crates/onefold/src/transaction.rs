//! Atomic mode in a transaction that the caller owns: claim, business, finish, commit.
//!
//! The record becomes visible with the caller's commit, and goes with the caller's rollback. Losing the claim does not
//! harm the transaction. A claim that is committed without its end is an attempt whose outcome is unknown once its lease
//! ends. Duplicates wait on SQLite's one write lock, so begin the transaction `IMMEDIATE`.

use onefold_core::{Kept, Outcome, State};
use onefold_engine::Stood;
use onefold_store::{Advance, Advanced, Also, Claimed as Won, Start, Step, StoreError};
use rusqlite::Transaction;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::atomic::known_to;
use crate::{Call, CallError, Done, Onefold, Operation, OperationId, Recorded, Verdict, typed};

/// What a claim in the caller's transaction has found.
#[derive(Debug)]
pub enum Claim<T> {
    /// The operation is yours: do it, then [finish](Claimed::finish) it, in the same transaction.
    Yours(Claimed),
    /// It was finished before.
    Known(Done<T>),
}

/// An operation that was claimed in the caller's transaction.
#[derive(Debug)]
#[must_use = "an operation that is committed without its end has an unknown outcome"]
pub struct Claimed {
    operation: Operation,
    id: OperationId,
    attempt: u32,
}

impl Onefold {
    /// Claims the operation in a transaction that the caller owns, on the same file. Blocks as any statement does.
    ///
    /// Refused where a commit of that connection would not be durable: the journal must be the write-ahead log and
    /// `synchronous` at least `FULL`.
    pub fn claim<T: DeserializeOwned>(
        &self,
        transaction: &Transaction<'_>,
        call: &Call,
    ) -> Result<Claim<T>, CallError> {
        let (engine, store) = (self.engine(), self.store());
        let asked = call.for_engine(engine.identity_key());
        let claim = engine.claim_of(&asked);
        let id = claim.id;
        let yours = |attempt| Claim::Yours(Claimed { operation: call.operation.clone(), id, attempt });
        let mut found = match store.claim_in(transaction, claim).map_err(unavailable)? {
            Won::Won { .. } => return Ok(yours(1)),
            Won::Exists(read) => *read,
            Won::KeyTooOld { now } => onefold_store::Read { now, record: None },
            Won::QuotaReached => return Err(CallError::TooManyKeys),
        };
        loop {
            let advance = match engine.stood(&asked, found) {
                Stood::Known(known) => return known_to(&call.operation, &known).map(Claim::Known),
                Stood::Free(advance) => advance,
            };
            let attempt = advance.start.attempt + 1;
            match store.advance_in(transaction, *advance).map_err(unavailable)? {
                Advanced::Done { .. } => return Ok(yours(attempt)),
                Advanced::Superseded(read) => found = *read,
                Advanced::Missing => {
                    return Err(unavailable(StoreError::Unavailable("the record is gone".into())));
                }
            }
        }
    }
}

impl Claimed {
    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.id
    }

    /// The number of the attempt.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Writes the end of the operation into the transaction; the caller commits it.
    ///
    /// An error says that nothing is done: roll the transaction back. What was written before a rejection is the caller's
    /// to undo, for instance with a savepoint of its own.
    pub fn finish<T: Serialize + DeserializeOwned>(
        self,
        onefold: &Onefold,
        transaction: &Transaction<'_>,
        verdict: Verdict<T>,
    ) -> Result<Done<T>, CallError> {
        let (outcome, value, resource) = match verdict {
            Verdict::Succeeded { resource, value } => (Outcome::Succeeded, value, resource),
            Verdict::Rejected { value } => (Outcome::Rejected, value, None),
            Verdict::NotDone { error, retryable } => return Err(CallError::NotDone { error, retryable }),
            Verdict::Unknown { error } => return Err(CallError::NotDone { error, retryable: true }),
        };
        let kept: Kept = typed::keep(&self.operation, &value).map_err(|why| CallError::NotDone {
            error: format!("the result cannot be kept: {why}").into(),
            retryable: false,
        })?;
        let (id, attempt) = (self.id, self.attempt);
        let start = Start { states: &[State::Processing], attempt, also: Also::Nothing };
        let step = Step::Settle { state: outcome.state(), kept, resource: resource.clone() };
        let advance = Advance { id, start, step, event: None, if_superseded: None };
        match onefold.store().advance_in(transaction, advance).map_err(unavailable)? {
            Advanced::Done { .. } => {
                let rejected = outcome == Outcome::Rejected;
                let recorded = Recorded::Durably;
                Ok(Done { value, rejected, replayed: false, recorded, id, attempt, resource })
            }
            Advanced::Superseded(_) | Advanced::Missing => Err(CallError::NotDone {
                error: "the operation is not in this transaction".into(),
                retryable: true,
            }),
        }
    }
}

fn unavailable(error: StoreError) -> CallError {
    CallError::StoreUnavailable(error.to_string())
}
