//! Records in a transaction that somebody else owns, on the same database.
//!
//! What is written becomes visible and durable with the owner's commit, and goes with the owner's rollback. A duplicate
//! waits on the unique digest until the owner's transaction ends. Losing the claim leaves the transaction as it was; a
//! serialization failure (40001) or a deadlock ends it like any other statement's, and the owner runs it again. Whether
//! the transaction is on the store's database and flushes its commits is the owner's to see to.

use onefold_store::{Advance, Advanced, Claim, Claimed, Step, StoreError};
use tokio_postgres::Transaction;

use crate::advance::AdvanceWork;
use crate::ask::Within;
use crate::begin::BeginWork;
use crate::claim::{ClaimWork, RawClaimed};
use crate::store::{PostgresStore, SHARDS};

impl PostgresStore {
    /// Makes the record in the transaction, if there is none.
    ///
    /// An error other than [`StoreError::Refused`] of what can never be stored says that the transaction is of no more
    /// use. Cancellation: roll the transaction back.
    pub async fn claim_in(&self, transaction: &Transaction<'_>, claim: Claim) -> Result<Claimed, StoreError> {
        let within = Within { client: transaction, now: self.server().now() };
        let work = ClaimWork::new(claim, |scope| self.bucket(scope), any_shard());
        Ok(match only(ClaimWork::run(&[work], &within).await?)? {
            RawClaimed::Won { now } => Claimed::Won { now },
            RawClaimed::Exists(read) => Claimed::Exists(Box::new(read.open(self.sealer())?)),
            RawClaimed::QuotaReached => Claimed::QuotaReached,
            RawClaimed::KeyTooOld { now } => Claimed::KeyTooOld { now },
        })
    }

    /// Carries out a transition in the transaction, if the record is found where it starts.
    ///
    /// Errors and cancellation as in [`PostgresStore::claim_in`].
    pub async fn advance_in(
        &self,
        transaction: &Transaction<'_>,
        advance: Advance,
    ) -> Result<Advanced, StoreError> {
        let within = Within { client: transaction, now: self.server().now() };
        let answers = match &advance.step {
            Step::Begin { .. } => {
                let work = BeginWork::new(advance, |scope| self.bucket(scope), any_shard());
                BeginWork::run(&[work], &within).await?
            }
            _ => AdvanceWork::run(&[AdvanceWork::new(advance, self.sealer())], &within).await?,
        };
        only(answers)?.open(self.sealer())
    }
}

/// The counter is held until the owner commits, so operations of one scope are spread over all of its shards.
fn any_shard() -> i16 {
    rand::random_range(0..SHARDS)
}

fn only<A>(answers: Vec<Result<A, StoreError>>) -> Result<A, StoreError> {
    let none = || Err(StoreError::Unavailable("the database gave no answer".into()));
    answers.into_iter().next().unwrap_or_else(none)
}
