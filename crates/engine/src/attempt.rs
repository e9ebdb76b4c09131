//! An attempt that owns its operation: heartbeat, verdict, and what happens when the verdict cannot be stored.
//!
//! Whatever happens to an attempt, its record ends in one of three ways: settled by its verdict; `outcome_unknown`
//! (it was dropped, panicked, or its lease ended); or, when the contract says `resume`, free for the next attempt
//! under the same downstream key. A verdict that the store does not take is offered again in the background and
//! never turned into a failure (SEMANTICS 3, rule 7).

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{IdentityKey, Kept, OperationId, Outcome, Record, Resource, StoreTime, downstream};
use onefold_store::{Read, StoreError};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};

use crate::flight::Leader;
use crate::hearts::Heart;
use crate::{Call, Companion, Engine};

pub(crate) mod heartbeat;
mod settling;

use heartbeat::heartbeat;

/// What an attempt says about its effect, with what is to be kept.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Success, rejection, nothing done, or not known.
    pub outcome: Outcome,
    /// The result for duplicates.
    pub kept: Kept,
    /// What it brought forth.
    pub resource: Option<Resource>,
    /// Why, in words: for an unknown outcome.
    pub reason: String,
}

impl Verdict {
    /// The outcome is known and this is the result.
    pub fn known(outcome: Outcome, kept: Kept, resource: Option<Resource>) -> Verdict {
        Verdict { outcome, kept, resource, reason: String::new() }
    }

    /// Something may have happened.
    pub fn unknown(reason: impl Into<String>) -> Verdict {
        Verdict { outcome: Outcome::Unknown, kept: Kept::Nothing, resource: None, reason: reason.into() }
    }
}

/// What became of a verdict.
#[derive(Debug)]
pub enum Settled {
    /// It is durable; this is the record now.
    Recorded(Arc<Record>),
    /// A newer attempt has begun, or a person has settled the operation. A success is kept as evidence.
    Superseded(Box<Read>),
    /// The store did not take it. It is offered again in the background; nothing runs again by itself.
    NotStored(StoreError),
}

/// An attempt that owns its operation.
pub struct Attempt {
    parts: Option<Box<Parts>>,
}

pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) call: Call,
    pub(crate) record: Record,
    /// Gone once the outcome was reported as lost.
    pub(crate) leader: Option<Leader>,
    /// It follows an attempt whose outcome was lost, so nothing it did not do says that nothing happened.
    resumes: bool,
    /// `None` once it has stopped.
    heart: Option<Heart>,
    /// What is committed with its success or rejection.
    companion: Option<Arc<dyn Companion>>,
}

impl Engine {
    pub(crate) fn begun(&self, call: &Call, record: Record, leader: Leader, resumes: bool) -> Attempt {
        let signals = &self.0.signals;
        signals.bump(&signals.attempts_begun, &call.label);
        let lease = call.contract.lease;
        let begun = Instant::now();
        leader.flight().runs(Arc::new(record.clone()), begun + lease);
        let beating = heartbeat(self.clone(), record.id, record.attempt, lease, leader.flight().clone());
        let beat = |runtime: &Handle, first| {
            let beating = async move {
                sleep_until(first).await;
                beating.await;
            };
            runtime.spawn(beating).abort_handle()
        };
        let heart = Some(self.0.hearts.beat(begun + lease / 3, beat));
        let parts = Parts {
            engine: self.clone(),
            call: call.clone(),
            record,
            leader: Some(leader),
            resumes,
            heart,
            companion: None,
        };
        Attempt { parts: Some(Box::new(parts)) }
    }
}

impl Attempt {
    fn parts(&self) -> &Parts {
        self.parts.as_deref().expect("an attempt has its parts until it is settled")
    }

    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.parts().record.id
    }

    /// The number of this attempt: the fence.
    pub fn number(&self) -> u32 {
        self.parts().record.attempt
    }

    /// Whether it follows an attempt whose outcome was lost. Then "not done" speaks of this attempt alone and frees
    /// nothing (SEMANTICS 3, rule 1): the operation stays open for the next attempt under the same downstream key.
    pub fn resumes(&self) -> bool {
        self.parts().resumes
    }

    /// When the operation's record was made, by the store's clock.
    pub fn created_at(&self) -> StoreTime {
        self.parts().record.created_at
    }

    /// The key for one step's call to another system: the same in every attempt.
    pub fn downstream_key(&self, step: &str, secret: &IdentityKey) -> String {
        downstream::key(self.id(), step, secret)
    }

    /// Reports what happened. The answer says whether that is durable.
    ///
    /// Cancellation: a dropped call leaves the verdict either durable or lost; a lost one becomes
    /// `outcome_unknown` when the lease ends.
    pub async fn settle(mut self, verdict: Verdict) -> Settled {
        let mut parts = self.parts.take().expect("an attempt is settled once");
        parts.heart = None;
        let verdict = parts.of_all_attempts(verdict);
        parts.settle(verdict).await
    }

    /// The same; a success and a rejection are durable together with this, or not at all.
    ///
    /// Cancellation: the same.
    pub async fn settle_with(mut self, verdict: Verdict, companion: Arc<dyn Companion>) -> Settled {
        let parts = self.parts.as_deref_mut().expect("an attempt has its parts until it is settled");
        parts.companion = Some(companion);
        self.settle(verdict).await
    }

    /// Reports that the outcome is lost although this attempt still listens: everybody who waits is told so. A
    /// later [`Attempt::settle`] still settles the operation, unless a newer attempt or a person was faster.
    pub async fn lose(&mut self, reason: &str) {
        let parts = self.parts.as_deref_mut().expect("an attempt has its parts until it is settled");
        parts.heart = None;
        parts.lose(reason).await;
    }

    /// Reports that nothing happened, pauses, and begins the next attempt: an automatic one. The attempt is given
    /// back with `Err` of where the operation stands when somebody else was faster or this attempt was the last.
    pub async fn again(mut self, pause: Duration) -> Result<Attempt, Settled> {
        let mut parts = self.parts.take().expect("an attempt is settled once");
        parts.heart = None;
        if parts.resumes {
            let verdict = parts.of_all_attempts(Verdict::known(Outcome::NotDone, Kept::Nothing, None));
            return Err(parts.settle(verdict).await);
        }
        parts.again(pause).await
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(mut parts) = self.parts.take() else { return };
        parts.heart = None;
        if parts.leader.is_none() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let verdict = Verdict::unknown("the attempt ended without an outcome");
            runtime.spawn(async move { parts.settle(verdict).await });
        }
    }
}
