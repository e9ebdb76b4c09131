//! Finished records in memory, so that most replays cost no look-up.
//!
//! Only terminal records that answer duplicates are held, for at most [`FINISHED_AGE_MAX`] and never beyond their
//! own expiry as the store told it. The fingerprint is compared by `decide` as for any other record, so the cache
//! never answers another request's question. Losing it loses nothing.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{Kept, OperationId, Record, State, StoreTime};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::Instant;

use crate::limits::FINISHED_AGE_MAX;

#[derive(Clone)]
struct Entry {
    record: Arc<Record>,
    now: StoreTime,
    until: Instant,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<OperationId, Entry> for Bytes {
    fn weight(&self, _: &OperationId, entry: &Entry) -> u64 {
        const ROW: u64 = 1024;
        match &entry.record.kept {
            Kept::Full(answer) | Kept::Reference(answer) => ROW + answer.body.len() as u64,
            Kept::Value(value) => ROW + value.json.len() as u64,
            Kept::Nothing | Kept::NotKept { .. } => ROW,
        }
    }
}

pub(crate) struct Finished(Cache<OperationId, Entry, Bytes>);

impl Finished {
    pub(crate) fn new(bytes_max: u64) -> Finished {
        let records = usize::try_from(bytes_max / 2048).unwrap_or(usize::MAX).max(16);
        Finished(Cache::with_weighter(records, bytes_max, Bytes))
    }

    /// A record that may still be answered from memory, with the store's time when it was read.
    pub(crate) fn get(&self, id: OperationId) -> Option<(Arc<Record>, StoreTime)> {
        let entry = self.0.get(&id)?;
        if Instant::now() < entry.until {
            return Some((entry.record, entry.now));
        }
        self.0.remove(&id);
        None
    }

    /// Holds a record that was read at the store's `now`, which is not before the moment when it was `asked`.
    pub(crate) fn put(&self, record: &Arc<Record>, now: StoreTime, asked: Instant) {
        if !matches!(record.state, State::Succeeded | State::Rejected) {
            return;
        }
        let left = record.expires_at.map_or(Duration::MAX, |end| now.until(end));
        let until = asked + left.min(FINISHED_AGE_MAX);
        self.0.insert(record.id, Entry { record: record.clone(), now, until });
    }
}
