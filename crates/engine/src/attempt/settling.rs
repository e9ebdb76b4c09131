//! The transition that a verdict is, and what follows from the store's answer; outcomes that are lost.
//!
//! A crash before the transition is stored leaves the attempt to its lease: whoever comes after that finds it lost.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::contract::OnStale;
use onefold_core::{EventKind, Kept, Lease, NotKept, Outcome, Record, State};
use onefold_store::{Advance, Advanced, Also, NewEvent, Read, Start, Step, StoreError};
use tokio::time::{Instant, sleep};

use super::{Attempt, Parts, Settled, Verdict};
use crate::Engine;
use crate::begin::next_attempt;
use crate::forsaken::is_of;

const THE_LAYER: &str = "onefold";

impl Engine {
    /// The process stops: what still runs here has an unknown outcome. Returns how many attempts that were.
    pub async fn abandon_running(&self) -> usize {
        let running: Vec<_> = self
            .0
            .flights
            .running()
            .into_iter()
            .filter(|record| is_of(&record.owner, &self.0.owner))
            .collect();
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

impl Parts {
    /// What this attempt's verdict says about the operation, earlier attempts included.
    pub(super) fn of_all_attempts(&self, verdict: Verdict) -> Verdict {
        if self.resumes && verdict.outcome == Outcome::NotDone {
            return Verdict::unknown("this attempt did nothing; the outcome of an earlier one is not known");
        }
        verdict
    }

    pub(super) async fn lose(&mut self, reason: &str) {
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

    pub(super) async fn settle(self, verdict: Verdict) -> Settled {
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

    pub(super) async fn again(mut self, pause: Duration) -> Result<Attempt, Settled> {
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
            Ok((Advanced::Done { now, .. }, owner)) => {
                let record = next_attempt(&self.call, self.record, owner, now);
                let leader = self.leader.expect("an automatic attempt follows one that leads");
                Ok(self.engine.begun(&self.call, record, leader, false))
            }
            Ok((Advanced::Superseded(read), _)) => Err(Settled::Superseded(read)),
            Ok((Advanced::Missing, _)) => Err(Settled::Superseded(Box::new(Read { now, record: None }))),
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
