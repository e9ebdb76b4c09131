//! The loop of one destination.
//!
//! One call of the store is under way at a time. It ends what has been sent since the last one and takes as much as
//! there is room for, and messages are sent meanwhile: so marking, taking and sending overlap, and the more there is to
//! do the more shares a commit.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use onefold_core::Key;
use onefold_core::budget::Budget;
use onefold_core::retry::Backoff;
use onefold_store::{OutboxStore, Sent, Settlement, StoreError, Take, Taken};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Destination;
use crate::limits::{NOT_YET_MAX, POLL_MAX, POLL_MIN, STORE_PAUSE_FIRST, STORE_PAUSE_MAX};
use crate::{Message, Sending};

/// The reason of a message that was not sent although it was due.
const HELD_BACK: &str = "held back: too many retries of this destination have failed lately";
const GIVEN_LATE: &str = "given so late by the store that its lease was as good as over: not sent";
const STORE_PAUSES: Backoff = Backoff { first: STORE_PAUSE_FIRST, max: STORE_PAUSE_MAX };

/// A sending that has ended.
struct Ended {
    settlement: Settlement,
    /// The length of its message.
    bytes: u64,
    /// When it took a retry from the budget, if it did.
    retry: Option<Duration>,
}

/// A call of the store that has ended.
struct Asked {
    settlements: Vec<Settlement>,
    /// How many messages were asked for.
    room: u32,
    /// When.
    at: Instant,
    answer: Result<(Vec<bool>, Vec<Taken>), StoreError>,
}

type Asking = Pin<Box<dyn Future<Output = Asked> + Send>>;

struct Course {
    store: Arc<dyn OutboxStore>,
    destination: Arc<Destination>,
    budget: Budget,
    begun: Instant,
    on_way: JoinSet<Vec<Ended>>,
    /// Messages that are on their way, and how long they are together.
    sending: u32,
    sending_bytes: u64,
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
    let mut course = Course::new(store, destination, held);
    let mut asking: Option<Asking> = None;
    // Whether messages may wait that nobody has looked for; whether the store is left alone for a while.
    let (mut look, mut rest) = (true, false);
    let mut pause = POLL_MIN;
    loop {
        let stopping = *stop.borrow_and_update();
        let room = if stopping { 0 } else { course.room() };
        if asking.is_none() && !rest && (!course.unsettled.is_empty() || (look && room > 0)) {
            asking = Some(course.ask(room));
        }
        if stopping && asking.is_none() && course.on_way.is_empty() && course.unsettled.is_empty() {
            return;
        }
        let wait = match course.store_errors {
            0 => pause,
            errors => STORE_PAUSES.pause(errors - 1, rand::random()).max(POLL_MIN),
        };
        tokio::select! {
            asked = answered(&mut asking) => {
                asking = None;
                let room = asked.room;
                match course.answered(asked) {
                    Some(given) => {
                        // As many as there was room for: there may be more. Where fewer were given because of their
                        // bytes, the next come with the settlements of these.
                        look = room > 0 && given == room;
                        pause = if given == 0 { (pause * 2).min(POLL_MAX) } else { POLL_MIN };
                    }
                    None => rest = true,
                }
            }
            Some(ended) = course.on_way.join_next() => {
                course.ended(ended);
                while let Some(ended) = course.on_way.try_join_next() {
                    course.ended(ended);
                }
                // The next one of an ordering key may be due now.
                pause = POLL_MIN;
            }
            // Where it is to look and does not, there is no room.
            hinted = hint.waited(wait), if asking.is_none() && (rest || !look) => {
                (look, rest) = (true, false);
                if hinted {
                    pause = POLL_MIN;
                }
            }
            _ = stop.changed(), if !stopping => {}
        }
    }
}

