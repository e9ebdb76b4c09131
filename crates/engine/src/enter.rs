//! The way of one request into its operation: from memory, from a running flight, or from the store.
//!
//! Every way ends in [`decide`]; here stands only who is asked first and who waits.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use onefold_core::contract::WhileRunning;
use onefold_core::{Counters, Decision, EventKind, Lease, OperationId, Record, State, StoreTime, decide};
use onefold_store::{Advance, Advanced, Also, Claimed, NewEvent, Read, Start, Step};
use tokio::time::{Instant, sleep, timeout_at};

use crate::begin::{first_attempt, next_attempt, request};
use crate::flight::{Flight, Joined, Leader, Stage, WaitPlace, seen_running};
use crate::limits::{POLL_MAX, POLL_MIN};
use crate::{Call, Engine, Entered, Known, Refusal};

/// How long this request still waits, and whether its caller is still there.
pub(crate) struct Patience<'a> {
    pub(crate) until: Option<Instant>,
    pub(crate) gone: Pin<&'a mut (dyn Future<Output = ()> + Send)>,
    pub(crate) place: Option<WaitPlace>,
}

impl Engine {
    /// Where a finished operation stands, if that is known without asking the store and without waiting.
    pub fn recall(&self, call: &Call) -> Option<Known> {
        let id = call.identity.id(self.identity_key(), call.contract.key.time);
        let (record, now) = self.0.finished.get(id)?;
        self.known(call, id, Some(record), now)
    }

    /// Enters an operation: gives an attempt to perform, or says where the operation stands.
    ///
    /// As a duplicate it waits as the contract says, but no longer than `gone` is pending. Run it in a task of its
    /// own: cancelled in the middle of a claim it leaves a record that nobody performs, which this process frees when it
    /// sees it, and which otherwise becomes `outcome_unknown` when its lease ends.
    pub async fn enter(
        &self,
        call: &Call,
        gone: impl Future<Output = ()> + Send,
    ) -> Result<Entered, Refusal> {
        let id = call.identity.id(self.identity_key(), call.contract.key.time);
        let mut patience = Patience {
            until: match call.contract.while_running {
                WhileRunning::Wait(wait) => Some(Instant::now() + wait),
                WhileRunning::Busy | WhileRunning::Accepted => None,
            },
            gone: pin!(gone),
            place: None,
        };
        loop {
            if let Some((record, now)) = self.0.finished.get(id)
                && let Some(known) = self.known(call, id, Some(record), now)
            {
                return Ok(Entered::Known(known));
            }
            let entered = match self.0.flights.join(id) {
                Joined::Leader(leader) => self.lead(call, id, leader, &mut patience).await?,
                Joined::Follower(flight) => self.follow(call, id, &flight, &mut patience).await?,
            };
            if let Some(entered) = entered {
                return Ok(entered);
            }
        }
    }

    /// `None` when the decision is to begin: somebody must ask the store.
    pub(crate) fn known(
        &self,
        call: &Call,
        id: OperationId,
        record: Option<Arc<Record>>,
        now: StoreTime,
    ) -> Option<Known> {
        let decision = decide(record.as_deref(), &request(call), &call.contract, now);
        match decision {
            Decision::Begin | Decision::TakeOver { .. } => None,
            decision => {
                let known = Known { id, decision, record, now };
                self.note(call, &known);
                Some(known)
            }
        }
    }

    pub(crate) fn note(&self, call: &Call, known: &Known) {
        let signals = &self.0.signals;
        let count = |add: fn(&mut Counters)| self.0.tally.add(known.id, add);
        if !matches!(known.decision, Decision::Conflict { .. } | Decision::Expired(_)) {
            signals.bump(&signals.duplicates, &call.label);
        }
        match known.decision {
            Decision::Replay => {
                signals.bump(&signals.replays, &call.label);
                count(|c| {
                    c.duplicates += 1;
                    c.replays += 1;
                });
            }
            Decision::Conflict { .. } => {
                signals.bump(&signals.conflicts, &call.label);
                count(|c| c.conflicts += 1);
            }
            Decision::Busy { .. } | Decision::Pending => {
                signals.bump(&signals.busy, &call.label);
                count(|c| c.duplicates += 1);
            }
            Decision::Expired(_) => signals.bump(&signals.expired_keys, &call.label),
            _ => count(|c| c.duplicates += 1),
        }
    }

