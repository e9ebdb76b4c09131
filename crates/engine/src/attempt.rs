//! An attempt that owns its operation: heartbeat, verdict, and what happens when the verdict cannot be stored.
//!
//! Whatever happens to an attempt, its record ends in one of three ways: settled by its verdict; `outcome_unknown`
//! (it was dropped, panicked, or its lease ended); or, when the contract says `resume`, free for the next attempt
//! under the same downstream key. A verdict that the store does not take is offered again in the background and
//! never turned into a failure (SEMANTICS 3, rule 7).

use std::sync::Arc;
use std::time::Duration;

use onefold_core::contract::OnStale;
use onefold_core::{
    EventKind, IdentityKey, Kept, Lease, NotKept, OperationId, Outcome, Record, Resource, State, StoreTime,
    downstream,
};
use onefold_store::{Advance, Advanced, Also, NewEvent, Read, Start, Step, StoreError};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::begin::next_attempt;
use crate::flight::{Flight, Leader};
use crate::hearts::Heart;
use crate::{Call, Companion, Engine};

/// What an attempt says about its effect, with what is to be kept.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Success, rejection, nothing done, or not known.
    pub outcome: Outcome,
    /// The result for duplicates.
    pub kept: Kept,
    /// What it brought forth.
    pub resource: Option<Resource>,
    /// Why, in words: for an unknown outcome.
    pub reason: String,
}

impl Verdict {
    /// The outcome is known and this is the result.
    pub fn known(outcome: Outcome, kept: Kept, resource: Option<Resource>) -> Verdict {
        Verdict { outcome, kept, resource, reason: String::new() }
    }

    /// Something may have happened.
    pub fn unknown(reason: impl Into<String>) -> Verdict {
        Verdict { outcome: Outcome::Unknown, kept: Kept::Nothing, resource: None, reason: reason.into() }
    }
}

/// What became of a verdict.
#[derive(Debug)]
pub enum Settled {
    /// It is durable; this is the record now.
    Recorded(Arc<Record>),
    /// A newer attempt has begun, or a person has settled the operation. A success is kept as evidence.
    Superseded(Box<Read>),
    /// The store did not take it. It is offered again in the background; nothing runs again by itself.
    NotStored(StoreError),
}

/// An attempt that owns its operation.
pub struct Attempt {
    parts: Option<Box<Parts>>,
}

pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) call: Call,
    pub(crate) record: Record,
    /// Gone once the outcome was reported as lost.
    pub(crate) leader: Option<Leader>,
    /// It follows an attempt whose outcome was lost, so nothing it did not do says that nothing happened.
    resumes: bool,
    /// `None` once it has stopped.
    heart: Option<Heart>,
    /// What is committed with its success or rejection.
    companion: Option<Arc<dyn Companion>>,
}

const THE_LAYER: &str = "onefold";

impl Engine {
    pub(crate) fn begun(&self, call: &Call, record: Record, leader: Leader, resumes: bool) -> Attempt {
        let signals = &self.0.signals;
        signals.bump(&signals.attempts_begun, &call.label);
        let lease = call.contract.lease;
        let begun = Instant::now();
        leader.flight().runs(Arc::new(record.clone()), begun + lease);
        let beating = heartbeat(self.clone(), record.id, record.attempt, lease, leader.flight().clone());
        let beat = |runtime: &Handle, first| {
            let beating = async move {
                sleep_until(first).await;
                beating.await;
            };
            runtime.spawn(beating).abort_handle()
        };
        let heart = Some(self.0.hearts.beat(begun + lease / 3, beat));
        let parts = Parts {
            engine: self.clone(),
            call: call.clone(),
            record,
            leader: Some(leader),
            resumes,
            heart,
            companion: None,
        };
        Attempt { parts: Some(Box::new(parts)) }
    }

    /// The process stops: what still runs here has an unknown outcome. Returns how many attempts that were.
    pub async fn abandon_running(&self) -> usize {
        let running: Vec<_> =
            self.0.flights.running().into_iter().filter(|record| record.owner == self.0.owner).collect();
        let mut cut_off = 0;
        for record in &running {
            let start = Start { states: &[State::Processing], attempt: record.attempt, also: Also::Nothing };
            let reason = "the process was stopped while the attempt was running";
            match self.0.store.advance(lost(record, start, reason)).await {
                Ok(Advanced::Done { .. }) => cut_off += 1,
                // It ended in the meantime, or pauses between two attempts: nothing was cut off.
                Ok(Advanced::Superseded(_) | Advanced::Missing) => {}
                Err(error) => {
                    cut_off += 1;
                    tracing::error!(operation = %record.id, %error, "an attempt that was cut off could not be marked");
                }
            }
        }
        cut_off
    }
}

