//! Deliveries that are counted with their messages: gathered in memory and written in batches, so that a duplicate
//! costs no commit. A crash loses what was gathered since the last one.

use std::collections::HashMap;

use onefold_core::OperationId;
use onefold_store::{DeliveryCounts, InboxStore, StoreError};
use parking_lot::Mutex;

use crate::limits::TALLY_MESSAGES_MAX;

pub(crate) const ONE_DUPLICATE: DeliveryCounts = DeliveryCounts { duplicates: 1, conflicts: 0 };
pub(crate) const ONE_CONFLICT: DeliveryCounts = DeliveryCounts { duplicates: 0, conflicts: 1 };

type Counts = HashMap<(OperationId, u32), DeliveryCounts>;

/// What was counted and is not written yet, by message and round.
#[derive(Default)]
pub(crate) struct Tally(Mutex<Gathered>);

#[derive(Default)]
struct Gathered {
    counts: Counts,
    /// Somebody is going to write them.
    promised: bool,
}

impl Tally {
    /// Adds. True: nobody has promised to write it yet, and whoever is told so does. Where too many messages are
    /// counted already, new ones are left out until the next write.
    pub(crate) fn add(&self, id: OperationId, round: u32, more: DeliveryCounts) -> bool {
        let mut gathered = self.0.lock();
        if gathered.counts.len() < TALLY_MESSAGES_MAX || gathered.counts.contains_key(&(id, round)) {
            let counts = gathered.counts.entry((id, round)).or_default();
            counts.duplicates += more.duplicates;
            counts.conflicts += more.conflicts;
        }
        !std::mem::replace(&mut gathered.promised, true)
    }

    /// What was counted of a message and is not written yet.
    pub(crate) fn gathered(&self, id: OperationId, round: u32) -> DeliveryCounts {
        self.0.lock().counts.get(&(id, round)).copied().unwrap_or_default()
    }

    /// Writes what was gathered. What the store does not take stays.
    pub(crate) async fn write<S: InboxStore + ?Sized>(&self, store: &S) -> Result<(), StoreError> {
        let counts = std::mem::take(&mut self.0.lock().counts);
        if counts.is_empty() {
            return Ok(());
        }
        let rows = counts.iter().map(|((id, round), counts)| (*id, *round, *counts)).collect();
        let written = store.count_deliveries(rows).await;
        if written.is_err() {
            for ((id, round), more) in counts {
                self.add(id, round, more);
            }
        }
        written
    }

    /// Whether there is nothing to write; then nobody is going to.
    pub(crate) fn is_done(&self) -> bool {
        let mut gathered = self.0.lock();
        gathered.promised = !gathered.counts.is_empty();
        !gathered.promised
    }
}
