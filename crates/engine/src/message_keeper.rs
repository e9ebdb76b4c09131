//! The loops beside the messages: one reads their gauges, one sweeps marks and sent messages whose time is over.
//!
//! Apart from the loops of the records, so that none can starve another. Nothing depends on them for being right: a
//! mark that is due and not yet swept still stands. Each step is a bounded batch in a commit of its own, after which
//! the sweep rests as that of the records does, and others write meanwhile; several processes may run it.

use std::sync::Arc;
use std::time::Duration;

use onefold_store::{InboxStore, OutboxStore};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use crate::keeper::rest_after;
use crate::limits::{KEEPER_TICK, SWEEP_LIMIT, VERSIONS_LOOK, VERSIONS_STEPS_MAX};
use crate::{Engine, Keeper};

impl Engine {
    /// Starts the loops. Every `sweep_every` they forget marks whose retention is over, and outgoing messages that
    /// have been done for `sent_kept`: until then a second message under one id is recognised, and the message can be
    /// looked up. Then they look through some of the versions that went with such marks. What fails, waits, is dead or
    /// unknown stays. Must be called within a tokio runtime.
    pub fn keep_messages<S>(&self, store: Arc<S>, sweep_every: Duration, sent_kept: Duration) -> Keeper
    where
        S: InboxStore + OutboxStore + ?Sized + 'static,
    {
        let engine = self.clone();
        Keeper(tokio::spawn(async move {
            let survey = async {
                let mut ticks = interval(KEEPER_TICK);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    engine.survey_messages(&*store).await;
                }
            };
            let sweep = async {
                loop {
                    sleep(sweep_every).await;
                    engine.sweep_messages(&*store, sent_kept).await;
                }
            };
            tokio::join!(survey, sweep);
        }))
    }

    async fn survey_messages<S: InboxStore + OutboxStore + ?Sized>(&self, store: &S) {
        let messages = self.signals().messages();
        if let Ok(survey) = store.survey_inbox().await {
            messages.surveyed_inbox(&survey);
        }
        if let Ok(surveys) = store.survey_outbox().await {
            messages.surveyed_outbox(surveys);
        }
    }

    async fn sweep_messages<S: InboxStore + OutboxStore + ?Sized>(&self, store: &S, sent_kept: Duration) {
        loop {
            let begun = Instant::now();
            // Sent ones first: a mark stays until the messages that it has brought about are done.
            let swept = match store.sweep_outbox(sent_kept, SWEEP_LIMIT).await {
                Ok(sent) => store.sweep_inbox(SWEEP_LIMIT).await.map(|marks| (sent, marks)),
                Err(error) => Err(error),
            };
            match swept {
                Ok((0, 0)) => break,
                Ok((sent, marks)) => tracing::debug!(sent, marks, "messages were swept"),
                Err(error) => {
                    self.signals().store_error();
                    tracing::warn!(%error, "messages could not be swept");
                    return;
                }
            }
            rest_after(begun).await;
        }
        // After the marks: what a mark needs goes with it.
        for _ in 0..VERSIONS_STEPS_MAX {
            let begun = Instant::now();
            match store.sweep_versions(VERSIONS_LOOK).await {
                Ok(0) => {}
                Ok(forgotten) => tracing::debug!(forgotten, "versions were forgotten"),
                Err(error) => {
                    self.signals().store_error();
                    tracing::warn!(%error, "versions could not be looked through");
                    return;
                }
            }
            rest_after(begun).await;
        }
    }
}