fn lost(record: &Record, start: Start, reason: &str) -> Advance {
    let step = match record.on_stale {
        OnStale::Resume => Step::Lapse,
        OnStale::Unknown | OnStale::Reconcile => Step::LoseOutcome,
    };
    let event = NewEvent {
        kind: EventKind::Unknown,
        who: THE_LAYER.into(),
        reason: reason.into(),
        evidence: String::new(),
    };
    Advance { id: record.id, start, step, event: Some(event), if_superseded: None }
}

pub(crate) fn renewal(id: OperationId, attempt: u32, lease: Duration) -> Advance {
    let start = Start { states: &[State::Processing], attempt, also: Also::Nothing };
    Advance { id, start, step: Step::Renew { lease }, event: None, if_superseded: None }
}

/// Renews the lease at once and from then on.
async fn heartbeat(engine: Engine, id: OperationId, attempt: u32, lease: Duration, flight: Arc<Flight>) {
    loop {
        let from = Instant::now();
        match engine.0.store.advance(renewal(id, attempt, lease)).await {
            Ok(Advanced::Done { .. }) => flight.renewed(from + lease),
            Ok(Advanced::Superseded(read)) => {
                engine.0.signals.fenced_write();
                tracing::warn!(operation = %id, attempt, "the attempt was superseded while it was running");
                let Read { now, record } = *read;
                if let Some(record) = record {
                    engine.0.flights.taken(record, now);
                }
                return;
            }
            Ok(Advanced::Missing) => return engine.0.signals.fenced_write(),
            Err(error) => {
                engine.0.signals.store_error();
                tracing::warn!(operation = %id, attempt, %error, "the lease could not be renewed");
            }
        }
        sleep(lease / 3).await;
    }
}

impl Attempt {
    fn parts(&self) -> &Parts {
        self.parts.as_deref().expect("an attempt has its parts until it is settled")
    }

    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.parts().record.id
    }

    /// The number of this attempt: the fence.
    pub fn number(&self) -> u32 {
        self.parts().record.attempt
    }

    /// Whether it follows an attempt whose outcome was lost. Then "not done" speaks of this attempt alone and frees
    /// nothing (SEMANTICS 3, rule 1): the operation stays open for the next attempt under the same downstream key.
    pub fn resumes(&self) -> bool {
        self.parts().resumes
    }

    /// When the operation's record was made, by the store's clock.
    pub fn created_at(&self) -> StoreTime {
        self.parts().record.created_at
    }

    /// The key for one step's call to another system: the same in every attempt.
    pub fn downstream_key(&self, step: &str, secret: &IdentityKey) -> String {
        downstream::key(self.id(), step, secret)
    }

    /// Reports what happened. The answer says whether that is durable.
    ///
    /// Cancellation: a dropped call leaves the verdict either durable or lost; a lost one becomes
    /// `outcome_unknown` when the lease ends.
    pub async fn settle(mut self, verdict: Verdict) -> Settled {
        let mut parts = self.parts.take().expect("an attempt is settled once");
        parts.heart = None;
        let verdict = parts.of_all_attempts(verdict);
        parts.settle(verdict).await
    }

    /// The same; a success and a rejection are durable together with this, or not at all.
    ///
    /// Cancellation: the same.
    pub async fn settle_with(mut self, verdict: Verdict, companion: Arc<dyn Companion>) -> Settled {
        let parts = self.parts.as_deref_mut().expect("an attempt has its parts until it is settled");
        parts.companion = Some(companion);
        self.settle(verdict).await
    }

    /// Reports that the outcome is lost although this attempt still listens: everybody who waits is told so. A
    /// later [`Attempt::settle`] still settles the operation, unless a newer attempt or a person was faster.
    pub async fn lose(&mut self, reason: &str) {
        let parts = self.parts.as_deref_mut().expect("an attempt has its parts until it is settled");
        parts.heart = None;
        parts.lose(reason).await;
    }

    /// Reports that nothing happened, pauses, and begins the next attempt: an automatic one. The attempt is given
    /// back with `Err` of where the operation stands when somebody else was faster or this attempt was the last.
    pub async fn again(mut self, pause: Duration) -> Result<Attempt, Settled> {
        let mut parts = self.parts.take().expect("an attempt is settled once");
        parts.heart = None;
        if parts.resumes {
            let verdict = parts.of_all_attempts(Verdict::known(Outcome::NotDone, Kept::Nothing, None));
            return Err(parts.settle(verdict).await);
        }
        parts.again(pause).await
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(mut parts) = self.parts.take() else { return };
        parts.heart = None;
        if parts.leader.is_none() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let verdict = Verdict::unknown("the attempt ended without an outcome");
            runtime.spawn(async move { parts.settle(verdict).await });
        }
    }
}

