//! Deliveries that are counted with their messages: gathered in memory and written in batches, so that a duplicate costs
//! no commit. A crash loses what was gathered since the last one.

use std::collections::HashMap;
use std::sync::Arc;

use onefold_core::OperationId;
use onefold_store::{ConsumeStore, DeliveryCounts};
use parking_lot::Mutex;

use super::Inner;
use crate::limits::{TALLY_EVERY, TALLY_MESSAGES_MAX};

type Counts = HashMap<(OperationId, u32), DeliveryCounts>;

#[derive(Default)]
pub(crate) struct Tally(Mutex<Gathered>);

#[derive(Default)]
struct Gathered {
    counts: Counts,
    /// Somebody is going to write them.
    promised: bool,
}

impl Tally {
    /// Adds. True: nobody is going to write it yet. Where too many messages are counted already, new ones are left out
    /// until the next write.
    fn add(&self, id: OperationId, round: u32, more: DeliveryCounts) -> bool {
        let mut gathered = self.0.lock();
        if gathered.counts.len() < TALLY_MESSAGES_MAX || gathered.counts.contains_key(&(id, round)) {
            let counts = gathered.counts.entry((id, round)).or_default();
            counts.duplicates += more.duplicates;
            counts.conflicts += more.conflicts;
        }
        !std::mem::replace(&mut gathered.promised, true)
    }

    fn take(&self) -> Counts {
        std::mem::take(&mut self.0.lock().counts)
    }

    /// Whether there is nothing to write; then nobody is going to.
    fn is_done(&self) -> bool {
        let mut gathered = self.0.lock();
        gathered.promised = !gathered.counts.is_empty();
        !gathered.promised
    }
}

impl<S: ConsumeStore + 'static> Inner<S> {
    pub(super) fn count(self: &Arc<Self>, id: OperationId, round: u32, more: DeliveryCounts) {
        if self.tally.add(id, round, more) {
            let inner = self.clone();
            tokio::spawn(async move {
                while {
                    tokio::time::sleep(TALLY_EVERY).await;
                    inner.flush().await;
                    !inner.tally.is_done()
                } {}
            });
        }
    }

    pub(super) async fn flush(&self) {
        let counts = self.tally.take();
        if counts.is_empty() {
            return;
        }
        let rows = counts.iter().map(|((id, round), counts)| (*id, *round, *counts)).collect();
        if let Err(error) = self.store.count_deliveries(rows).await {
            tracing::warn!(consumer = self.settings.consumer, %error, "deliveries could not be counted yet");
            for ((id, round), more) in counts {
                self.tally.add(id, round, more);
            }
        }
    }
}