    /// Learns from a flight of this process. `None`: ask the store oneself.
    pub(crate) async fn follow(
        &self,
        call: &Call,
        id: OperationId,
        flight: &Arc<Flight>,
        patience: &mut Patience<'_>,
    ) -> Result<Option<Entered>, Refusal> {
        let mut stages = flight.subscribe();
        loop {
            let stage = stages.borrow_and_update().clone();
            let known = match stage {
                Stage::Asking => {
                    if stages.changed().await.is_err() {
                        return Ok(None);
                    }
                    continue;
                }
                Stage::Running { record, until } => {
                    let seen = seen_running(&record, until);
                    let now = seen.begun_at.unwrap_or(seen.created_at);
                    let decision = decide(Some(&seen), &request(call), &call.contract, now);
                    if matches!(decision, Decision::Busy { .. })
                        && patience.wait(self, flight, stages.changed()).await
                    {
                        continue;
                    }
                    match decision {
                        // A lease that is over is for the store to judge; wait for the leader's word.
                        Decision::Unknown
                        | Decision::Reconcile
                        | Decision::TakeOver { .. }
                        | Decision::NeedsOperator => {
                            let retry_after = onefold_core::retry::RETRY_AFTER_MIN;
                            Known {
                                id,
                                decision: Decision::Busy { retry_after },
                                record: Some(Arc::new(seen)),
                                now,
                            }
                        }
                        decision => Known { id, decision, record: Some(Arc::new(seen)), now },
                    }
                }
                // Another attempt has taken over and is running: wait for that one.
                Stage::Ended { record, .. } if record.lease.is_alive() => return Ok(None),
                Stage::Ended { record, now } => {
                    return Ok(self.known(call, id, Some(record), now).map(Entered::Known));
                }
                Stage::Refused(refusal) => return Err(refusal),
                Stage::Gone => return Ok(None),
            };
            self.note(call, &known);
            return Ok(Some(Entered::Known(known)));
        }
    }

