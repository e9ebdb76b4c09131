//! How a consumer's adapter hands deliveries to a [`Receive`]: many at once, bounded, and where order is asked one at a
//! time of each ordering key.
//!
//! A delivery is settled with its broker only as [`Receive`] says. One that is to come again holds its own key and
//! nobody else: it is kept here, unsettled, and handed over once more. What is not settled when the lanes are closed
//! goes back to the broker. Nothing here survives a crash, and nothing here is missed after one: the broker delivers
//! again what was not settled, and [`Receive`] knows what was done.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::{Inbound, Receive, Settle};

/// The longest that a delivery is kept before it is handed over once more: well below the 30 minutes after which
/// RabbitMQ takes an unsettled delivery for a lost one. Longer waits are cut to it.
pub const HOLD_MAX: Duration = Duration::from_secs(600);
/// The wait after a handler that panicked, which said nothing of a wait itself.
const AFTER_PANIC: Duration = Duration::from_secs(5);

/// What is kept in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    Free,
    /// Messages under one ordering key, one at a time.
    PerKey,
}

/// A delivery as its broker knows it. Dropped without being settled it comes again, at the latest when its connection
/// has ended.
#[async_trait]
pub trait Delivery: Sized + Send + 'static {
    /// What is handed over.
    fn inbound(&self) -> Inbound;

    /// Tells the broker to forget it. Where that is lost it comes again.
    async fn acknowledge(self);

    /// Has the broker deliver it again after this long, or gives it back where the broker cannot wait. Only asked where
    /// no order is to be kept.
    async fn postpone(self, after: Duration) -> Option<Self>;

    /// Has the broker deliver it again, to whom it likes.
    async fn hand_back(self);
}

/// A place for one delivery; free again when dropped.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

type Waiting<D> = HashMap<String, VecDeque<(D, Place)>>;

/// The deliveries that are being handled.
pub struct Lanes<D> {
    shared: Arc<Shared<D>>,
    places: Arc<Semaphore>,
    closing: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

struct Shared<D> {
    receive: Arc<dyn Receive>,
    order: Order,
    /// One entry for each key that is being handled, with those behind it.
    waiting: Mutex<Waiting<D>>,
    closing: watch::Receiver<bool>,
}

impl<D: Delivery> Lanes<D> {
    /// Lanes for at most `places` deliveries, those that wait behind others included.
    pub fn new(receive: Arc<dyn Receive>, order: Order, places: usize) -> Lanes<D> {
        let (closing, closed) = watch::channel(false);
        let shared = Shared { receive, order, waiting: Mutex::default(), closing: closed };
        Lanes {
            shared: Arc::new(shared),
            places: Arc::new(Semaphore::new(places)),
            closing,
            tasks: JoinSet::new(),
        }
    }

    /// Waits for a place. Cancellation safe.
    pub async fn place(&self) -> Place {
        Place { _permit: self.places.clone().acquire_owned().await.expect("nobody closes it") }
    }

    /// A place, if one is free.
    pub fn free_place(&self) -> Option<Place> {
        self.places.clone().try_acquire_owned().ok().map(|permit| Place { _permit: permit })
    }

    /// Takes a delivery on. Of one key they are handled in the order of these calls.
    pub fn give(&mut self, delivery: D, place: Place) {
        while self.tasks.try_join_next().is_some() {}
        let key = match self.shared.order {
            Order::Free => None,
            Order::PerKey => delivery.inbound().ordering_key,
        };
        let shared = self.shared.clone();
        let Some(key) = key else {
            self.tasks.spawn(async move {
                shared.handle(delivery).await;
                drop(place);
            });
            return;
        };
        let mut waiting = self.shared.waiting.lock().expect("nobody panics under it");
        if let Some(behind) = waiting.get_mut(&key) {
            behind.push_back((delivery, place));
            return;
        }
        waiting.insert(key.clone(), VecDeque::new());
        drop(waiting);
        self.tasks.spawn(async move { shared.lane(key, delivery, place).await });
    }

