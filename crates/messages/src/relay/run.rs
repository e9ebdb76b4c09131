//! The loop of one destination.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onefold_core::budget::Budget;
use onefold_core::retry::Backoff;
use onefold_store::{OutboxStore, Sent, Settlement, Take, Taken};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Destination;
use crate::Sending;
use crate::limits::{NOT_YET_MAX, POLL_MAX, POLL_MIN, STORE_PAUSE_FIRST, STORE_PAUSE_MAX};

/// The reason of a message that was not sent although it was due.
const HELD_BACK: &str = "held back: too many retries of this destination have failed lately";
const STORE_PAUSES: Backoff = Backoff { first: STORE_PAUSE_FIRST, max: STORE_PAUSE_MAX };

/// A sending that has ended.
struct Ended {
    settlement: Settlement,
    /// When it took a retry from the budget, if it did.
    retry: Option<Duration>,
}

struct Course {
    store: Arc<dyn OutboxStore>,
    destination: Arc<Destination>,
    budget: Budget,
    begun: Instant,
    on_way: JoinSet<Ended>,
    /// Messages that were taken and are not settled, for whoever stops the relay.
    held: Arc<AtomicU64>,
    /// Settlements that the store has not taken yet.
    unsettled: Vec<Settlement>,
    /// Calls in a row that the store did not answer.
    store_errors: u32,
}

/// Runs until it is told to stop and nothing is on its way.
pub(super) async fn run(
    store: Arc<dyn OutboxStore>,
    destination: Destination,
    held: Arc<AtomicU64>,
    mut stop: watch::Receiver<bool>,
) {
    let mut hint = store.hint();
    let mut course = Course {
        store,
        budget: Budget::new(destination.budget),
        destination: Arc::new(destination),
        begun: Instant::now(),
        on_way: JoinSet::new(),
        held,
        unsettled: Vec::new(),
        store_errors: 0,
    };
    let mut pause = POLL_MIN;
    loop {
        let stopping = *stop.borrow_and_update();
        course.settle().await;
        if stopping && course.on_way.is_empty() && course.unsettled.is_empty() {
            return;
        }
        let room = course.room();
        let mut look = room > 0 && !stopping;
        if look && course.unsettled.is_empty() {
            let given = course.take(room).await;
            // As many as there was room for: there may be more.
            look = given < room;
            pause = if given == 0 { (pause * 2).min(POLL_MAX) } else { POLL_MIN };
            if !look && course.room() > 0 {
                continue;
            }
        }
        let wait = if course.store_errors > 0 {
            STORE_PAUSES.pause(course.store_errors - 1, rand::random()).max(POLL_MIN)
        } else {
            pause
        };
        let owes = !course.unsettled.is_empty();
        tokio::select! {
            Some(ended) = course.on_way.join_next(), if !owes => {
                course.ended(ended);
                while let Some(ended) = course.on_way.try_join_next() {
                    course.ended(ended);
                }
                // The next one of an ordering key may be due now.
                pause = POLL_MIN;
            }
            hinted = hint.waited(wait), if look || owes => if hinted && !owes {
                pause = POLL_MIN;
            },
            _ = stop.changed(), if !stopping => {}
        }
    }
}

impl Course {
    fn room(&self) -> u32 {
        let on_way = u32::try_from(self.on_way.len()).unwrap_or(u32::MAX);
        self.destination.concurrency.saturating_sub(on_way)
    }

    /// Takes at most `room` messages and sends them. Returns how many there were.
    async fn take(&mut self, room: u32) -> u32 {
        let asked = Instant::now();
        let take = Take {
            destination: self.destination.name.clone(),
            limit: room,
            lease: self.destination.lease(),
            if_lost: self.destination.sink.if_lost(),
        };
        let taken = match self.store.take(take).await {
            Ok(taken) => taken,
            Err(error) => {
                self.away(&error);
                return 0;
            }
        };
        self.store_errors = 0;
        let given = u32::try_from(taken.len()).unwrap_or(u32::MAX);
        self.held.fetch_add(u64::from(given), Ordering::Relaxed);
        for taken in taken {
            self.send(taken, asked + self.destination.timeout);
        }
        given
    }