    /// Asks the store for all who follow. `None`: the record changed hands, try again.
    async fn lead(
        &self,
        call: &Call,
        id: OperationId,
        leader: Leader,
        patience: &mut Patience<'_>,
    ) -> Result<Option<Entered>, Refusal> {
        let mut asked = Instant::now();
        let mut found: Option<Read> = None;
        let mut pause = POLL_MIN;
        loop {
            let Some(mut read) = found.take() else {
                // Most requests are new: the claim says so, or brings the record that stands in its way.
                asked = Instant::now();
                let asking = self.0.forsaken.asking(id, 1);
                let owner = asking.owner(&self.0.owner);
                let claim = self.claim(call, id, owner.clone());
                let claimed = leader.heard(self.answered(self.0.store.claim(claim).await))?;
                asking.heard();
                match claimed {
                    Claimed::Won { now } => {
                        let record = first_attempt(call, id, owner, now);
                        return Ok(Some(Entered::Attempt(self.begun(call, record, leader, false))));
                    }
                    Claimed::Exists(read) => found = Some(*read),
                    Claimed::KeyTooOld { now } => found = Some(Read { now, record: None }),
                    Claimed::QuotaReached => return leader.heard(Err(Refusal::TooManyKeys)),
                }
                continue;
            };
            if let Some(record) = read.record.as_ref().filter(|record| self.is_forsaken(record)) {
                leader.heard(self.withdraw(record).await)?;
                asked = Instant::now();
                found = Some(leader.heard(self.answered(self.0.store.read(id).await))?);
                continue;
            }
            let decision = decide(read.record.as_ref(), &request(call), &call.contract, read.now);
            match (decision, read.record.take()) {
                // The record went away between two looks at it.
                (Decision::Begin, None) => {}
                (Decision::Begin | Decision::TakeOver { .. }, Some(record)) => {
                    asked = Instant::now();
                    let (begun, owner) = leader.heard(self.begin_next(call, &record, read.now).await)?;
                    match begun {
                        Advanced::Done { now, .. } => {
                            let resumes = matches!(decision, Decision::TakeOver { .. });
                            if resumes {
                                self.0.signals.bump(&self.0.signals.stale_takeovers, &call.label);
                            }
                            let record = next_attempt(call, record, owner, now);
                            return Ok(Some(Entered::Attempt(self.begun(call, record, leader, resumes))));
                        }
                        Advanced::Superseded(read) => found = Some(*read),
                        Advanced::Missing => {}
                    }
                }
                (Decision::Busy { retry_after }, Some(record)) => {
                    let record = Arc::new(record);
                    let until = Instant::now() + lease_left(&record);
                    leader.flight().runs(record.clone(), until);
                    if !patience.wait(self, leader.flight(), sleep(pause)).await {
                        let decision = Decision::Busy { retry_after };
                        let known = Known { id, decision, record: Some(record), now: read.now };
                        self.note(call, &known);
                        return Ok(Some(Entered::Known(known)));
                    }
                    pause = (pause * 2).min(POLL_MAX);
                    asked = Instant::now();
                    found = Some(leader.heard(self.answered(self.0.store.read(id).await))?);
                }
                (Decision::Unknown | Decision::Reconcile | Decision::NeedsOperator, Some(record))
                    if record.state == State::Processing =>
                {
                    leader.heard(self.lose_stale(call, &record).await)?;
                    asked = Instant::now();
                    found = Some(leader.heard(self.answered(self.0.store.read(id).await))?);
                }
                (decision, record) => {
                    let record = record.map(Arc::new);
                    let known = Known { id, decision, record: record.clone(), now: read.now };
                    self.note(call, &known);
                    if let Some(record) = record {
                        self.0.finished.put(&record, read.now, asked);
                        leader.end(record, read.now);
                    }
                    return Ok(Some(Entered::Known(known)));
                }
            }
        }
    }

    pub(crate) fn answered<T>(&self, answer: Result<T, onefold_store::StoreError>) -> Result<T, Refusal> {
        answer.map_err(|error| {
            self.0.signals.store_error();
            Refusal::Store(error)
        })
    }

    /// A lease ended without an outcome: the record says so from now on.
    pub(crate) async fn lose_stale(&self, call: &Call, record: &Record) -> Result<(), Refusal> {
        let advance = Advance {
            id: record.id,
            start: Start { states: &[State::Processing], attempt: record.attempt, also: Also::LeaseOver },
            step: Step::LoseOutcome,
            event: Some(NewEvent {
                kind: EventKind::Unknown,
                who: "onefold".into(),
                reason: "the lease ended without an outcome".into(),
                evidence: String::new(),
            }),
            if_superseded: None,
        };
        if matches!(self.answered(self.0.store.advance(advance).await)?, Advanced::Done { .. }) {
            self.0.signals.bump(&self.0.signals.outcomes_lost, &call.label);
        }
        Ok(())
    }
}

impl Patience<'_> {
    /// Waits for something to change. False when there is no place or no time to wait, or the caller has gone.
    pub(crate) async fn wait(&mut self, engine: &Engine, flight: &Arc<Flight>, change: impl Future) -> bool {
        let Some(until) = self.until else { return false };
        if self.place.as_ref().is_none_or(|place| !place.is_in(flight)) {
            self.place = None;
            self.place = engine.0.flights.wait_place(flight, &engine.0.limits);
        }
        if self.place.is_none() || until <= Instant::now() {
            return false;
        }
        tokio::select! {
            changed = timeout_at(until, change) => changed.is_ok(),
            () = &mut self.gone => false,
        }
    }
}

fn lease_left(record: &Record) -> Duration {
    match record.lease {
        Lease::Alive(left) => left,
        Lease::None | Lease::Over => Duration::ZERO,
    }
}
