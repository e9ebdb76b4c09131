//! A ledger that stands for an inbox: it does the effect of a message once and knows it again.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use onefold::inbox::{Inbound, Receive, Settle};

/// What was done, each message once.
#[derive(Default)]
pub struct Ledger {
    /// What it has come to.
    pub done: Mutex<Done>,
    /// Deliveries that were handed over, those that are being handled included.
    pub handed: AtomicUsize,
    /// How long handling takes at least.
    pub work: Duration,
    /// How much longer it may take, by chance: so that messages that are handled at once end in any order.
    pub uneven: Duration,
    /// Refused this often before anything is done: by body.
    pub refusals: Mutex<HashMap<String, u32>>,
    /// Given up when they come: by body.
    pub poison: HashSet<String>,
}

/// What a ledger has come to.
#[derive(Default)]
pub struct Done {
    ids: HashSet<String>,
    /// Messages in the order in which they were done.
    pub effects: Vec<Inbound>,
    /// Deliveries of what was done.
    pub duplicates: usize,
    /// Messages that were given up.
    pub parked: usize,
}

#[async_trait]
impl Receive for Ledger {
    async fn receive(&self, inbound: Inbound) -> Settle {
        self.handed.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(self.work + self.uneven.mul_f64(rand::random())).await;
        let body = String::from_utf8(inbound.body.clone()).unwrap();
        if let Some(left) = self.refusals.lock().unwrap().get_mut(&body).filter(|left| **left > 0) {
            *left -= 1;
            return Settle::Again { after: Duration::from_millis(200) };
        }
        let mut done = self.done.lock().unwrap();
        if self.poison.contains(&body) {
            done.parked += 1;
            return Settle::Acknowledge;
        }
        let id = inbound.id.as_ref().expect("every message has an id").as_str().to_owned();
        if done.ids.insert(id) {
            done.effects.push(inbound);
        } else {
            done.duplicates += 1;
        }
        Settle::Acknowledge
    }
}

impl Ledger {
    /// One that never comes to an end with anything.
    pub fn stuck() -> Ledger {
        Ledger { work: Duration::from_secs(3600), ..Ledger::default() }
    }

    /// The bodies in the order in which they were done.
    pub fn effects(&self) -> Vec<String> {
        let done = self.done.lock().unwrap();
        done.effects.iter().map(|inbound| String::from_utf8(inbound.body.clone()).unwrap()).collect()
    }

    /// Deliveries that were handed over.
    pub fn handed(&self) -> usize {
        self.handed.load(Ordering::Relaxed)
    }

    /// Deliveries of what was done.
    pub fn duplicates(&self) -> usize {
        self.done.lock().unwrap().duplicates
    }
}
