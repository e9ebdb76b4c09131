//! Atomic mode in a transaction that the caller owns, of `tokio-postgres`: claim, business, finish, commit.
//!
//! The record becomes visible with the caller's commit, and goes with the caller's rollback. Losing the claim does not
//! harm the transaction; a serialization failure or a deadlock ends it as with any other statement, and the caller runs
//! the whole again. Duplicates wait until the owner's transaction ends.

use onefold_store_postgres::PostgresStore;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Transaction;

use crate::guest::{Begun, Entering, Next, unavailable};
use crate::messages::Message;
use crate::{Call, CallError, Done, Onefold, OperationId, Verdict};

/// What a claim in the caller's transaction has found.
#[derive(Debug)]
pub enum Claim<T> {
    /// The operation is yours: do it, then [finish](Claimed::finish) it, in the same transaction.
    Yours(Claimed),
    /// It was finished before.
    Known(Done<T>),
}

/// An operation that was claimed in the caller's transaction.
#[derive(Debug)]
#[must_use = "an operation that is committed without its end has an unknown outcome"]
pub struct Claimed(Begun);

impl Onefold<PostgresStore> {
    /// Claims the operation in a transaction that the caller owns, on the same database. That its commit is durable
    /// (`synchronous_commit`) is the caller's to see to.
    ///
    /// After an error the transaction is of no more use: roll it back. Cancellation: the same.
    pub async fn claim<T: DeserializeOwned>(
        &self,
        transaction: &Transaction<'_>,
        call: &Call,
    ) -> Result<Claim<T>, CallError> {
        let (mut entering, claim) = Entering::new(self.engine(), call);
        let claimed = self.store().claim_in(transaction, claim).await.map_err(unavailable)?;
        let mut next = entering.claimed(claimed)?;
        loop {
            next = match next {
                Next::Begun(begun) => return Ok(Claim::Yours(Claimed(begun))),
                Next::Known(done) => return Ok(Claim::Known(done)),
                Next::Begin(advance) => {
                    let begun = self.store().advance_in(transaction, *advance).await.map_err(unavailable)?;
                    entering.began(begun)?
                }
            }
        }
    }
}

impl Onefold<PostgresStore> {
    /// Makes a message on its way out in a transaction that the caller owns. False: it was made before. An id whose
    /// message goes to another destination or address is an error ([`CallError::NotDone`]). Relays see it once the
    /// caller has committed. With an ordering key, whoever makes a message of the same key at the same time waits for
    /// the end of the transaction, so that they leave in the order of their commits.
    ///
    /// After an error the transaction is of no more use: roll it back. Cancellation: the same.
    pub async fn enqueue(&self, transaction: &Transaction<'_>, message: Message) -> Result<bool, CallError> {
        self.store().enqueue_in(transaction, message).await.map_err(CallError::from)
    }

    /// Makes the one message for an effect, under an id that follows from the effect, whichever event asks for it;
    /// `by` is the operation that asks. False: the effect happened before, and nothing is written.
    ///
    /// Errors and cancellation as in [`Onefold::enqueue`].
    pub async fn enqueue_once(
        &self,
        transaction: &Transaction<'_>,
        by: OperationId,
        effect: &str,
        message: Message,
    ) -> Result<bool, CallError> {
        self.store().enqueue_once_in(transaction, by, effect, message).await.map_err(CallError::from)
    }
}

impl Claimed {
    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.0.id()
    }

    /// The number of the attempt.
    pub fn attempt(&self) -> u32 {
        self.0.attempt()
    }

    /// Writes the end of the operation into the transaction; the caller commits it.
    ///
    /// An error says that nothing is done: roll the transaction back. What was written before a rejection is the
    /// caller's to undo, for instance with a savepoint of its own. Cancellation: roll back.
    pub async fn finish<T: Serialize + DeserializeOwned>(
        self,
        onefold: &Onefold<PostgresStore>,
        transaction: &Transaction<'_>,
        verdict: Verdict<T>,
    ) -> Result<Done<T>, CallError> {
        let (ending, advance) = self.0.ending(verdict)?;
        ending.ended(onefold.store().advance_in(transaction, advance).await.map_err(unavailable)?)
    }
}
