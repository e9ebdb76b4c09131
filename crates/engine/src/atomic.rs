//! Atomic mode: the work and its record in one commit of the store's database (SEMANTICS 5).
//!
//! The engine decides as always; here stands who asks, who waits, and what is run again. Duplicates of one key in one
//! process share one flight, so at most one of them holds a transaction. A work that did nothing leaves the key free,
//! so whoever waited goes in next. Only what the database itself asks for is run again: lost against others, with
//! nothing written. After a crash there is the whole or nothing.
//!
//! Run [`AtomicEngine::perform`] in a task of its own: cancelled, it commits whole or not at all, but nobody learns
//! of it here.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use onefold_core::contract::WhileRunning;
use onefold_core::{Decision, Lease, OperationId, Record, State, StoreTime, decide, retry};
use onefold_store::{Advance, AtomicStore, Atomically, Claim, Entry, Finish, Read, StoreError};
use tokio::time::{Instant, sleep};

use crate::begin::{first_attempt, next_attempt, request};
use crate::enter::Patience;
use crate::flight::{Flight, Joined, Leader, Stage};
use crate::limits::{CONTENDED_RUNS_MAX, HELD_POLL_MIN, Limits, POLL_MAX, POLL_MIN, RERUN_PAUSE};
use crate::{Call, Engine, Entered, Known, Refusal};

/// An engine over a store whose database also holds the rows of the business. Cheap to clone.
pub struct AtomicEngine<S> {
    engine: Engine,
    store: Arc<S>,
}

impl<S> Clone for AtomicEngine<S> {
    fn clone(&self) -> Self {
        AtomicEngine { engine: self.engine.clone(), store: self.store.clone() }
    }
}

/// What became of an atomic call.
#[derive(Clone, Debug)]
pub enum Performed {
    /// The work ran, and its record is durable: this one.
    Committed(Arc<Record>),
    /// The work ran and said that nothing is done. Nothing was written.
    NotDone,
    /// The work panicked or was stopped. Nothing was written.
    Stopped(String),
    /// The work did not run; this is where the operation stands.
    Known(Known),
}

impl<S: AtomicStore> AtomicEngine<S> {
    /// An engine over this store. `surface` is the label of its metrics.
    pub fn new(store: Arc<S>, surface: &'static str, limits: Limits) -> AtomicEngine<S> {
        AtomicEngine { engine: Engine::new(store.clone(), surface, limits), store }
    }

    /// The engine for the other modes, over the same store.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// Runs the work in one transaction with its record, or says where the operation stands.
    ///
    /// As a duplicate it waits as the contract says, but no longer than `gone` is pending.
    pub async fn perform(
        &self,
        call: &Call,
        work: &mut S::Work,
        gone: impl Future<Output = ()> + Send,
    ) -> Result<Performed, Refusal> {
        let engine = &self.engine;
        let id = call.identity.id(engine.identity_key(), call.contract.key.time);
        let mut patience = Patience {
            until: match call.contract.while_running {
                WhileRunning::Wait(wait) => Some(Instant::now() + wait),
                WhileRunning::Busy | WhileRunning::Accepted => None,
            },
            gone: pin!(gone),
            place: None,
        };
        loop {
            if let Some(known) = engine.recall(call) {
                return Ok(Performed::Known(known));
            }
            match engine.0.flights.join(id) {
                Joined::Leader(leader) => return self.lead_work(call, id, leader, work, &mut patience).await,
                Joined::Follower(flight) => {
                    if !engine.heard(&flight, &mut patience).await {
                        return Ok(Performed::Known(engine.busy(call, id)));
                    }
                    if let Some(Entered::Known(known)) =
                        engine.follow(call, id, &flight, &mut patience).await?
                    {
                        return Ok(Performed::Known(known));
                    }
                }
            }
        }
    }

