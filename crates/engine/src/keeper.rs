//! The loop beside the requests: writes counters, marks lost outcomes, reads gauges, sweeps what has expired.
//!
//! Nothing depends on it for being right: expiry and leases are judged whenever a record is read. It only keeps
//! lists, gauges and the size of the store close to the truth.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::Engine;
use crate::limits::{KEEPER_TICK, SWEEP_LIMIT};

/// The running loop; it ends when this is dropped.
pub struct Keeper(pub(crate) JoinHandle<()>);

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Engine {
    /// Starts the loop. Expired records are swept every `sweep_every`.
    pub fn keep(&self, sweep_every: Duration) -> Keeper {
        let engine = self.clone();
        Keeper(tokio::spawn(async move { engine.run_keeper(sweep_every).await }))
    }

    async fn run_keeper(&self, sweep_every: Duration) {
        let mut ticks = interval(KEEPER_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sweep_at = Instant::now() + sweep_every;
        loop {
            ticks.tick().await;
            self.flush_counters().await;
            self.look_for_lost_outcomes().await;
            if let Ok(survey) = self.0.store.survey().await {
                self.0.signals.surveyed(&survey);
            }
            if sweep_at <= Instant::now() {
                self.sweep().await;
                sweep_at = Instant::now() + sweep_every;
            }
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
            match self.0.store.sweep(SWEEP_LIMIT).await {
                Ok(swept) if swept.tombstones + swept.deleted == 0 => return,
                Ok(swept) => tracing::debug!(?swept, "swept"),
                Err(error) => {
                    self.0.signals.store_error();
                    tracing::warn!(%error, "expired records could not be swept");
                    return;
                }
            }
        }
    }
}
