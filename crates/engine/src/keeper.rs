//! The loops beside the requests: one writes counters, withdraws attempts that nobody performs, marks lost outcomes and
//! reads gauges, one sweeps what has expired.
//!
//! Nothing depends on them for being right: expiry and leases are judged whenever a record is read. They only keep
//! lists, gauges and the size of the store close to the truth. A sweep takes as long as it takes, since it rests
//! after each step for several times as long as the step took: what expires at once does not disturb the requests,
//! and nothing else waits for its end.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::Engine;
use crate::limits::{FORSAKEN_LOOK_FOR, KEEPER_TICK, SWEEP_LIMIT, SWEEP_REST, SWEEP_REST_MAX};

/// The running loops; they end when this is dropped.
pub struct Keeper(pub(crate) JoinHandle<()>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Engine {
    /// Starts the loops. `sweep_every` is the pause between two sweeps of what has expired.
    pub fn keep(&self, sweep_every: Duration) -> Keeper {
        let engine = self.clone();
        Keeper(tokio::spawn(async move { engine.run_keeper(sweep_every).await }))
    }

    async fn run_keeper(&self, sweep_every: Duration) {
        tokio::join!(self.run_ticks(), self.run_sweeper(sweep_every));
    }

    async fn run_ticks(&self) {
        let mut ticks = interval(KEEPER_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.flush_counters().await;
            // A store that answers slowly delays nothing else for long.
            let _ = timeout(FORSAKEN_LOOK_FOR, self.look_for_forsaken()).await;
            self.look_for_lost_outcomes().await;
            if let Ok(survey) = self.0.store.survey().await {
                self.0.signals.surveyed(&survey);
            }
        }
    }

    async fn run_sweeper(&self, sweep_every: Duration) {
        loop {
            sleep(sweep_every).await;
            self.sweep().await;
        }
    }

    /// Writes the gathered counters; called once more before the process ends.
    pub async fn flush_counters(&self) {
        let counts = self.0.tally.take();
        if !counts.is_empty() && self.0.store.count(counts.clone()).await.is_err() {
            self.0.signals.store_error();
            self.0.tally.put_back(counts);
        }
    }

    async fn look_for_lost_outcomes(&self) {
        loop {
            match self.0.store.lose_stale(SWEEP_LIMIT).await {
                Ok(0) => return,
                Ok(lost) => tracing::warn!(
                    lost,
                    "attempts ended without an outcome; see `onefold operations list --state outcome_unknown`"
                ),
                Err(error) => {
                    self.0.signals.store_error();
                    tracing::warn!(%error, "lost outcomes could not be looked for");
                    return;
                }
            }
        }
    }

    async fn sweep(&self) {
        loop {
            let begun = Instant::now();
            match self.0.store.sweep(SWEEP_LIMIT).await {
                Ok(swept) if swept.tombstones + swept.deleted == 0 => return,
                Ok(swept) => tracing::debug!(?swept, "swept"),
                Err(error) => {
                    self.0.signals.store_error();
                    tracing::warn!(%error, "expired records could not be swept");
                    return;
                }
            }
            rest_after(begun).await;
        }
    }
}

/// The rest between two steps of a sweep.
pub(crate) async fn rest_after(begun: Instant) {
    sleep((begun.elapsed() * SWEEP_REST).min(SWEEP_REST_MAX)).await;
}