    /// Runs the work for itself and asks for all who follow.
    async fn lead_work(
        &self,
        call: &Call,
        id: OperationId,
        leader: Leader,
        work: &mut S::Work,
        patience: &mut Patience<'_>,
    ) -> Result<Performed, Refusal> {
        let mut entry = Entry::New(Box::new(self.engine.claim(call, id, self.engine.0.owner.clone())));
        let mut stood: Option<Record> = None;
        let mut reruns = Reruns::default();
        let mut pause = HELD_POLL_MIN;
        loop {
            let asked = Instant::now();
            let ended = self.store.atomically(entry.clone(), work).await;
            match leader.heard(self.engine.answered(ended))? {
                Atomically::Committed { now, attempt, expires_at, finish, kept, resource } => {
                    let record = match stood {
                        Some(record) => next_attempt(call, record, self.engine.0.owner.clone(), now),
                        None => first_attempt(call, id, self.engine.0.owner.clone(), now),
                    };
                    let state = match finish {
                        Finish::Succeeded => State::Succeeded,
                        Finish::Rejected => State::Rejected,
                    };
                    debug_assert_eq!(record.attempt, attempt);
                    let (lease, completed_at) = (Lease::None, Some(now));
                    let record = Record { state, lease, kept, resource, completed_at, expires_at, ..record };
                    let record = Arc::new(record);
                    self.attempted(call);
                    self.engine.0.finished.put(&record, now, asked);
                    leader.end(record.clone(), now);
                    return Ok(Performed::Committed(record));
                }
                Atomically::NotDone => {
                    self.attempted(call);
                    return Ok(Performed::NotDone);
                }
                Atomically::Stopped(why) => {
                    self.attempted(call);
                    return Ok(Performed::Stopped(why));
                }
                Atomically::Contended(why) => {
                    self.attempted(call);
                    if !reruns.pause().await {
                        return leader.heard(Err(self.engine.unavailable(why)));
                    }
                }
                // Waited for without a connection, and only as long as this caller waits.
                Atomically::Busy => {
                    if !patience.wait(&self.engine, leader.flight(), sleep(pause)).await {
                        return Ok(Performed::Known(self.engine.busy(call, id)));
                    }
                    pause = (pause * 2).min(POLL_MAX);
                }
                Atomically::KeyTooOld { now } => {
                    if let Some(known) = self.engine.known(call, id, None, now) {
                        return Ok(Performed::Known(known));
                    }
                    return Err(self
                        .engine
                        .unavailable("the store and the contract disagree on a key".into()));
                }
                Atomically::QuotaReached => return leader.heard(Err(Refusal::TooManyKeys)),
                Atomically::Found(read) => {
                    match self.engine.stands(call, id, *read, asked, leader.flight(), patience).await {
                        Stands::Enter(record) => {
                            entry = match &record {
                                Some(found) => Entry::Next(Box::new(self.engine.beginning(
                                    call,
                                    &found.0,
                                    found.1,
                                    self.engine.0.owner.clone(),
                                ))),
                                None => Entry::New(Box::new(self.engine.claim(
                                    call,
                                    id,
                                    self.engine.0.owner.clone(),
                                ))),
                            };
                            stood = record.map(|found| found.0);
                        }
                        Stands::Answer(known, asked) => {
                            if let Some(record) = &known.record
                                && !matches!(known.decision, Decision::Busy { .. })
                            {
                                self.engine.0.finished.put(record, known.now, asked);
                                leader.end(record.clone(), known.now);
                            }
                            return Ok(Performed::Known(known));
                        }
                        Stands::Refused(refusal) => return leader.heard(Err(refusal)),
                    }
                }
            }
        }
    }

    fn attempted(&self, call: &Call) {
        let signals = self.engine.signals();
        signals.bump(&signals.attempts_begun, &call.label);
    }
}

/// Where an operation stands for a claim in a transaction that the caller owns.
#[derive(Debug)]
pub enum Stood {
    /// It may begin: this transition begins it.
    Free(Box<Advance>),
    /// It may not.
    Known(Known),
}

impl Engine {
    /// The claim of a call, for a transaction that the caller owns.
    pub fn claim_of(&self, call: &Call) -> Claim {
        let id = call.identity.id(self.identity_key(), call.contract.key.time);
        self.claim(call, id, self.0.owner.clone())
    }