    /// Lets what is being handled end, at most for `grace`, and hands back everything else. What has not ended then is
    /// dropped and comes again.
    pub async fn close(mut self, grace: Duration) {
        self.closing.send_replace(true);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_err() {
            tracing::warn!(
                left = self.tasks.len(),
                "handlers did not end in time; their messages come again"
            );
        }
        self.tasks.shutdown().await;
    }
}

impl<D: Delivery> Shared<D> {
    /// Handles a key's deliveries until none is left.
    async fn lane(&self, key: String, first: D, place: Place) {
        let mut next = (first, place);
        loop {
            self.handle(next.0).await;
            // Freed only now, so that those that are held count.
            drop(next.1);
            let mut waiting = self.waiting.lock().expect("nobody panics under it");
            let behind = waiting.get_mut(&key).expect("a lane has its entry");
            match behind.pop_front() {
                Some(following) => next = following,
                None => {
                    waiting.remove(&key);
                    return;
                }
            }
        }
    }

    /// Hands a delivery over until it is settled.
    async fn handle(&self, mut delivery: D) {
        let mut closing = self.closing.clone();
        loop {
            if *closing.borrow_and_update() {
                return delivery.hand_back().await;
            }
            let handled = AssertUnwindSafe(self.receive.receive(delivery.inbound())).catch_unwind().await;
            let after = match handled {
                Ok(Settle::Acknowledge) => return delivery.acknowledge().await,
                Ok(Settle::Again { after }) => after.min(HOLD_MAX),
                Err(_) => {
                    tracing::error!("a handler panicked; its message is handed over again");
                    AFTER_PANIC
                }
            };
            if self.order == Order::Free {
                match delivery.postpone(after).await {
                    None => return,
                    Some(kept) => delivery = kept,
                }
            }
            // Either way the loop sees whether it is closing.
            let _ = tokio::time::timeout(after, closing.changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened, in order.
    type Log = Arc<Mutex<Vec<String>>>;

    struct Paper(&'static str, &'static str, Log);

    #[async_trait]
    impl Delivery for Paper {
        fn inbound(&self) -> Inbound {
            Inbound {
                source: "test".into(),
                id: None,
                ordering_key: Some(self.0.into()),
                headers: Vec::new(),
                body: self.1.into(),
            }
        }

        async fn acknowledge(self) {
            self.2.lock().unwrap().push(format!("{} acknowledged", self.1));
        }

        async fn postpone(self, _after: Duration) -> Option<Paper> {
            Some(self)
        }

        async fn hand_back(self) {
            self.2.lock().unwrap().push(format!("{} handed back", self.1));
        }
    }

    /// Handles what is called `fails` at the third time and panics at the second.
    struct Handler(Log);

    #[async_trait]
    impl Receive for Handler {
        async fn receive(&self, inbound: Inbound) -> Settle {
            let body = String::from_utf8(inbound.body).unwrap();
            let seen = {
                let mut log = self.0.lock().unwrap();
                log.push(body.clone());
                log.iter().filter(|line| **line == body).count()
            };
            match (body.as_str(), seen) {
                ("fails", 1) => Settle::Again { after: Duration::from_secs(60) },
                ("fails", 2) => panic!("as the test wants it"),
                ("never", _) => Settle::Again { after: Duration::from_secs(3600) },
                _ => Settle::Acknowledge,
            }
        }
    }

    async fn lanes(order: Order, given: &[(&'static str, &'static str)]) -> (Lanes<Paper>, Log) {
        let log = Log::default();
        let mut lanes = Lanes::new(Arc::new(Handler(log.clone())), order, given.len());
        for (key, body) in given {
            let place = lanes.place().await;
            lanes.give(Paper(key, body, log.clone()), place);
        }
        (lanes, log)
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_fails_holds_its_own_key_only() {
        let (mut lanes, log) = lanes(Order::PerKey, &[("a", "fails"), ("a", "behind"), ("b", "other")]).await;
        while lanes.tasks.join_next().await.is_some() {}
        let log = log.lock().unwrap().clone();
        let at = |line: &str| log.iter().position(|found| found == line).unwrap();
        assert!(at("other acknowledged") < at("fails acknowledged"), "{log:?}");
        assert!(at("fails acknowledged") < at("behind"), "{log:?}");
        assert_eq!(log.iter().filter(|line| *line == "fails").count(), 3, "{log:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn closing_hands_back_what_is_held_and_what_is_behind_it() {
        let (lanes, log) = lanes(Order::PerKey, &[("a", "never"), ("a", "behind")]).await;
        assert!(lanes.free_place().is_none());
        // Handed over once, and held since.
        while log.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        lanes.close(Duration::from_secs(1)).await;
        assert_eq!(*log.lock().unwrap(), ["never", "never handed back", "behind handed back"]);
    }
}
