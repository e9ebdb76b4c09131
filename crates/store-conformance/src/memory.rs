//! A store in memory, FOR TESTS ONLY: what it holds is gone with the process, so nothing that it protects is
//! protected over a restart.
//!
//! It keeps the same promises about time, leases and transitions as every store, under one lock and by plain
//! searching; it is slow with many records and is not meant to be fast.

mod atomic;
mod row;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::contract::OnStale;
use onefold_core::{
    Counters, Event, EventKind, IdentityKey, Lease, OperationId, Record, Scope, State, StoreTime,
};
use onefold_store::{
    Advance, Advanced, Claim, Claimed, Clock, Grant, Judge, NewEvent, OperationStore, Page, ProbeTurn, Query,
    Read, Step, StoreError, Survey, Swept, SystemClock, TakeProbes, Timeline,
};
use parking_lot::Mutex;
use row::Row;

pub use atomic::{BusinessRows, MemoryWork};

/// A store in memory, for tests only.
#[derive(Debug)]
pub struct MemoryStore {
    identity_key: IdentityKey,
    judge: Judge,
    rows: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    by_id: HashMap<OperationId, Row>,
    latest_seq: i64,
    business: atomic::BusinessRows,
    companions: BTreeSet<String>,
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new(Arc::new(SystemClock::new()))
    }
}

impl MemoryStore {
    /// An empty store that lives by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> MemoryStore {
        MemoryStore {
            identity_key: IdentityKey::secret([7; 32]),
            judge: Judge::new(Timeline::new(clock, StoreTime(0))),
            rows: Mutex::default(),
        }
    }

    fn seen(&self, row: &Row) -> Record {
        row.seen(&self.judge, self.judge.timeline().now())
    }
}

impl Rows {
    /// How many live records a scope holds.
    fn live(&self, scope: &Scope) -> u64 {
        self.by_id.values().filter(|row| row.record.scope == *scope && !row.is_tombstone()).count() as u64
    }

    fn in_order(&mut self) -> Vec<&mut Row> {
        let mut rows: Vec<&mut Row> = self.by_id.values_mut().collect();
        rows.sort_by_key(|row| row.seq);
        rows
    }
}

#[async_trait]
impl OperationStore for MemoryStore {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn identity_key(&self) -> &IdentityKey {
        &self.identity_key
    }

    async fn read(&self, id: OperationId) -> Result<Read, StoreError> {
        let rows = self.rows.lock();
        let now = self.judge.timeline().now().time;
        Ok(Read { now, record: rows.by_id.get(&id).map(|row| self.seen(row)) })
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let mut rows = self.rows.lock();
        let moment = self.judge.timeline().now();
        if let Some(row) = rows.by_id.get(&claim.id) {
            return Ok(Claimed::Exists(Box::new(Read { now: moment.time, record: Some(self.seen(row)) })));
        }
        if claim.key_expires_at.is_some_and(|end| end <= moment.time) {
            return Ok(Claimed::KeyTooOld { now: moment.time });
        }
        if claim.live_keys_max.is_some_and(|max| rows.live(&claim.scope) >= max) {
            return Ok(Claimed::QuotaReached);
        }
        rows.latest_seq += 1;
        self.judge.note([Grant::held(claim.id, 1, moment, claim.lease)]);
        let row = Row::claimed(claim, rows.latest_seq, moment.time);
        rows.by_id.insert(row.record.id, row);
        Ok(Claimed::Won { now: moment.time })
    }

    async fn advance(&self, advance: Advance) -> Result<Advanced, StoreError> {
        let mut rows = self.rows.lock();
        let moment = self.judge.timeline().now();
        let Some(row) = rows.by_id.get_mut(&advance.id) else { return Ok(Advanced::Missing) };
        let from = advance.start.attempt;
        if !row.is_at(&advance, &self.judge, moment) {
            let read = Read { now: moment.time, record: Some(row.seen(&self.judge, moment)) };
            row.events.extend(advance.if_superseded.map(|event| happened(event, from, moment.time)));
            return Ok(Advanced::Superseded(Box::new(read)));
        }
        let grant = match &advance.step {
            Step::Begin { lease, .. } => Grant::held(advance.id, from + 1, moment, *lease),
            Step::Renew { lease } => Grant::held(advance.id, from, moment, *lease),
            _ => Grant::Ended(advance.id),
        };
        row.step(advance.step, moment.time);
        row.events.extend(advance.event.map(|event| happened(event, from, moment.time)));
        self.judge.note([grant]);
        Ok(Advanced::Done { now: moment.time, expires_at: row.record.expires_at })
    }

