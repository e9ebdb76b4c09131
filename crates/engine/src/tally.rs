//! Counters of records, gathered in memory and written in batches: a replay never costs a commit.
//!
//! A crash loses the last second of counting, nothing else; what a store that was away may have written after all is
//! counted twice.

use std::collections::HashMap;

use onefold_core::{Counters, OperationId};
use parking_lot::Mutex;

use crate::limits::TALLY_RECORDS_MAX;

#[derive(Default)]
pub(crate) struct Tally(Mutex<HashMap<OperationId, Counters>>);

impl Tally {
    /// Adds to the counters of one record. When too many records are counted already, new ones are left out until
    /// the next write.
    pub(crate) fn add(&self, id: OperationId, add: impl FnOnce(&mut Counters)) {
        let mut counts = self.0.lock();
        if counts.len() < TALLY_RECORDS_MAX || counts.contains_key(&id) {
            add(counts.entry(id).or_default());
        }
    }

    /// Puts back what could not be written.
    pub(crate) fn put_back(&self, counts: Vec<(OperationId, Counters)>) {
        for (id, more) in counts {
            self.add(id, |counters| {
                counters.duplicates += more.duplicates;
                counters.conflicts += more.conflicts;
                counters.replays += more.replays;
            });
        }
    }

    /// Takes what was gathered.
    pub(crate) fn take(&self) -> Vec<(OperationId, Counters)> {
        std::mem::take(&mut *self.0.lock()).into_iter().collect()
    }
}
