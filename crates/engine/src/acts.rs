//! What people do to records: look, settle an unknown outcome, take an operation from its attempt (SEMANTICS 12).
//!
//! Every act needs a reason, is conditional like any other transition, and is kept with the record in the same
//! commit. A person never frees an operation by releasing it: it becomes `outcome_unknown`.

use std::time::Duration;

use onefold_core::{
    Answer, Event, EventKind, Kept, Lease, NotKept, OperationId, Outcome, Reconciliation, Record, Resource,
    State, StoreTime,
};
use onefold_store::{Advance, Advanced, Also, NewEvent, Page, Query, Start, Step, StoreError};

use crate::{Companion, Engine};

/// How a person settles an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolvedAs {
    /// It happened.
    Succeeded,
    /// It did not; the key is free.
    Failed,
}

/// A person's word on an unknown outcome.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// What happened.
    pub resolved_as: ResolvedAs,
    /// Why; required.
    pub reason: String,
    /// What shows it; required.
    pub evidence: String,
    /// What it brought forth.
    pub resource: Option<Resource>,
    /// The answer that duplicates get from now on.
    pub answer: Option<Answer>,
    /// Who says so.
    pub who: String,
}

/// A person's word on an unknown outcome, with the result as it is kept: for a surface that knows what results are.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// What happened: succeeded, rejected, or nothing (the key is free then).
    pub outcome: Outcome,
    /// The result that duplicates get from now on.
    pub kept: Kept,
    /// What it brought forth.
    pub resource: Option<Resource>,
    /// Why; required.
    pub reason: String,
    /// What shows it; required.
    pub evidence: String,
    /// Who says so.
    pub who: String,
}

/// A person takes the operation from its attempt.
#[derive(Clone, Debug)]
pub struct Release {
    /// Why; required.
    pub reason: String,
    /// Also when the attempt is alive.
    pub force: bool,
    /// Who says so.
    pub who: String,
}

/// A record with its history.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The store's time of reading.
    pub now: StoreTime,
    /// The record.
    pub record: Record,
    /// What happened to it, oldest first.
    pub events: Vec<Event>,
}