    async fn count(&self, counts: Vec<(OperationId, Counters)>) -> Result<(), StoreError> {
        let mut rows = self.rows.lock();
        for (id, more) in counts {
            if let Some(row) = rows.by_id.get_mut(&id) {
                let counters = &mut row.record.counters;
                counters.duplicates += more.duplicates;
                counters.conflicts += more.conflicts;
                counters.replays += more.replays;
            }
        }
        Ok(())
    }

    async fn list(&self, query: Query) -> Result<Page, StoreError> {
        let mut rows = self.rows.lock();
        let now = self.judge.timeline().now().time;
        let limit = query.limit.clamp(1, 1000) as usize;
        let found: Vec<&mut Row> =
            rows.in_order().into_iter().filter(|row| row.matches(&query, now)).collect();
        let records = found.iter().take(limit).map(|row| self.seen(row)).collect();
        let next_cursor = (found.len() > limit).then(|| found[limit - 1].seq);
        Ok(Page { now, records, next_cursor })
    }

    async fn events(&self, id: OperationId) -> Result<Vec<Event>, StoreError> {
        Ok(self.rows.lock().by_id.get(&id).map(|row| row.events.clone()).unwrap_or_default())
    }

    async fn lose_stale(&self, limit: u32) -> Result<u64, StoreError> {
        let mut rows = self.rows.lock();
        let moment = self.judge.timeline().now();
        let mut lost = 0;
        for row in rows.in_order() {
            if lost < u64::from(limit) && row.is_lost(&self.judge, moment) {
                row.step(Step::LoseOutcome, moment.time);
                row.events.push(happened(lost_event(), row.record.attempt, moment.time));
                lost += 1;
            }
        }
        self.judge.forget_ended(moment);
        Ok(lost)
    }

    async fn take_probes(&self, take: TakeProbes) -> Result<Vec<ProbeTurn>, StoreError> {
        let mut rows = self.rows.lock();
        let now = self.judge.timeline().now().time;
        let is_due =
            |row: &&mut Row| row.probe_is_due(now) && take.operations.contains(&row.record.operation);
        let mut due: Vec<&mut Row> = rows.by_id.values_mut().filter(is_due).collect();
        due.sort_by_key(|row| row.probing.due_at);
        let turns = due.into_iter().take(take.limit as usize);
        Ok(turns.map(|row| row.probed_by(now, take.turn)).collect())
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        let mut rows = self.rows.lock();
        let now = self.judge.timeline().now().time;
        let mut swept = Swept::default();
        let mut ended = Vec::new();
        for row in rows.in_order() {
            if swept.tombstones + swept.deleted == u64::from(limit) {
                break;
            }
            if row.has_ended(now) {
                ended.push(row.record.id);
                swept.deleted += 1;
            } else if row.record.is_expired(now) && !row.is_tombstone() {
                row.bury();
                swept.tombstones += 1;
            }
        }
        ended.iter().for_each(|id| drop(rows.by_id.remove(id)));
        Ok(swept)
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        let rows = self.rows.lock();
        let now = self.judge.timeline().now().time;
        let unknown = rows.by_id.values().filter(|row| row.record.state == State::OutcomeUnknown);
        let since = unknown.clone().map(|row| row.ended_at).min();
        let processing = rows.by_id.values().filter(|row| row.record.state == State::Processing);
        let due = rows.by_id.values().filter_map(Row::due_at).min();
        Ok(Survey {
            unknown: unknown.count() as u64,
            unknown_oldest: since.map(|since| since.until(now)),
            processing: processing.count() as u64,
            sweep_lag: due.map_or(Duration::ZERO, |due| due.until(now)),
        })
    }

    async fn interrupted(&self, operations: &[String], limit: u32) -> Result<Vec<Record>, StoreError> {
        let rows = self.rows.lock();
        let mut rows: Vec<&Row> = rows.by_id.values().collect();
        rows.sort_by_key(|row| row.lease_until);
        let over = rows.into_iter().map(|row| self.seen(row)).filter(|record| {
            record.state == State::Processing
                && record.on_stale == OnStale::Resume
                && record.lease == Lease::Over
                && operations.contains(&record.operation)
        });
        Ok(over.take(limit as usize).collect())
    }

    async fn note_companion(&self, operation: &str) -> Result<(), StoreError> {
        self.rows.lock().companions.insert(operation.to_owned());
        Ok(())
    }

    async fn has_companion(&self, operation: &str) -> Result<bool, StoreError> {
        Ok(self.rows.lock().companions.contains(operation))
    }

    async fn ready(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

fn happened(event: NewEvent, attempt: u32, at: StoreTime) -> Event {
    let NewEvent { kind, who, reason, evidence } = event;
    Event { at, kind, attempt, who, reason, evidence }
}

fn lost_event() -> NewEvent {
    NewEvent {
        kind: EventKind::Unknown,
        who: "onefold".into(),
        reason: "the lease ended without an outcome".into(),
        evidence: String::new(),
    }
}