impl Parts {
    /// What this attempt's verdict says about the operation, earlier attempts included.
    fn of_all_attempts(&self, verdict: Verdict) -> Verdict {
        if self.resumes && verdict.outcome == Outcome::NotDone {
            return Verdict::unknown("this attempt did nothing; the outcome of an earlier one is not known");
        }
        verdict
    }

    async fn lose(&mut self, reason: &str) {
        let Some(leader) = self.leader.take() else { return };
        let start = Start { states: &[State::Processing], attempt: self.record.attempt, also: Also::Nothing };
        match self.engine.0.store.advance(lost(&self.record, start, reason)).await {
            Ok(Advanced::Done { now, .. }) => {
                self.outcome_lost(reason);
                leader.end(Arc::new(self.without_outcome()), now);
            }
            Ok(Advanced::Superseded(_) | Advanced::Missing) => self.engine.0.signals.fenced_write(),
            Err(error) => {
                self.engine.0.signals.store_error();
                tracing::warn!(operation = %self.record.id, %error, "the lost outcome could not be marked; the lease will end");
            }
        }
    }

    fn outcome_lost(&self, reason: &str) {
        let signals = &self.engine.0.signals;
        signals.bump(&signals.outcomes_lost, &self.call.label);
        let (id, attempt, name) = (self.record.id, self.record.attempt, &*self.call.label);
        tracing::warn!(operation = %id, name, attempt, reason, "the outcome of an attempt is not known");
    }

    fn without_outcome(&self) -> Record {
        let (state, lease) = match self.record.on_stale {
            OnStale::Resume => (State::Processing, Lease::Over),
            OnStale::Unknown | OnStale::Reconcile => (State::OutcomeUnknown, Lease::None),
        };
        Record { state, lease, ..self.record.clone() }
    }

    async fn settle(self, verdict: Verdict) -> Settled {
        let asked = Instant::now();
        match self.report(&verdict, self.transition(&verdict)).await {
            Ok(advanced) => self.settled(verdict, advanced, asked),
            Err(error) => {
                let signals = &self.engine.0.signals;
                signals.store_error();
                signals.bump(&signals.result_not_stored, &self.call.label);
                tracing::error!(operation = %self.record.id, %error, "the outcome could not be stored; it is offered again");
                let verdict = match (&error, verdict) {
                    (StoreError::Refused(_), mut refused) if self.companion.is_none() => {
                        refused.kept =
                            Kept::NotKept { status: status(&refused.kept), why: NotKept::NotStored };
                        refused
                    }
                    (_, verdict) => verdict,
                };
                tokio::spawn(self.offer_again(verdict));
                Settled::NotStored(error)
            }
        }
    }

    /// Carries out the transition of a verdict, with what is committed with it.
    pub(crate) async fn report(&self, verdict: &Verdict, advance: Advance) -> Result<Advanced, StoreError> {
        match (&self.companion, verdict.outcome) {
            (Some(companion), Outcome::Succeeded | Outcome::Rejected) => {
                companion.settle(&self.record, advance).await
            }
            _ => self.engine.0.store.advance(advance).await,
        }
    }

    pub(crate) fn transition(&self, verdict: &Verdict) -> Advance {
        let reported = Start {
            states: &[State::Processing, State::OutcomeUnknown],
            attempt: self.record.attempt,
            also: Also::Nothing,
        };
        if verdict.outcome == Outcome::Unknown {
            let start = Start { states: &[State::Processing], ..reported };
            return lost(&self.record, start, &verdict.reason);
        }
        let state = verdict.outcome.state();
        let step = Step::Settle { state, kept: self.kept(verdict), resource: verdict.resource.clone() };
        let happened = verdict.outcome == Outcome::Succeeded;
        // Its own success counts more than what a reconciler found about it.
        let also = if happened { Also::OrReconciled } else { Also::Nothing };
        let evidence = happened.then(|| NewEvent {
            kind: EventKind::LateSuccess,
            who: THE_LAYER.into(),
            reason: format!("attempt {} reported a success after it was superseded", self.record.attempt),
            evidence: status(&verdict.kept).map(|s| format!("status {s}")).unwrap_or_default(),
        });
        let start = Start { also, ..reported };
        Advance { id: self.record.id, start, step, event: None, if_superseded: evidence }
    }

