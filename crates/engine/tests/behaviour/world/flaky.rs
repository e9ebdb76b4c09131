//! A store that fails on demand: the next calls of a kind meet the faults that were planned for them.
//!
//! What is not planned for goes through to the store behind.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::{Counters, Event, IdentityKey, OperationId, Record};
use onefold_store::{
    Advance, Advanced, Claim, Claimed, OperationStore, Page, ProbeTurn, Query, Read, Step, StoreError,
    Survey, Swept, TakeProbes,
};
use parking_lot::Mutex;
use tokio::time::sleep;

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Read,
    Claim,
    Begin,
    Renew,
    Settle,
    Lose,
    Verdict,
    Count,
    Sweep,
}

/// What a call meets.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It is not carried out.
    Unavailable,
    /// It is carried out, and nobody is told.
    AnswerLost,
    /// It can never be carried out.
    Refused,
    /// It is carried out this much later.
    Late(Duration),
    /// It is carried out, and told this much later.
    ToldLate(Duration),
    /// It is not carried out, and that is told this much later.
    TimedOut(Duration),
}

pub struct Flaky {
    behind: Arc<dyn OperationStore>,
    planned: Mutex<VecDeque<(Asked, Fault)>>,
    seen: Mutex<Vec<Asked>>,
    claim: Mutex<Option<Claim>>,
    beginning: Mutex<Option<Advance>>,
}

impl Flaky {
    pub fn over(behind: Arc<dyn OperationStore>) -> Flaky {
        Flaky {
            behind,
            planned: Mutex::default(),
            seen: Mutex::default(),
            claim: Mutex::default(),
            beginning: Mutex::default(),
        }
    }

    /// The next call of this kind, for which nothing is planned yet, meets this.
    pub fn next(&self, asked: Asked, fault: Fault) {
        self.planned.lock().push_back((asked, fault));
    }

    /// The next `times` calls of this kind meet this.
    pub fn next_times(&self, times: usize, asked: Asked, fault: Fault) {
        (0..times).for_each(|_| self.next(asked, fault));
    }

    /// How many calls of this kind came.
    pub fn seen(&self, asked: Asked) -> usize {
        self.seen.lock().iter().filter(|one| **one == asked).count()
    }

    /// The latest claim that was asked for.
    pub fn claim_asked(&self) -> Claim {
        self.claim.lock().clone().expect("a claim was asked for")
    }

    /// The latest attempt of a record that was there that was asked for.
    pub fn beginning_asked(&self) -> Advance {
        self.beginning.lock().clone().expect("an attempt was asked for")
    }

    fn plan_for(&self, asked: Asked) -> Option<Fault> {
        self.seen.lock().push(asked);
        let mut planned = self.planned.lock();
        let at = planned.iter().position(|(one, _)| *one == asked)?;
        planned.remove(at).map(|(_, fault)| fault)
    }

    async fn meet<T: Send>(
        &self,
        asked: Asked,
        call: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let away = || StoreError::Unavailable("on demand".into());
        match self.plan_for(asked) {
            None => call.await,
            Some(Fault::Unavailable) => Err(away()),
            Some(Fault::AnswerLost) => call.await.and_then(|_| Err(away())),
            Some(Fault::Refused) => Err(StoreError::Refused("on demand".into())),
            Some(Fault::Late(by)) => {
                sleep(by).await;
                call.await
            }
            Some(Fault::ToldLate(by)) => {
                let told = call.await;
                sleep(by).await;
                told
            }
            Some(Fault::TimedOut(after)) => {
                sleep(after).await;
                Err(away())
            }
        }
    }
}

#[async_trait]
impl OperationStore for Flaky {
    fn name(&self) -> &'static str {
        "flaky"
    }

    fn identity_key(&self) -> &IdentityKey {
        self.behind.identity_key()
    }

    async fn read(&self, id: OperationId) -> Result<Read, StoreError> {
        self.meet(Asked::Read, self.behind.read(id)).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        *self.claim.lock() = Some(claim.clone());
        self.meet(Asked::Claim, self.behind.claim(claim)).await
    }

    async fn advance(&self, advance: Advance) -> Result<Advanced, StoreError> {
        let asked = match &advance.step {
            Step::Begin { .. } => Asked::Begin,
            Step::Renew { .. } => Asked::Renew,
            Step::Settle { .. } => Asked::Settle,
            Step::LoseOutcome | Step::Lapse => Asked::Lose,
            Step::Reconcile { .. } | Step::Probed { .. } => Asked::Verdict,
        };
        if asked == Asked::Begin {
            *self.beginning.lock() = Some(advance.clone());
        }
        self.meet(asked, self.behind.advance(advance)).await
    }

    async fn count(&self, counts: Vec<(OperationId, Counters)>) -> Result<(), StoreError> {
        self.meet(Asked::Count, self.behind.count(counts)).await
    }

    async fn list(&self, query: Query) -> Result<Page, StoreError> {
        self.behind.list(query).await
    }

    async fn events(&self, id: OperationId) -> Result<Vec<Event>, StoreError> {
        self.behind.events(id).await
    }

    async fn lose_stale(&self, limit: u32) -> Result<u64, StoreError> {
        self.behind.lose_stale(limit).await
    }

    async fn take_probes(&self, take: TakeProbes) -> Result<Vec<ProbeTurn>, StoreError> {
        self.behind.take_probes(take).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        self.meet(Asked::Sweep, self.behind.sweep(limit)).await
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        self.behind.survey().await
    }

    async fn interrupted(&self, operations: &[String], limit: u32) -> Result<Vec<Record>, StoreError> {
        self.behind.interrupted(operations, limit).await
    }

    async fn note_companion(&self, operation: &str) -> Result<(), StoreError> {
        self.behind.note_companion(operation).await
    }

    async fn has_companion(&self, operation: &str) -> Result<bool, StoreError> {
        self.behind.has_companion(operation).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.behind.ready().await
    }
}