    /// What the record that such a claim found means for the call. Nobody is waited for.
    pub fn stood(&self, call: &Call, read: Read) -> Stood {
        let id = call.identity.id(self.identity_key(), call.contract.key.time);
        let decision = decide(read.record.as_ref(), &request(call), &call.contract, read.now);
        if let (Decision::Begin | Decision::TakeOver { .. }, Some(record)) = (&decision, &read.record) {
            return Stood::Free(Box::new(self.beginning(call, record, read.now, self.0.owner.clone())));
        }
        let known = Known { id, decision, record: read.record.map(Arc::new), now: read.now };
        self.note(call, &known);
        Stood::Known(known)
    }
}

/// What a record that stands in the way means for the work.
enum Stands {
    /// It may run after all: from this record, seen at this time.
    Enter(Option<Box<(Record, StoreTime)>>),
    /// It may not.
    Answer(Known, Instant),
    /// The store did not answer.
    Refused(Refusal),
}

impl Engine {
    /// Looks at a record that stands in the way until it says something: one that another mode or process performs is
    /// waited for as the contract says.
    async fn stands(
        &self,
        call: &Call,
        id: OperationId,
        mut read: Read,
        mut asked: Instant,
        flight: &Arc<Flight>,
        patience: &mut Patience<'_>,
    ) -> Stands {
        let mut pause = POLL_MIN;
        loop {
            let decision = decide(read.record.as_ref(), &request(call), &call.contract, read.now);
            match (decision, read.record.take()) {
                (Decision::Begin, record) => {
                    return Stands::Enter(record.map(|record| Box::new((record, read.now))));
                }
                (Decision::TakeOver { .. }, record) => {
                    self.0.signals.bump(&self.0.signals.stale_takeovers, &call.label);
                    return Stands::Enter(record.map(|record| Box::new((record, read.now))));
                }
                (Decision::Busy { .. }, Some(record)) => {
                    let left = match record.lease {
                        Lease::Alive(left) => left,
                        Lease::None | Lease::Over => Duration::ZERO,
                    };
                    let record = Arc::new(record);
                    flight.runs(record.clone(), Instant::now() + left);
                    if !patience.wait(self, flight, sleep(pause)).await {
                        let known = Known { id, decision, record: Some(record), now: read.now };
                        self.note(call, &known);
                        return Stands::Answer(known, asked);
                    }
                    pause = (pause * 2).min(POLL_MAX);
                }
                (Decision::Unknown, Some(record)) if record.state == State::Processing => {
                    if let Err(refusal) = self.lose_stale(call, &record).await {
                        return Stands::Refused(refusal);
                    }
                }
                (decision, record) => {
                    let known = Known { id, decision, record: record.map(Arc::new), now: read.now };
                    self.note(call, &known);
                    return Stands::Answer(known, asked);
                }
            }
            asked = Instant::now();
            match self.answered(self.0.store.read(id).await) {
                Ok(seen) => read = seen,
                Err(refusal) => return Stands::Refused(refusal),
            }
        }
    }

    /// Waits until the leader has heard from the store. False when there is no place or no time to wait.
    async fn heard(&self, flight: &Arc<Flight>, patience: &mut Patience<'_>) -> bool {
        let mut stages = flight.subscribe();
        while matches!(*stages.borrow_and_update(), Stage::Asking) {
            if !patience.wait(self, flight, stages.changed()).await {
                return false;
            }
        }
        true
    }

    /// A work under this key runs, here or in another process, and nobody waits for it any longer.
    fn busy(&self, call: &Call, id: OperationId) -> Known {
        let decision = Decision::Busy { retry_after: retry::RETRY_AFTER_MIN };
        let known = Known { id, decision, record: None, now: StoreTime::default() };
        self.note(call, &known);
        known
    }

    fn unavailable(&self, why: String) -> Refusal {
        self.0.signals.store_error();
        Refusal::Store(StoreError::Unavailable(why))
    }
}

/// Runs that the database asked for again.
#[derive(Default)]
pub(crate) struct Reruns(u32);

impl Reruns {
    /// Waits a random part of a pause that doubles. False when it has run often enough.
    pub(crate) async fn pause(&mut self) -> bool {
        self.0 += 1;
        if self.0 >= CONTENDED_RUNS_MAX {
            return false;
        }
        let longest = RERUN_PAUSE * 2_u32.pow(self.0);
        sleep(longest.mul_f64(rand::random::<f64>())).await;
        true
    }
}