    /// A free key keeps no result, unless no attempt is left to make another.
    pub(crate) fn kept(&self, verdict: &Verdict) -> Kept {
        if self.keeps(verdict) { verdict.kept.clone() } else { Kept::Nothing }
    }

    fn keeps(&self, verdict: &Verdict) -> bool {
        verdict.outcome != Outcome::NotDone || self.call.contract.exhausted(self.record.attempt)
    }

    pub(crate) fn settled(self, verdict: Verdict, advanced: Advanced, asked: Instant) -> Settled {
        let signals = &self.engine.0.signals;
        let (now, expires_at) = match advanced {
            Advanced::Done { now, expires_at } => (now, expires_at),
            Advanced::Superseded(read) => {
                signals.fenced_write();
                if verdict.outcome == Outcome::Succeeded {
                    signals.bump(&signals.late_successes, &self.call.label);
                    tracing::error!(
                        operation = %self.record.id, attempt = self.record.attempt,
                        "a superseded attempt came back with a success: suspected double effect",
                    );
                }
                return Settled::Superseded(read);
            }
            Advanced::Missing => {
                signals.fenced_write();
                return Settled::Superseded(Box::new(Read { now: self.record.created_at, record: None }));
            }
        };
        let record = if verdict.outcome == Outcome::Unknown {
            self.outcome_lost(&verdict.reason);
            self.without_outcome()
        } else {
            let kept = if self.keeps(&verdict) { verdict.kept } else { Kept::Nothing };
            let state = verdict.outcome.state();
            let resource = verdict.resource;
            Record {
                state,
                lease: Lease::None,
                kept,
                resource,
                completed_at: Some(now),
                expires_at,
                ..self.record
            }
        };
        let record = Arc::new(record);
        self.engine.0.finished.put(&record, now, asked);
        if let Some(leader) = self.leader {
            leader.end(record.clone(), now);
        }
        Settled::Recorded(record)
    }

    async fn again(mut self, pause: Duration) -> Result<Attempt, Settled> {
        let nothing = Verdict::known(Outcome::NotDone, Kept::Nothing, None);
        if self.call.contract.exhausted(self.record.attempt) {
            return Err(self.settle(nothing).await);
        }
        let asked = Instant::now();
        let freed = match self.engine.0.store.advance(self.transition(&nothing)).await {
            Ok(advanced @ Advanced::Done { .. }) => advanced,
            Ok(other) => return Err(self.settled(nothing, other, asked)),
            Err(error) => {
                self.engine.0.signals.store_error();
                tokio::spawn(self.offer_again(nothing));
                return Err(Settled::NotStored(error));
            }
        };
        let Advanced::Done { now, expires_at } = freed else { unreachable!("matched above") };
        self.record = Record {
            state: State::Failed,
            lease: Lease::None,
            completed_at: Some(now),
            expires_at,
            ..self.record
        };
        sleep(pause).await;
        match self.engine.begin_next(&self.call, &self.record, now).await {
            Ok(Advanced::Done { now, .. }) => {
                let record = next_attempt(&self.call, self.record, &self.engine.0.owner, now);
                let leader = self.leader.expect("an automatic attempt follows one that leads");
                Ok(self.engine.begun(&self.call, record, leader, false))
            }
            Ok(Advanced::Superseded(read)) => Err(Settled::Superseded(read)),
            Ok(Advanced::Missing) => Err(Settled::Superseded(Box::new(Read { now, record: None }))),
            Err(crate::Refusal::Store(error)) => Err(Settled::NotStored(error)),
            Err(crate::Refusal::TooManyKeys) => unreachable!("only a claim asks for the quota"),
        }
    }
}

fn status(kept: &Kept) -> Option<u16> {
    match kept {
        Kept::Full(answer) | Kept::Reference(answer) => Some(answer.status),
        Kept::NotKept { status, .. } => *status,
        Kept::Nothing | Kept::Value(_) => None,
    }
}