/// The end of a call of the store that is under way; never where there is none. Cancellation safe.
async fn answered(asking: &mut Option<Asking>) -> Asked {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

impl Course {
    fn new(store: Arc<dyn OutboxStore>, destination: Destination, held: Arc<AtomicU64>) -> Course {
        Course {
            store,
            budget: Budget::new(destination.budget),
            destination: Arc::new(destination),
            begun: Instant::now(),
            on_way: JoinSet::new(),
            sending: 0,
            sending_bytes: 0,
            held,
            unsettled: Vec::new(),
            store_errors: 0,
        }
    }

    /// How many more messages there is room for.
    fn room(&self) -> u32 {
        if self.sending_bytes >= self.destination.bytes {
            return 0;
        }
        self.destination.concurrency.saturating_sub(self.sending)
    }

    /// Has the store write what has ended and give at most `room` messages.
    fn ask(&mut self, room: u32) -> Asking {
        let at = Instant::now();
        let take = Take {
            destination: self.destination.name.clone(),
            limit: room,
            bytes: self.destination.bytes.saturating_sub(self.sending_bytes),
            lease: self.destination.lease(),
            if_lost: self.destination.sink.if_lost(),
        };
        let (store, settlements) = (self.store.clone(), std::mem::take(&mut self.unsettled));
        Box::pin(async move {
            let answer = if settlements.is_empty() {
                store.take(take).await.map(|taken| (Vec::new(), taken))
            } else if room == 0 {
                store.settle_sent(settlements.clone()).await.map(|ours| (ours, Vec::new()))
            } else {
                store.settle_and_take(settlements.clone(), take).await
            };
            Asked { settlements, room, at, answer }
        })
    }

    /// Sends what the store has given; says how many. `None`: it did not answer, and what it has not taken is kept.
    fn answered(&mut self, asked: Asked) -> Option<u32> {
        let Asked { settlements, at, answer, .. } = asked;
        match answer {
            Ok((ours, taken)) => {
                self.store_errors = 0;
                self.settled(&settlements, &ours);
                let given = u32::try_from(taken.len()).unwrap_or(u32::MAX);
                self.held.fetch_add(u64::from(given), Ordering::Relaxed);
                self.send(taken, self.destination.time_to_send(at.elapsed()));
                Some(given)
            }
            Err(error) => {
                self.unsettled.splice(0..0, settlements);
                self.away(&error);
                None
            }
        }
    }

    /// Puts messages on their way for at most this long, and those back whose destination has had too many retries in
    /// vain, or whose lease is as good as over.
    fn send(&mut self, taken: Vec<Taken>, most: Option<Duration>) {
        let now = self.begun.elapsed();
        let Some(most) = most else {
            let (destination, messages) = (&self.destination.name, taken.len());
            tracing::warn!(destination, messages, "{GIVEN_LATE}");
            taken.into_iter().for_each(|taken| self.put_back(taken, POLL_MIN, GIVEN_LATE));
            return;
        };
        let until = Instant::now() + most;
        let mut fit = Vec::with_capacity(taken.len());
        for taken in taken {
            if taken.attempt > 1 && !self.budget.take(now) {
                let after = self.destination.budget.window.mul_f64(rand::random::<f64>()).max(POLL_MAX);
                self.put_back(taken, after, HELD_BACK);
            } else {
                fit.push(taken);
            }
        }
        let (mut fit, batch) = (fit.into_iter(), self.destination.batch());
        loop {
            let some: Vec<Taken> = fit.by_ref().take(batch).collect();
            if some.is_empty() {
                return;
            }
            self.sending += u32::try_from(some.len()).unwrap_or(u32::MAX);
            self.sending_bytes += some.iter().map(|taken| bytes(&taken.message)).sum::<u64>();
            self.on_way.spawn(sent(some, self.destination.clone(), until, now));
        }
    }

    /// It was not sent.
    fn put_back(&mut self, taken: Taken, after: Duration, why: &str) {
        let sent = Sent::Again { after, counted: false, reason: why.into() };
        self.unsettled.push(Settlement { id: taken.message.id, attempt: taken.attempt, sent });
    }

    fn ended(&mut self, ended: Result<Vec<Ended>, tokio::task::JoinError>) {
        // A task of ours does not panic: what it runs is caught.
        let Ok(ended) = ended else { return };
        for Ended { settlement, bytes, retry } in ended {
            self.sending -= 1;
            self.sending_bytes -= bytes;
            if settlement.sent == Sent::Delivered {
                self.budget.succeeded(self.begun.elapsed());
                retry.into_iter().for_each(|taken_at| self.budget.give_back(taken_at));
            }
            self.unsettled.push(settlement);
        }
    }

    /// The store has written these; `ours`: whether each was the attempt that held its message.
    fn settled(&self, settlements: &[Settlement], ours: &[bool]) {
        self.held.fetch_sub(ours.len() as u64, Ordering::Relaxed);
        for (settlement, _) in settlements.iter().zip(ours).filter(|(_, ours)| **ours) {
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
            Sent::Again { reason, .. } if [HELD_BACK, GIVEN_LATE].contains(&reason.as_str()) => {}
            Sent::Again { after, reason, .. } => {
                let again_in_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                tracing::warn!(destination, id, attempt, reason, again_in_ms, "a message was not accepted");
            }
            Sent::Delivered => {}
        }
    }

    fn away(&mut self, error: &StoreError) {
        self.store_errors = self.store_errors.saturating_add(1);
        tracing::warn!(destination = self.destination.name, %error, "the outbox does not answer");
    }
}

/// The length of what a message says.
fn bytes(message: &Message) -> u64 {
    let headers: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    (headers + message.body.len()) as u64
}

/// What a sending is settled by.
struct Fence {
    id: Key,
    bytes: u64,
    attempt: u32,
    failures: u32,
}

/// Sends messages and says how each sending ended. A panic of the sink and a time that is over are answers like any
/// other.
async fn sent(taken: Vec<Taken>, destination: Arc<Destination>, until: Instant, now: Duration) -> Vec<Ended> {
    let (fences, messages): (Vec<Fence>, Vec<_>) = taken
        .into_iter()
        .map(|Taken { message, attempt, failures, .. }| {
            (Fence { id: message.id.clone(), bytes: bytes(&message), attempt, failures }, message)
        })
        .unzip();
    let sink = &destination.sink;
    let sending = AssertUnwindSafe(timeout_at(until, sink.send_all(messages))).catch_unwind().await;
    let (answers, lost) = match sending {
        Ok(Ok(answers)) => (answers, "the sink gave no answer"),
        Ok(Err(_)) => (Vec::new(), "no answer in time"),
        Err(_) => (Vec::new(), "the sink panicked"),
    };
    let mut answers = answers.into_iter();
    let ended = fences.into_iter().map(|Fence { id, bytes, attempt, failures }| {
        let sending = answers.next().unwrap_or_else(|| Sending::lost(lost, sink.if_lost()));
        let sent = meaning(sending, &destination, failures, rand::random());
        Ended { settlement: Settlement { id, attempt, sent }, bytes, retry: (attempt > 1).then_some(now) }
    });
    ended.collect()
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
