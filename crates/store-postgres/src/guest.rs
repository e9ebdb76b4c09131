//! Records and messages in a transaction that somebody else owns, on the same database. Over another driver:
//! [`driver`](crate::driver).
//!
//! What is written becomes visible and durable with the owner's commit, and goes with the owner's rollback. A duplicate
//! waits on the unique digest until the owner's transaction ends. Losing the claim leaves the transaction as it was; a
//! serialization failure (40001) or a deadlock ends it like any other statement's, and the owner runs it again. Whether
//! the transaction is on the store's database and flushes its commits is the owner's to see to.

use onefold_core::{Message, OperationId, effect_message_id};
use onefold_store::{Advance, Advanced, Claim, Claimed, Step, StoreError};
use tokio_postgres::Transaction;

use crate::advance::AdvanceWork;
use crate::alone;
use crate::ask::{Ask, Within};
use crate::begin::BeginWork;
use crate::claim::{ClaimWork, RawClaimed};
use crate::outgoing::{self, Outgoing};
use crate::store::PostgresStore;

/// A scope's counter has so many shards for transactions that others own. Such a transaction holds its shard until it
/// ends, so few of those that are open at once should share one.
const GUEST_SHARDS: i16 = 256;

impl PostgresStore {
    /// Makes the record in the transaction, if there is none.
    ///
    /// An error other than [`StoreError::Refused`] of what can never be stored says that the transaction is of no more
    /// use. Cancellation: roll the transaction back.
    pub async fn claim_in(&self, transaction: &Transaction<'_>, claim: Claim) -> Result<Claimed, StoreError> {
        let within = Within { client: transaction, now: self.server().now() };
        Ok(self.claim_by(&within, claim).await?)
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
        Ok(self.advance_by(&within, advance).await?)
    }

    /// Makes a message on its way out in the transaction. False: it was made before. An id whose message goes elsewhere
    /// is refused, and the transaction may go on. It is seen by relays once the owner has committed. With an ordering
    /// key, whoever makes a message of the same key waits for the end of the transaction.
    ///
    /// Errors and cancellation as in [`PostgresStore::claim_in`].
    pub async fn enqueue_in(
        &self,
        transaction: &Transaction<'_>,
        message: Message,
    ) -> Result<bool, StoreError> {
        let within = Within { client: transaction, now: self.server().now() };
        Ok(outgoing::put_new(vec![self.seal_message(message)], &within).await? > 0)
    }

    /// Makes the one message for an effect in the transaction, under an id that follows from the effect; `by` is the
    /// operation that asks for it. False: the effect happened before, and nothing is written.
    ///
    /// Errors and cancellation as in [`PostgresStore::claim_in`].
    pub async fn enqueue_once_in(
        &self,
        transaction: &Transaction<'_>,
        by: OperationId,
        effect: &str,
        message: Message,
    ) -> Result<bool, StoreError> {
        let within = Within { client: transaction, now: self.server().now() };
        Ok(outgoing::put_once(effect, by, self.message_of(effect, message), &within).await?)
    }

    /// The one message of an effect.
    pub(crate) fn message_of(&self, effect: &str, message: Message) -> Outgoing {
        self.seal_message(Message { id: effect_message_id(effect, self.secret()), ..message })
    }

    pub(crate) async fn claim_by<A: Ask>(&self, ask: &A, claim: Claim) -> Result<Claimed, A::Error> {
        let work = ClaimWork::new(claim, |scope| self.bucket(scope), any_shard());
        if let Some(now) = alone::claim(&work, ask).await? {
            return Ok(Claimed::Won { now });
        }
        Ok(match only(ClaimWork::run(&[work], ask).await?)? {
            RawClaimed::Won { now } => Claimed::Won { now },
            RawClaimed::Exists(read) => Claimed::Exists(Box::new(read.open(self.sealer())?)),
            RawClaimed::QuotaReached => Claimed::QuotaReached,
            RawClaimed::KeyTooOld { now } => Claimed::KeyTooOld { now },
        })
    }

    pub(crate) async fn advance_by<A: Ask>(&self, ask: &A, advance: Advance) -> Result<Advanced, A::Error> {
        let answers = match &advance.step {
            Step::Begin { .. } => {
                let work = BeginWork::new(advance, |scope| self.bucket(scope), any_shard());
                BeginWork::run(&[work], ask).await?
            }
            _ => {
                let work = AdvanceWork::new(advance, self.sealer());
                if let Some(settling) = work.settling()
                    && let Some(done) = alone::settle(&settling, ask).await?
                {
                    return Ok(done.open(self.sealer())?);
                }
                AdvanceWork::run(&[work], ask).await?
            }
        };
        Ok(only(answers)?.open(self.sealer())?)
    }
}

/// One at random.
pub(crate) fn any_shard() -> i16 {
    rand::random_range(0..GUEST_SHARDS)
}

fn only<A>(answers: Vec<Result<A, StoreError>>) -> Result<A, StoreError> {
    let none = || Err(StoreError::Unavailable("the database gave no answer".into()));
    answers.into_iter().next().unwrap_or_else(none)
}
