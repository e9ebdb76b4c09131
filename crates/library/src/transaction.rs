//! Atomic mode in a transaction that the caller owns: claim, business, finish, commit.
//!
//! The record becomes visible with the caller's commit, and goes with the caller's rollback. Losing the claim does not
//! harm the transaction. A claim that is committed without its end is an attempt whose outcome is unknown once its
//! lease ends. Duplicates wait on SQLite's one write lock, so begin the transaction `IMMEDIATE`.

use rusqlite::Transaction;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::guest::{Begun, Entering, Next, unavailable};
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

impl Onefold {
    /// Claims the operation in a transaction that the caller owns, on the same file. Blocks as any statement does.
    ///
    /// The journal must be the write-ahead log and `synchronous` at least `FULL`, or a commit of that connection would
    /// not be durable.
    ///
    /// # Errors
    /// [`CallError::StoreUnavailable`] where it is not so, where the connection is on another file, and where a
    /// statement failed: roll the transaction back. The others say what a duplicate meets ([`CallError`]); they have
    /// written nothing, and the transaction may go on.
    pub fn claim<T: DeserializeOwned>(
        &self,
        transaction: &Transaction<'_>,
        call: &Call,
    ) -> Result<Claim<T>, CallError> {
        let (mut entering, claim) = Entering::new(self.engine(), call);
        let mut next = entering.claimed(self.store().claim_in(transaction, claim).map_err(unavailable)?)?;
        loop {
            next = match next {
                Next::Begun(begun) => return Ok(Claim::Yours(Claimed(begun))),
                Next::Known(done) => return Ok(Claim::Known(done)),
                Next::Begin(advance) => {
                    entering.began(self.store().advance_in(transaction, *advance).map_err(unavailable)?)?
                }
            }
        }
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
    /// An error says that nothing is done: roll the transaction back. It is [`CallError::NotDone`] where the verdict is
    /// not done or unknown, where the value cannot be kept, and where the claim is not in this transaction;
    /// [`CallError::StoreUnavailable`] where the statement failed. What was written before a rejection is the caller's
    /// to undo, for instance with a savepoint of its own.
    pub fn finish<T: Serialize + DeserializeOwned>(
        self,
        onefold: &Onefold,
        transaction: &Transaction<'_>,
        verdict: Verdict<T>,
    ) -> Result<Done<T>, CallError> {
        let (ending, advance) = self.0.ending(verdict)?;
        ending.ended(onefold.store().advance_in(transaction, advance).map_err(unavailable)?)
    }
}