    /// Puts a message on its way, or back where its destination has had too many retries in vain.
    fn send(&mut self, taken: Taken, until: Instant) {
        let now = self.begun.elapsed();
        let again = taken.attempt > 1;
        if again && !self.budget.take(now) {
            let after = self.destination.budget.window.mul_f64(rand::random::<f64>()).max(POLL_MAX);
            let sent = Sent::Again { after, counted: false, reason: HELD_BACK.into() };
            self.unsettled.push(Settlement { id: taken.message.id, attempt: taken.attempt, sent });
            return;
        }
        let destination = self.destination.clone();
        self.on_way.spawn(async move {
            let sink = destination.sink.clone();
            let (message, if_lost) = (taken.message.clone(), sink.if_lost());
            // In a task of its own, so that a panic is an answer like any other.
            let sending = tokio::spawn(async move { timeout_at(until, sink.send(&message)).await });
            let sending = match AbortOnDrop(sending).wait().await {
                Ok(Ok(sending)) => sending,
                Ok(Err(_)) => Sending::lost("no answer in time", if_lost),
                Err(_) => Sending::lost("the sink panicked", if_lost),
            };
            let sent = meaning(sending, &destination, taken.failures, rand::random());
            let settlement = Settlement { id: taken.message.id, attempt: taken.attempt, sent };
            Ended { settlement, retry: again.then_some(now) }
        });
    }

    fn ended(&mut self, ended: Result<Ended, tokio::task::JoinError>) {
        // A task of ours does not panic: what it runs does so in another one.
        let Ok(Ended { settlement, retry }) = ended else { return };
        if settlement.sent == Sent::Delivered {
            self.budget.succeeded(self.begun.elapsed());
            retry.into_iter().for_each(|taken_at| self.budget.give_back(taken_at));
        }
        self.unsettled.push(settlement);
    }

    /// Writes what has ended. What the store does not take is kept.
    async fn settle(&mut self) {
        if self.unsettled.is_empty() {
            return;
        }
        let settlements = self.unsettled.clone();
        match self.store.settle_sent(settlements).await {
            Ok(ours) => {
                self.store_errors = 0;
                self.held.fetch_sub(ours.len() as u64, Ordering::Relaxed);
                for (settlement, _) in self.unsettled.iter().zip(&ours).filter(|(_, ours)| **ours) {
                    self.tell(settlement);
                }
                let superseded = ours.iter().filter(|ours| !**ours).count();
                if superseded > 0 {
                    tracing::warn!(
                        destination = self.destination.name,
                        superseded,
                        "sendings ended after their lease; another relay has these messages"
                    );
                }
                self.unsettled.clear();
            }
            Err(error) => self.away(&error),
        }
    }

    /// Logs each sending that was not accepted, once, when that is noted.
    fn tell(&self, Settlement { id, attempt, sent }: &Settlement) {
        let (destination, id) = (&self.destination.name, id.as_str());
        match sent {
            Sent::Dead { reason } => {
                tracing::warn!(destination, id, reason, "a message is a dead letter and waits for a person");
            }
            Sent::Unknown { reason } => {
                tracing::warn!(destination, id, reason, "a message may have arrived and waits for a person");
            }
            Sent::Again { reason, .. } if reason == HELD_BACK => {}
            Sent::Again { after, reason, .. } => {
                let again_in_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                tracing::warn!(destination, id, attempt, reason, again_in_ms, "a message was not accepted");
            }
            Sent::Delivered => {}
        }
    }

    fn away(&mut self, error: &onefold_store::StoreError) {
        self.store_errors = self.store_errors.saturating_add(1);
        tracing::warn!(destination = self.destination.name, %error, "the outbox does not answer");
    }
}

/// What the end of a sending means for its message, which has failed `failures` times before.
fn meaning(sending: Sending, destination: &Destination, failures: u32, dice: f64) -> Sent {
    match sending {
        Sending::Accepted => Sent::Delivered,
        Sending::NotYet { after, reason } => {
            let after = after.unwrap_or_else(|| destination.backoff.pause(failures, dice));
            Sent::Again { after: after.clamp(POLL_MIN, NOT_YET_MAX), counted: false, reason }
        }
        Sending::Failed { reason } => match destination.attempts {
            Some(attempts) if failures + 1 >= attempts => Sent::Dead { reason },
            _ => Sent::Again { after: destination.backoff.pause(failures, dice), counted: true, reason },
        },
        Sending::Refused { reason } => Sent::Dead { reason },
        Sending::Unknown { reason } => Sent::Unknown { reason },
    }
}

/// A task that ends with whoever waits for it.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn wait(mut self) -> Result<T, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
