//! Attempts that run in this process, and the duplicates that wait for them.
//!
//! All duplicates of one key inside one process share one flight: one of them leads and asks the store, the others
//! learn from it and are woken by its end. A waiter holds no connection and no lock; its going away changes nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_core::{Lease, OperationId, Record, StoreTime};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Refusal;
use crate::limits::Limits;

/// Where a flight stands.
#[derive(Clone)]
pub(crate) enum Stage {
    /// The leader is asking the store.
    Asking,
    /// An attempt runs; its lease lives until this moment.
    Running { record: Arc<Record>, until: Instant },
    /// It has ended like this, at this time of the store.
    Ended { record: Arc<Record>, now: StoreTime },
    /// The store did not answer the leader: whoever waits for the answer is refused with it, or else each would ask
    /// in turn and wait for all before it.
    Refused(Refusal),
    /// The leader left without an end: ask the store.
    Gone,
}

pub(crate) struct Flight {
    stage: watch::Sender<Stage>,
    waiters: AtomicUsize,
}

impl Flight {
    pub(crate) fn subscribe(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    /// An attempt of this process, or of another one as last seen, is running.
    pub(crate) fn runs(&self, record: Arc<Record>, until: Instant) {
        self.stage.send_replace(Stage::Running { record, until });
    }

    /// The lease lives on. Nobody is woken.
    pub(crate) fn renewed(&self, lives_until: Instant) {
        self.stage.send_if_modified(|stage| {
            if let Stage::Running { until, .. } = stage {
                *until = lives_until;
            }
            false
        });
    }
}

impl Flights {
    /// Somebody else took the operation from an attempt that runs here: those who wait or come are told so, although
    /// the attempt has not ended.
    pub(crate) fn taken(&self, record: Record, now: StoreTime) {
        let flight = self.map.lock().remove(&record.id);
        if let Some(flight) = flight {
            flight.stage.send_replace(Stage::Ended { record: Arc::new(record), now });
        }
    }
}

/// The record of a running attempt as seen at this moment.
pub(crate) fn seen_running(record: &Record, until: Instant) -> Record {
    let left = until.saturating_duration_since(Instant::now());
    let lease = if left.is_zero() { Lease::Over } else { Lease::Alive(left) };
    Record { lease, ..record.clone() }
}

#[derive(Default)]
pub(crate) struct Flights {
    map: Arc<Mutex<HashMap<OperationId, Arc<Flight>>>>,
    waiting: Arc<AtomicUsize>,
}

pub(crate) enum Joined {
    Leader(Leader),
    Follower(Arc<Flight>),
}

impl Flights {
    /// Joins the flight of this operation, or opens one and leads it.
    pub(crate) fn join(&self, id: OperationId) -> Joined {
        let mut map = self.map.lock();
        if let Some(flight) = map.get(&id) {
            return Joined::Follower(flight.clone());
        }
        let flight =
            Arc::new(Flight { stage: watch::Sender::new(Stage::Asking), waiters: AtomicUsize::new(0) });
        map.insert(id, flight.clone());
        Joined::Leader(Leader { id, flight, map: self.map.clone() })
    }

    /// The records whose attempts run here now.
    pub(crate) fn running(&self) -> Vec<Arc<Record>> {
        let map = self.map.lock();
        map.values()
            .filter_map(|flight| match &*flight.stage.borrow() {
                Stage::Running { record, .. } => Some(record.clone()),
                _ => None,
            })
            .collect()
    }

    /// A place to wait in, if there is one.
    pub(crate) fn wait_place(&self, flight: &Arc<Flight>, limits: &Limits) -> Option<WaitPlace> {
        if !take(&self.waiting, limits.waiters) {
            return None;
        }
        if !take(&flight.waiters, limits.waiters_per_key) {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(WaitPlace { flight: flight.clone(), waiting: self.waiting.clone() })
    }
}

fn take(counter: &AtomicUsize, max: usize) -> bool {
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < max).then_some(n + 1)).is_ok()
}

/// One of the bounded places among those who wait.
pub(crate) struct WaitPlace {
    flight: Arc<Flight>,
    waiting: Arc<AtomicUsize>,
}

impl WaitPlace {
    /// Whether it is counted among those who wait for this flight.
    pub(crate) fn is_in(&self, flight: &Arc<Flight>) -> bool {
        Arc::ptr_eq(&self.flight, flight)
    }
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        self.flight.waiters.fetch_sub(1, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The lead of a flight. Dropped without an end, it sends the followers to the store.
pub(crate) struct Leader {
    id: OperationId,
    flight: Arc<Flight>,
    map: Arc<Mutex<HashMap<OperationId, Arc<Flight>>>>,
}

impl Leader {
    pub(crate) fn flight(&self) -> &Arc<Flight> {
        &self.flight
    }

    /// Passes the store's answer on; everybody who waits hears of a refusal.
    pub(crate) fn heard<T>(&self, answer: Result<T, Refusal>) -> Result<T, Refusal> {
        answer.inspect_err(|refusal| {
            self.flight.stage.send_replace(Stage::Refused(refusal.clone()));
        })
    }

    /// The attempt has ended: everybody who waits gets this record.
    pub(crate) fn end(self, record: Arc<Record>, now: StoreTime) {
        self.flight.stage.send_replace(Stage::Ended { record, now });
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let mut map = self.map.lock();
        if map.get(&self.id).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            map.remove(&self.id);
        }
        drop(map);
        self.flight.stage.send_if_modified(|stage| {
            if matches!(stage, Stage::Ended { .. } | Stage::Refused(_)) {
                return false;
            }
            *stage = Stage::Gone;
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: OperationId = OperationId::from_bytes([1; 32]);

    #[test]
    fn the_second_to_join_follows_until_the_first_has_left() {
        let flights = Flights::default();
        let Joined::Leader(leader) = flights.join(ID) else { panic!("the first leads") };
        let Joined::Follower(flight) = flights.join(ID) else { panic!("the second follows") };
        drop(leader);
        assert!(matches!(*flight.subscribe().borrow(), Stage::Gone));
        assert!(matches!(flights.join(ID), Joined::Leader(_)));
    }

    #[test]
    fn places_to_wait_are_bounded_for_each_key_and_in_all() {
        let flights = Flights::default();
        let limits = Limits { waiters_per_key: 2, waiters: 3, ..Limits::default() };
        let (Joined::Leader(one), Joined::Leader(two)) =
            (flights.join(ID), flights.join(OperationId::from_bytes([2; 32])))
        else {
            panic!("both lead")
        };
        let first = flights.wait_place(one.flight(), &limits);
        let second = flights.wait_place(one.flight(), &limits);
        assert!(first.is_some() && second.is_some());
        assert!(flights.wait_place(one.flight(), &limits).is_none(), "the key is full");
        let third = flights.wait_place(two.flight(), &limits);
        assert!(third.is_some(), "a refused place is not counted");
        assert!(flights.wait_place(two.flight(), &limits).is_none(), "all is full");
        drop(first);
        assert!(flights.wait_place(two.flight(), &limits).is_some());
    }
}
