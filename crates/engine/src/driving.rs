//! The loop that drives interrupted workflows on (SEMANTICS 5).
//!
//! An attempt of a resumable operation that was interrupted, by an error, a panic or the end of its process, leaves a
//! record whose lease is over. The loop looks for those of the operations that have a driver and calls the driver,
//! which makes the operation's call again; the call's own transition says who of several processes goes on with it.
//! Paced: a workflow that is interrupted again is driven again after a pause that grows. What is remembered of pauses
//! is in memory: after a crash each is driven at once.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use onefold_core::{OperationId, Record};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::Engine;
use crate::limits::{DRIVE_BACKOFF, DRIVE_TICK, DRIVEN_AT_ONCE, INTERRUPTED_LOOK};

/// What makes a driver's call: its end says nothing, the record does.
pub type Drives = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What goes on with the interrupted workflows of one operation.
#[derive(Clone)]
pub struct Driver {
    /// The operation's name.
    pub operation: String,
    /// Makes its call again for this record.
    pub drive: Arc<dyn Fn(Record) -> Drives + Send + Sync>,
}

/// The running loop; it ends when this is dropped, with what it drives.
pub struct Driving(JoinHandle<()>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// When one is driven again.
struct Paced {
    drives: u32,
    running: bool,
    due: Instant,
}

impl Engine {
    /// Starts the loop over the operations that have a driver. Without any it does nothing.
    pub fn drive(&self, drivers: Vec<Driver>) -> Driving {
        let engine = self.clone();
        Driving(tokio::spawn(async move {
            if !drivers.is_empty() {
                engine.run_driver(drivers).await;
            }
        }))
    }

    async fn run_driver(&self, drivers: Vec<Driver>) {
        let drivers: HashMap<String, Driver> =
            drivers.into_iter().map(|driver| (driver.operation.clone(), driver)).collect();
        let operations: Vec<String> = drivers.keys().cloned().collect();
        let mut paced: HashMap<OperationId, Paced> = HashMap::new();
        let mut driving = JoinSet::new();
        let mut ticks = interval(DRIVE_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            while let Some(ended) = driving.try_join_next() {
                if let Ok(id) = ended
                    && let Some(one) = paced.get_mut(&id)
                {
                    one.running = false;
                    one.due = Instant::now()
                        + DRIVE_BACKOFF.pause(one.drives - 1, 0.5 + rand::random::<f64>() / 2.0);
                }
            }
            let found = match self.0.store.interrupted(&operations, INTERRUPTED_LOOK).await {
                Ok(found) => found,
                Err(error) => {
                    self.0.signals.store_error();
                    tracing::warn!(%error, "interrupted operations could not be looked for");
                    continue;
                }
            };
            let now = Instant::now();
            // Kept for a while after it was seen last: another process may have it in hand.
            paced.retain(|_, one| one.running || now < one.due + DRIVE_BACKOFF.max);
            for record in found {
                let Some(driver) = drivers.get(&record.operation) else { continue };
                let one = paced.entry(record.id).or_insert(Paced { drives: 0, running: false, due: now });
                if driving.len() < DRIVEN_AT_ONCE && !one.running && one.due <= now {
                    *one = Paced { drives: one.drives.saturating_add(1), running: true, due: now };
                    tracing::debug!(operation = %record.id, attempt = record.attempt, "driven on");
                    driving.spawn(once(driver.clone(), record));
                }
            }
        }
    }
}

/// Runs a driver in a task of its own, so that a panic stays in it, and says whose it was.
async fn once(driver: Driver, record: Record) -> OperationId {
    let id = record.id;
    let mut one = JoinSet::new();
    one.spawn(async move { (driver.drive)(record).await });
    if let Some(Err(error)) = one.join_next().await {
        tracing::error!(operation = %id, %error, "a driver failed");
    }
    id
}
