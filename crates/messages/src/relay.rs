//! The relay: takes messages out of the outbox and gives each to the sink of its destination.
//!
//! *Promises.* Every destination has a loop of its own, so a slow or dead one holds up nobody else. A message is sent
//! only under a lease, and a sending ends before its lease does. What was accepted is settled in batches; a relay that
//! is lost in between leaves messages that are sent again under their ids, or held, as the sink says. Any number of
//! relays may run over one outbox. No transaction is open while a message is sent.
//!
//! *Load.* A sending that is not a message's first one takes a retry from the destination's budget (SEMANTICS 11), and
//! gives it back when it was accepted: a backlog that flows is no extra load, a backlog that fails is bounded.
//!
//! *It does not* promise that a message is sent once, and keeps nothing that a crash could lose.

mod destination;
mod run;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onefold_store::OutboxStore;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

pub use destination::Destination;

use crate::look_up;

/// A running relay. Dropped, it stops at once: what is on its way is left to its lease.
#[derive(Debug)]
pub struct Relay {
    stopping: watch::Sender<bool>,
    loops: JoinSet<()>,
    /// Messages that were taken and are not settled.
    held: Arc<AtomicU64>,
}

impl Relay {
    /// Starts a loop for each destination. Must be called within a tokio runtime.
    pub fn start(store: &Arc<dyn OutboxStore>, destinations: Vec<Destination>) -> Relay {
        let (stopping, stop) = watch::channel(false);
        let (mut loops, held) = (JoinSet::new(), Arc::new(AtomicU64::new(0)));
        for destination in destinations {
            if let Some((look_up, every)) = destination.look_up.clone() {
                let name = destination.name.clone();
                loops.spawn(look_up::run(store.clone(), name, look_up, every, stop.clone()));
            }
            loops.spawn(run::run(store.clone(), destination, held.clone(), stop.clone()));
        }
        Relay { stopping, loops, held }
    }

    /// Takes nothing more, waits for what is on its way and settles it, for at most `grace`. Returns how many
    /// messages are left to their leases.
    pub async fn stop(mut self, grace: Duration) -> u64 {
        self.stopping.send_replace(true);
        let until = Instant::now() + grace;
        while let Ok(Some(_)) = timeout_at(until, self.loops.join_next()).await {}
        self.held.load(Ordering::Relaxed)
    }
}
