//! Atomic mode and steps of the memory store: one lock is the transaction.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use async_trait::async_trait;
use onefold_core::{Kept, OperationId, State};
use onefold_store::{
    Advance, AtomicStore, Atomically, Ended, Entry, Finish, FinishedStep, Grant, Read, Step, StepPut,
    StepStore, StoreError,
};

use super::row::Row;
use super::{MemoryStore, Rows, happened};

/// The rows of the business.
pub type BusinessRows = BTreeSet<String>;

type Closure = dyn FnMut(&mut BusinessRows) -> Ended + Send;

/// A closure over the rows of the business.
pub struct MemoryWork(Box<Closure>);

impl MemoryWork {
    /// The work that this closure does.
    pub fn new(closure: impl FnMut(&mut BusinessRows) -> Ended + Send + 'static) -> MemoryWork {
        MemoryWork(Box::new(closure))
    }
}

impl fmt::Debug for MemoryWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryWork")
    }
}

impl MemoryStore {
    /// The rows of the business that are committed.
    pub fn business(&self) -> Vec<String> {
        self.rows.lock().business.iter().cloned().collect()
    }
}

#[async_trait]
impl AtomicStore for MemoryStore {
    type Work = MemoryWork;

    async fn atomically(&self, entry: Entry, work: &mut MemoryWork) -> Result<Atomically, StoreError> {
        let mut rows = self.rows.lock();
        let moment = self.judge.timeline().now();
        let now = moment.time;
        let id = entry.id();
        let stands = match (&entry, rows.by_id.get(&id)) {
            (Entry::New(_), None) => false,
            (Entry::Next(advance) | Entry::Settle(advance), Some(row)) => {
                !row.is_at(advance, &self.judge, moment)
            }
            _ => true,
        };
        if stands {
            let record = rows.by_id.get(&id).map(|row| row.seen(&self.judge, moment));
            return Ok(Atomically::Found(Box::new(Read { now, record })));
        }
        if let Entry::New(claim) = &entry {
            if claim.key_expires_at.is_some_and(|end| end <= now) {
                return Ok(Atomically::KeyTooOld { now });
            }
            if claim.live_keys_max.is_some_and(|max| rows.live(&claim.scope) >= max) {
                return Ok(Atomically::QuotaReached);
            }
        }
        let mut business = rows.business.clone();
        let ended = match catch_unwind(AssertUnwindSafe(|| (work.0)(&mut business))) {
            Ok(ended) => ended,
            Err(_) => return Ok(Atomically::Stopped("the closure panicked".into())),
        };
        let (finish, kept, resource) = match ended {
            Ended::Finished { finish, kept, resource } => (finish, kept, resource),
            Ended::NotDone => return Ok(Atomically::NotDone),
            Ended::Again(why) => return Ok(Atomically::Contended(why)),
        };
        let state = match finish {
            Finish::Succeeded => State::Succeeded,
            Finish::Rejected => State::Rejected,
        };
        if finish == Finish::Succeeded {
            rows.business = business;
        }
        let settle = Step::Settle { state, kept: kept.clone(), resource: resource.clone() };
        let settle = rows.begin(entry, now).unwrap_or(settle);
        let row = rows.by_id.get_mut(&id).expect("it stands, or has just begun");
        row.step(settle, now);
        let (attempt, expires_at) = (row.record.attempt, row.record.expires_at);
        self.judge.note([Grant::Ended(id)]);
        Ok(Atomically::Committed { now, attempt, expires_at, finish, kept, resource })
    }
}

impl Rows {
    /// Begins the attempt, unless it runs already and is to end so.
    fn begin(&mut self, entry: Entry, now: onefold_core::StoreTime) -> Option<Step> {
        match entry {
            Entry::New(claim) => {
                self.latest_seq += 1;
                self.by_id.insert(claim.id, Row::claimed(*claim, self.latest_seq, now));
            }
            Entry::Next(advance) => {
                if let Some(row) = self.by_id.get_mut(&advance.id) {
                    row.step(advance.step, now);
                }
            }
            Entry::Settle(advance) => {
                let Advance { id, start, step, event, .. } = *advance;
                if let Some(row) = self.by_id.get_mut(&id) {
                    row.events.extend(event.map(|event| happened(event, start.attempt, now)));
                }
                return Some(step);
            }
        }
        None
    }
}

#[async_trait]
impl StepStore for MemoryStore {
    async fn put_step(
        &self,
        id: OperationId,
        attempt: u32,
        name: String,
        kept: Kept,
    ) -> Result<StepPut, StoreError> {
        let mut rows = self.rows.lock();
        let moment = self.judge.timeline().now();
        let holds = |row: &&mut Row| row.record.state == State::Processing && row.record.attempt == attempt;
        let Some(row) = rows.by_id.get_mut(&id).filter(holds) else {
            let record = rows.by_id.get(&id).map(|row| row.seen(&self.judge, moment));
            return Ok(StepPut::Superseded(Box::new(Read { now: moment.time, record })));
        };
        if let Some(step) = row.steps.iter().find(|step| step.name == name) {
            return Ok(StepPut::Exists(Box::new(step.clone())));
        }
        row.steps.push(FinishedStep { name, attempt, kept });
        Ok(StepPut::Done)
    }

    async fn steps(&self, id: OperationId) -> Result<Vec<FinishedStep>, StoreError> {
        Ok(self.rows.lock().by_id.get(&id).map(|row| row.steps.clone()).unwrap_or_default())
    }
}
