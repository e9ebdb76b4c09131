//! One record of the memory store, and what transitions do to it.

use onefold_core::contract::{OnStale, Retention};
use onefold_core::{Counters, Event, Kept, Lease, Reconciliation, Record, Scope, State, StoreTime};
use onefold_store::{
    Advance, Also, Claim, FinishedStep, Judge, Moment, ProbeTurn, Promise, Query, Step, StoredLease,
};

/// A record with what is not shown of it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) seq: i64,
    /// Its lease is judged when it is read.
    pub(super) record: Record,
    leased_at: StoreTime,
    pub(super) lease_until: StoreTime,
    /// When the outcome became unknown.
    pub(super) ended_at: StoreTime,
    pub(super) probing: Probing,
    promise: Promise,
    pub(super) events: Vec<Event>,
    pub(super) steps: Vec<FinishedStep>,
}

/// The probes of the latest attempt.
#[derive(Debug, Default)]
pub(super) struct Probing {
    pub(super) due_at: StoreTime,
    probes: u32,
    negative_since: Option<StoreTime>,
}

impl Row {
    pub(super) fn claimed(claim: Claim, seq: i64, now: StoreTime) -> Row {
        let record = Record {
            id: claim.id,
            scope: claim.scope,
            operation: claim.operation,
            key: Some(claim.key),
            correlation_id: claim.correlation_id,
            fingerprint: Some(claim.fingerprint),
            ignored: claim.ignored,
            state: State::Processing,
            attempt: 1,
            owner: claim.owner,
            lease: Lease::None,
            on_stale: claim.promise.on_stale,
            reconciliation: Reconciliation::Open,
            resource: None,
            kept: Kept::Nothing,
            created_at: now,
            begun_at: Some(now),
            completed_at: None,
            expires_at: None,
            counters: Counters::default(),
        };
        let lease_until = now.plus(claim.lease);
        let (promise, probing) = (claim.promise, Probing::default());
        Row {
            seq,
            record,
            leased_at: now,
            lease_until,
            ended_at: now,
            probing,
            promise,
            events: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The record as a reader sees it.
    pub(super) fn seen(&self, judge: &Judge, moment: Moment) -> Record {
        Record { lease: self.lease(judge, moment), ..self.record.clone() }
    }

    pub(super) fn is_tombstone(&self) -> bool {
        self.record.fingerprint.is_none()
    }

    /// Whether nothing of it is kept any longer.
    pub(super) fn has_ended(&self, now: StoreTime) -> bool {
        self.record.is_expired(now)
            && self.record.expires_at.is_some_and(|end| end.plus(self.promise.tombstone) <= now)
    }

    /// When the sweeper has to look at it next.
    pub(super) fn due_at(&self) -> Option<StoreTime> {
        let end = self.record.expires_at.filter(|_| self.record.state.is_terminal())?;
        Some(if self.is_tombstone() { end.plus(self.promise.tombstone) } else { end })
    }

    pub(super) fn is_lost(&self, judge: &Judge, moment: Moment) -> bool {
        self.record.on_stale != OnStale::Resume && self.lease(judge, moment) == Lease::Over
    }

    pub(super) fn is_at(&self, advance: &Advance, judge: &Judge, moment: Moment) -> bool {
        let needs_lease = matches!(advance.step, Step::Renew { .. } | Step::Lapse);
        let probed = matches!(advance.step, Step::Probed { .. });
        let reconciled = advance.start.also == Also::OrReconciled
            && self.record.reconciliation == Reconciliation::Settled
            && !self.record.is_expired(moment.time);
        advance.start.attempt == self.record.attempt
            && (advance.start.states.contains(&self.record.state) || reconciled)
            && (!needs_lease || self.record.state == State::Processing)
            && (!probed || self.record.state == State::OutcomeUnknown)
            && match advance.start.also {
                Also::Nothing | Also::OrReconciled => true,
                Also::LeaseOver => !self.lease(judge, moment).is_alive(),
                Also::Expired => self.record.is_expired(moment.time),
            }
    }

    pub(super) fn matches(&self, query: &Query, now: StoreTime) -> bool {
        let record = &self.record;
        self.seq > query.cursor.unwrap_or(0)
            && query.state.is_none_or(|state| state == record.state)
            && query.operation.as_ref().is_none_or(|operation| *operation == record.operation)
            && query.scope.as_ref().is_none_or(|scope| *scope == record.scope.to_string())
            && query.key.as_ref().is_none_or(|key| record.key.as_ref().is_some_and(|own| own.as_str() == key))
            && query.resource.as_ref().is_none_or(|id| record.resource.as_ref().is_some_and(|r| r.id == *id))
            && query.older_than.is_none_or(|age| record.created_at.plus(age) <= now)
    }

    pub(super) fn step(&mut self, step: Step, now: StoreTime) {
        match step {
            Step::Begin { scope, key, owner, lease, fingerprint, ignored, promise } => {
                let record = &mut self.record;
                if record.is_expired(now) || record.state == State::Failed {
                    self.steps.clear();
                }
                if record.is_expired(now) {
                    record.created_at = now;
                    record.begun_at = Some(now);
                    record.correlation_id = None;
                    record.counters = Counters::default();
                    self.events.clear();
                }
                (record.scope, record.key) = (scope, Some(key));
                record.state = State::Processing;
                record.attempt += 1;
                record.owner = owner;
                record.fingerprint = Some(fingerprint);
                record.ignored = ignored;
                record.on_stale = promise.on_stale;
                record.reconciliation = Reconciliation::Open;
                (record.completed_at, record.expires_at) = (None, None);
                (record.kept, record.resource) = (Kept::Nothing, None);
                self.promise = promise;
                (self.leased_at, self.lease_until) = (now, now.plus(lease));
            }
            Step::Renew { lease } => (self.leased_at, self.lease_until) = (now, now.plus(lease)),
            Step::Reconcile { state, kept, resource } => {
                self.step(Step::Settle { state, kept, resource }, now);
                self.record.reconciliation = Reconciliation::Settled;
            }
            Step::Probed { after, negative, reconciliation } => {
                self.record.reconciliation = reconciliation;
                self.probing.due_at = now.plus(after);
                let first = self.probing.negative_since.or(negative.then_some(now));
                self.probing.negative_since = first;
            }
            Step::Settle { state, kept, resource } => {
                self.record.reconciliation = Reconciliation::Open;
                self.record.state = state;
                self.record.kept = kept;
                self.record.resource = resource;
                self.record.completed_at = Some(now);
                self.record.expires_at = match self.promise.retention {
                    Retention::For(retention) => Some(now.plus(retention)),
                    Retention::Forever => None,
                };
            }
            Step::LoseOutcome => {
                self.record.state = State::OutcomeUnknown;
                self.record.reconciliation = Reconciliation::Open;
                (self.lease_until, self.ended_at) = (now, now);
                self.probing = Probing { due_at: now, ..Probing::default() };
            }
            Step::Lapse => (self.leased_at, self.lease_until) = (now, now),
        }
    }

    pub(super) fn probe_is_due(&self, now: StoreTime) -> bool {
        self.record.state == State::OutcomeUnknown
            && self.record.reconciliation == Reconciliation::Open
            && self.probing.due_at <= now
    }

    /// Gives the turn to probe.
    pub(super) fn probed_by(&mut self, now: StoreTime, turn: std::time::Duration) -> ProbeTurn {
        self.probing.probes += 1;
        self.probing.due_at = now.plus(turn);
        ProbeTurn {
            now,
            record: self.record.clone(),
            probe: self.probing.probes,
            unknown_since: self.ended_at,
            negative_since: self.probing.negative_since,
        }
    }

    pub(super) fn bury(&mut self) {
        self.steps.clear();
        let record = &mut self.record;
        record.fingerprint = None;
        record.ignored = Vec::new();
        record.correlation_id = None;
        (record.scope, record.key, record.owner) = (Scope::shared(), None, String::new());
        (record.kept, record.resource) = (Kept::Nothing, None);
    }

    fn lease(&self, judge: &Judge, moment: Moment) -> Lease {
        let Record { id, attempt, state, .. } = self.record;
        if state != State::Processing {
            return Lease::None;
        }
        judge.judge(&StoredLease { id, attempt, granted: self.leased_at, until: self.lease_until }, moment)
    }
}
