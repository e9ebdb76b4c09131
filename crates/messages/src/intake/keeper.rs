//! The loop beside the intake: writes counters, and lets through what people permitted.
//!
//! Nothing depends on it for being right. What it has not written when the process is lost are counters.

use std::collections::HashSet;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::{Inner, Intake, Read};
use crate::limits::REDRIVEN_POLL;

/// The running loop; it ends when this is dropped.
#[derive(Debug)]
pub struct IntakeKeeper(JoinHandle<()>);

impl Drop for IntakeKeeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Intake {
    /// Starts the loop. Must be called within a tokio runtime.
    pub fn keep(&self, read: Read) -> IntakeKeeper {
        let intake = self.clone();
        IntakeKeeper(tokio::spawn(async move { intake.0.run(&read).await }))
    }

    /// Writes the gathered counters; called once more before the process ends.
    pub async fn flush_counters(&self) {
        self.0.flush().await;
    }

    /// The destinations of webhooks that have messages waiting and are not among `sources`.
    pub async fn orphans(&self, sources: &[&str]) -> Vec<String> {
        let known: Vec<String> = sources.iter().map(|source| super::destination(source)).collect();
        let survey = self.0.store.survey_outbox().await.unwrap_or_default();
        let waiting = survey.into_iter().filter(|found| found.depth > 0).map(|found| found.destination);
        waiting.filter(|name| name.starts_with(&super::destination("")) && !known.contains(name)).collect()
    }
}

impl Inner {
    async fn run(&self, read: &Read) {
        let mut ticks = interval(REDRIVEN_POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut gone_through = HashSet::new();
        loop {
            ticks.tick().await;
            self.flush().await;
            if let Err(error) = self.let_through(read, &mut gone_through).await {
                tracing::warn!(%error, "what people let through could not be looked at");
            }
        }
    }

    /// What the store does not take now stays counted.
    async fn flush(&self) {
        let _ = self.tally.write(&*self.store).await;
    }
}
