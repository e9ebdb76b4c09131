//! How many messages of a source may wait for their handler.
//!
//! *Promises.* Of one process no more are taken in than there is room for, however many deliveries come at once. What
//! waits is counted in the store at most once in [`ROOM_LOOK_EVERY`], and what this process takes in is added between
//! two looks; so several processes on one store can be over by what the others took in between. What is done since a
//! look makes room with the next one. A person's permit or redrive needs no room.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use onefold_store::StoreError;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Inner, Intake, destination};
use crate::limits::{ROOM_LOOK_EVERY, ROOM_LOOK_SHARE};

/// What is known of the room of every source.
#[derive(Default)]
pub(super) struct Rooms {
    counts: Arc<Mutex<HashMap<String, Counted>>>,
    /// When the store was looked at last, and how long that took. Held by whoever looks.
    looked: tokio::sync::Mutex<Option<(Instant, Duration)>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// As the store said.
    waiting: u64,
    /// Taken in since that was asked.
    since: u64,
    /// Deliveries that have room and are not taken in yet.
    reserved: u64,
}

/// Room for one message. Dropped unused, it is free again.
#[must_use]
pub struct Room {
    counts: Arc<Mutex<HashMap<String, Counted>>>,
    source: String,
}

impl Room {
    /// The message is durable.
    pub(super) fn taken(&self) {
        self.counts.lock().entry(self.source.clone()).or_default().since += 1;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(counted) = self.counts.lock().get_mut(&self.source) {
            counted.reserved = counted.reserved.saturating_sub(1);
        }
    }
}

impl Intake {
    /// Room for one more message of a source of which `max` may wait; `None` when as many do. Cancellation safe.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    pub async fn room(&self, source: &str, max: u64) -> Result<Option<Room>, StoreError> {
        self.0.look_for_room().await?;
        let rooms = &self.0.rooms;
        let mut counts = rooms.counts.lock();
        let counted = counts.entry(source.to_owned()).or_default();
        if counted.waiting + counted.since + counted.reserved >= max {
            return Ok(None);
        }
        counted.reserved += 1;
        drop(counts);
        Ok(Some(Room { counts: rooms.counts.clone(), source: source.to_owned() }))
    }
}

impl Inner {
    /// Counts what waits, where that is not known or known for too long. One looks, and only who knows nothing waits.
    async fn look_for_room(&self) -> Result<(), StoreError> {
        let mut looked = match self.rooms.looked.try_lock() {
            Ok(looked) => looked,
            Err(_) if self.rooms.counts.lock().is_empty() => self.rooms.looked.lock().await,
            Err(_) => return Ok(()),
        };
        let fresh =
            |(at, took): &(Instant, Duration)| at.elapsed() < ROOM_LOOK_EVERY.max(*took * ROOM_LOOK_SHARE);
        if looked.as_ref().is_some_and(fresh) {
            return Ok(());
        }
        let asked = Instant::now();
        let before: HashMap<_, _> = self.rooms.counts.lock().clone();
        let survey = self.store.survey_outbox().await?;
        let mut counts = self.rooms.counts.lock();
        for (source, counted) in counts.iter_mut() {
            let name = destination(source);
            counted.waiting =
                survey.iter().find(|found| found.destination == name).map_or(0, |found| found.depth);
            counted.since -= before.get(source).map_or(0, |before| before.since);
        }
        for found in &survey {
            if let Some(source) = found.destination.strip_prefix(&destination("")) {
                counts.entry(source.to_owned()).or_default().waiting = found.depth;
            }
        }
        *looked = Some((asked, asked.elapsed()));
        Ok(())
    }
}
