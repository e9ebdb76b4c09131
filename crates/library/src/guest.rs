//! Atomic mode in a transaction of the caller's, step by step: for adapters that speak to the database over another
//! driver. Services use [`Onefold::claim`](crate::Onefold::claim) or an adapter.
//!
//! An adapter carries out what is asked for here, each time in the same transaction, and hands the answer back. Nothing
//! here waits or speaks to a database.

use onefold_core::{Kept, Outcome, Resource, State};
use onefold_engine::{Engine, Stood};
use onefold_store::{Advance, Advanced, Also, Claim, Claimed as Won, Read, Start, Step, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::atomic::known_to;
use crate::{Call, CallError, Done, Operation, OperationId, Recorded, Verdict, typed};

/// What is to be done after a claim or a beginning.
#[derive(Debug)]
pub enum Next<T> {
    /// Nothing: the operation is begun, and its work may run.
    Begun(Begun),
    /// Nothing: it was finished before.
    Known(Done<T>),
    /// This transition, which begins it; then [`Entering::began`].
    Begin(Box<Advance>),
}

/// A call on its way into a transaction.
pub struct Entering {
    engine: Engine,
    asked: onefold_engine::Call,
    operation: Operation,
    id: OperationId,
    attempt: u32,
}

impl Entering {
    /// The claim with which it begins; then [`Entering::claimed`].
    pub fn new(engine: &Engine, call: &Call) -> (Entering, Claim) {
        let asked = call.for_engine(engine.identity_key());
        let claim = engine.claim_of(&asked);
        let (operation, id) = (call.operation.clone(), claim.id);
        (Entering { engine: engine.clone(), asked, operation, id, attempt: 1 }, claim)
    }

    /// What the claim has found.
    pub fn claimed<T: DeserializeOwned>(&mut self, won: Won) -> Result<Next<T>, CallError> {
        match won {
            Won::Won { .. } => Ok(Next::Begun(self.begun())),
            Won::Exists(read) => self.stands(*read),
            Won::KeyTooOld { now } => self.stands(Read { now, record: None }),
            Won::QuotaReached => Err(CallError::TooManyKeys),
        }
    }

    /// What became of the transition that was to begin it.
    pub fn began<T: DeserializeOwned>(&mut self, advanced: Advanced) -> Result<Next<T>, CallError> {
        match advanced {
            Advanced::Done { .. } => Ok(Next::Begun(self.begun())),
            Advanced::Superseded(read) => self.stands(*read),
            Advanced::Missing => Err(unavailable(StoreError::Unavailable("the record is gone".into()))),
        }
    }

    fn stands<T: DeserializeOwned>(&mut self, read: Read) -> Result<Next<T>, CallError> {
        match self.engine.stood(&self.asked, read) {
            Stood::Known(known) => known_to(&self.operation, &known).map(Next::Known),
            Stood::Free(advance) => {
                self.attempt = advance.start.attempt + 1;
                Ok(Next::Begin(advance))
            }
        }
    }

    fn begun(&self) -> Begun {
        Begun { operation: self.operation.clone(), id: self.id, attempt: self.attempt }
    }
}

/// An operation that is begun in the caller's transaction.
#[derive(Debug)]
#[must_use = "an operation that is committed without its end has an unknown outcome"]
pub struct Begun {
    operation: Operation,
    id: OperationId,
    attempt: u32,
}

impl Begun {
    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.id
    }

    /// The number of the attempt.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The transition that ends it; then [`Ending::ended`]. An error says that nothing is done: roll back.
    pub fn ending<T>(self, verdict: Verdict<T>) -> Result<(Ending<T>, Advance), CallError>
    where
        T: Serialize + DeserializeOwned,
    {
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
        let rejected = outcome == Outcome::Rejected;
        Ok((Ending { id, attempt, value, rejected, resource }, advance))
    }
}

/// An operation whose end is being written.
#[derive(Debug)]
pub struct Ending<T> {
    id: OperationId,
    attempt: u32,
    value: T,
    rejected: bool,
    resource: Option<Resource>,
}

impl<T> Ending<T> {
    /// What became of the transition. The result is true once the caller has committed.
    pub fn ended(self, advanced: Advanced) -> Result<Done<T>, CallError> {
        let Ending { id, attempt, value, rejected, resource } = self;
        match advanced {
            Advanced::Done { .. } => {
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

pub(crate) fn unavailable(error: StoreError) -> CallError {
    CallError::StoreUnavailable(error.to_string())
}