/// Why an act was refused; nothing changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ActError {
    /// There is no such operation.
    #[error("there is no such operation")]
    NotFound,
    /// It is in a state in which there is nothing to do.
    #[error("the operation is {state}; there is nothing to settle or to release")]
    NotUnknown {
        /// Its state.
        state: State,
    },
    /// It is to be released and its outcome is unknown already.
    #[error("the operation is outcome_unknown already; resolve settles it")]
    AlreadyUnknown,
    /// Its attempt is alive.
    #[error("attempt {attempt} is alive; its lease runs for {} ms more", .left.as_millis())]
    OwnerAlive {
        /// The attempt.
        attempt: u32,
        /// What is left of its lease.
        left: Duration,
    },
    /// A required text is missing.
    #[error("{0} is required: it is kept with the record")]
    TextMissing(&'static str),
    /// An answer or a resource was given for an operation that is settled as failed.
    #[error("what failed has no answer and no resource: its key is free for another attempt")]
    NothingToKeep,
    /// Its service writes rows of its own with the outcome, which only the service can.
    #[error(
        "the service of {operation} writes rows of its own with its outcome: settle it through the service, or \
         release it, so that the service's reconciler looks again"
    )]
    HasCompanion {
        /// Its name.
        operation: String,
    },
    /// Nobody settles an operation as not known.
    #[error("say what happened: an outcome that is not known settles nothing")]
    NothingSaid,
    /// The result that a person gave cannot be kept.
    #[error("the result cannot be kept: {0}")]
    ValueNotKept(String),
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// One page of records, oldest first.
    pub async fn list(&self, query: Query) -> Result<Page, StoreError> {
        self.0.store.list(query).await
    }

    /// A record without its history, with the store's time of reading: what its caller may see.
    pub async fn look(&self, id: OperationId) -> Result<Option<(Record, StoreTime)>, StoreError> {
        let read = self.0.store.read(id).await?;
        Ok(read.record.map(|record| (record, read.now)))
    }

    /// A record with its history.
    pub async fn show(&self, id: OperationId) -> Result<Option<Shown>, StoreError> {
        let read = self.0.store.read(id).await?;
        let Some(record) = read.record else { return Ok(None) };
        let events = self.0.store.events(id).await?;
        Ok(Some(Shown { now: read.now, record, events }))
    }

    /// Settles an operation whose outcome is unknown, or whose attempt left without one.
    pub async fn resolve(&self, id: OperationId, resolution: Resolution) -> Result<Shown, ActError> {
        required("a reason", &resolution.reason)?;
        required("evidence", &resolution.evidence)?;
        if resolution.resolved_as == ResolvedAs::Failed
            && (resolution.answer.is_some() || resolution.resource.is_some())
        {
            return Err(ActError::NothingToKeep);
        }
        let state = match resolution.resolved_as {
            ResolvedAs::Succeeded => State::Succeeded,
            ResolvedAs::Failed => State::Failed,
        };
        if state == State::Succeeded
            && let Some(record) = self.0.store.read(id).await?.record
            && self.0.store.has_companion(&record.operation).await?
        {
            return Err(ActError::HasCompanion { operation: record.operation });
        }
        let kept = match (state, resolution.answer) {
            (State::Succeeded, Some(answer)) => Kept::Full(answer),
            (State::Succeeded, None) => Kept::NotKept { status: None, why: NotKept::Settled },
            _ => Kept::Nothing,
        };
        let step = Step::Settle { state, kept, resource: resolution.resource };
        let event = resolved(state, resolution.who, &resolution.reason, resolution.evidence);
        self.act(id, step, event, None, may_be_settled).await
    }

    /// Settles an operation whose outcome is unknown, or whose attempt left without one, together with its companion,
    /// if it has one. Durable together or not at all.
    pub async fn settle_by_hand(
        &self,
        id: OperationId,
        settlement: Settlement,
        companion: Option<&dyn Companion>,
    ) -> Result<Shown, ActError> {
        let Settlement { outcome, kept, resource, reason, evidence, who } = settlement;
        required("a reason", &reason)?;
        required("evidence", &evidence)?;
        let state = outcome.state();
        let companion = match outcome {
            Outcome::Succeeded | Outcome::Rejected => companion,
            Outcome::NotDone => None,
            Outcome::Unknown => return Err(ActError::NothingSaid),
        };
        let event = resolved(state, who, &reason, evidence);
        self.act(id, Step::Settle { state, kept, resource }, event, companion, may_be_settled).await
    }

    /// Takes the operation from its attempt: it becomes `outcome_unknown`, never free. One that a reconciler has given
    /// up, or let be retried, is asked about from the beginning.
    pub async fn release(&self, id: OperationId, release: Release) -> Result<Shown, ActError> {
        required("a reason", &release.reason)?;
        let event = NewEvent {
            kind: EventKind::Released,
            who: release.who,
            reason: release.reason,
            evidence: String::new(),
        };
        let force = release.force;
        self.act(id, Step::LoseOutcome, event, None, |record| match (record.state, record.lease) {
            (State::Processing, Lease::Alive(left)) if !force => {
                Err(ActError::OwnerAlive { attempt: record.attempt, left })
            }
            (State::Processing, _) => {
                Ok((&[State::Processing], if force { Also::Nothing } else { Also::LeaseOver }))
            }
            (State::Received, _) => Ok((&[State::Received], Also::Nothing)),
            // Settled as failed by mistake, and nobody has begun again.
            (State::Failed, _) if record.key.is_some() => Ok((&[State::Failed], Also::Nothing)),
            // A reconciler is done with it: it is asked again from the beginning.
            (State::OutcomeUnknown, _) if record.reconciliation != Reconciliation::Open => {
                Ok((&[State::OutcomeUnknown], Also::Nothing))
            }
            (State::OutcomeUnknown, _) => Err(ActError::AlreadyUnknown),
            (state, _) => Err(ActError::NotUnknown { state }),
        })
        .await
    }

    async fn act(
        &self,
        id: OperationId,
        step: Step,
        event: NewEvent,
        companion: Option<&dyn Companion>,
        start: impl Fn(&Record) -> Result<(&'static [State], Also), ActError>,
    ) -> Result<Shown, ActError> {
        let mut read = self.0.store.read(id).await?;
        loop {
            let record = read.record.as_ref().ok_or(ActError::NotFound)?;
            let (states, also) = start(record)?;
            let advance = Advance {
                id,
                start: Start { states, attempt: record.attempt, also },
                step: step.clone(),
                event: Some(event.clone()),
                if_superseded: None,
            };
            let advanced = match companion {
                Some(companion) => companion.settle(record, advance).await?,
                None => self.0.store.advance(advance).await?,
            };
            match advanced {
                Advanced::Done { .. } => {
                    let shown = self.show(id).await?.ok_or(ActError::NotFound)?;
                    tracing::info!(operation = %id, state = %shown.record.state, who = event.who, "an operator acted");
                    self.0.flights.taken(shown.record.clone(), shown.now);
                    return Ok(shown);
                }
                Advanced::Superseded(found) => read = *found,
                Advanced::Missing => return Err(ActError::NotFound),
            }
        }
    }
}

/// From where a person's word settles an operation.
fn may_be_settled(record: &Record) -> Result<(&'static [State], Also), ActError> {
    match (record.state, record.lease) {
        (State::OutcomeUnknown, _) => Ok((&[State::OutcomeUnknown], Also::Nothing)),
        (State::Processing, Lease::Alive(left)) => {
            Err(ActError::OwnerAlive { attempt: record.attempt, left })
        }
        (State::Processing, _) => Ok((&[State::Processing], Also::LeaseOver)),
        (state, _) => Err(ActError::NotUnknown { state }),
    }
}

fn resolved(state: State, who: String, reason: &str, evidence: String) -> NewEvent {
    NewEvent { kind: EventKind::Resolved, who, reason: format!("as {state}: {reason}"), evidence }
}

fn required(what: &'static str, text: &str) -> Result<(), ActError> {
    if text.trim().is_empty() { Err(ActError::TextMissing(what)) } else { Ok(()) }
}
