//! A verdict that the store did not take is offered again until it is stored.
//!
//! Meanwhile the lease of a known result is renewed, so nothing runs again although this process knows what happened
//! (SEMANTICS 3, rule 7). When the process ends before the store is back, the operation becomes `outcome_unknown`
//! with its lease, or is resumed under the same downstream key. An offer that was carried out although the store
//! could not say so is recognised as this attempt's own word.

use std::sync::Arc;

use onefold_core::Outcome;
use onefold_store::{Advance, Advanced, Read, StoreError};
use tokio::time::{Instant, sleep};

use crate::Verdict;
use crate::attempt::Parts;
use crate::attempt::heartbeat::renewal;
use crate::limits::{OFFER_AGAIN_FOR, OFFER_PAUSE_MAX, POLL_MIN};

impl Parts {
    /// Offers it until the store takes it, for as long as [`OFFER_AGAIN_FOR`].
    pub(crate) async fn offer_again(self, verdict: Verdict) {
        let until = Instant::now() + OFFER_AGAIN_FOR;
        let lease = self.call.contract.lease;
        let mut pause = POLL_MIN;
        while Instant::now() < until {
            sleep(pause).await;
            pause = (pause * 2).min(OFFER_PAUSE_MAX).min(lease / 3);
            let asked = Instant::now();
            match self.offer(&verdict).await {
                Ok(Advanced::Superseded(read)) if self.is_own_word(&verdict, &read) => {
                    return self.stored_before(*read, asked);
                }
                Ok(advanced) => {
                    self.settled(verdict, advanced, asked);
                    return;
                }
                // It happened, and this process knows: nothing may run again while it cannot be stored.
                Err(_) if matches!(verdict.outcome, Outcome::Succeeded | Outcome::Rejected) => {
                    let renewal = renewal(self.record.id, self.record.attempt, lease);
                    if let (Ok(Advanced::Done { .. }), Some(leader)) =
                        (self.engine.0.store.advance(renewal).await, &self.leader)
                    {
                        leader.flight().renewed(asked + lease);
                    }
                }
                Err(_) => {}
            }
        }
        tracing::error!(operation = %self.record.id, "the outcome was never stored; the operation will be outcome_unknown");
    }

    /// An earlier offer may have been carried out although the store could not say so: evidence of a
    /// double effect is only what was superseded by another's word.
    async fn offer(&self, verdict: &Verdict) -> Result<Advanced, StoreError> {
        let quiet = Advance { if_superseded: None, ..self.transition(verdict) };
        match self.report(verdict, quiet).await? {
            Advanced::Superseded(read) if !self.is_own_word(verdict, &read) => {
                self.report(verdict, self.transition(verdict)).await
            }
            advanced => Ok(advanced),
        }
    }

    fn is_own_word(&self, verdict: &Verdict, read: &Read) -> bool {
        read.record.as_ref().is_some_and(|record| {
            record.attempt == self.record.attempt
                && verdict.outcome != Outcome::Unknown
                && record.state == verdict.outcome.state()
                && record.kept == self.kept(verdict)
                && record.resource == verdict.resource
        })
    }

    fn stored_before(self, read: Read, asked: Instant) {
        let Some(record) = read.record.map(Arc::new) else { return };
        self.engine.0.finished.put(&record, read.now, asked);
        if let Some(leader) = self.leader {
            leader.end(record, read.now);
        }
    }
}
