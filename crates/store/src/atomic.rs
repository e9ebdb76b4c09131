//! The port of atomic mode (SEMANTICS 5): record and business rows in one transaction of one database.
//!
//! *Promises of an implementation.* The store opens the transaction, judges the entry by the unique digest, runs the
//! work in that transaction, and writes the finished record together with what the work has written, in one commit:
//! nobody ever sees such an operation `processing`. Where the work says that nothing is done, or fails, or panics,
//! everything is undone, no record is left, and the key is as free as before: the rollback proves it. Where it rejects,
//! its own writes are undone and the rejection is recorded. After a crash there is either the whole or nothing.
//!
//! A work may also stand beside an outcome that is known already ([`Entry::Settle`]): then the record is settled with
//! what the work has written, or stays as it is.
//!
//! *It does not* run the work twice inside one call, retry, or decide: what stands in the way is handed back, and
//! whether to run again, and how long to wait for somebody else, is the engine's to say.

use async_trait::async_trait;
use onefold_core::{Kept, OperationId, Resource, StoreTime};

use crate::{Advance, Claim, OperationStore, Read, StoreError};

/// In what state the record must be found for the work to run.
#[derive(Clone, Debug)]
pub enum Entry {
    /// There is none. The lease of the claim is not used: nobody will see the attempt run.
    New(Box<Claim>),
    /// It is free, expired, or its lease is over: a transition whose step is [`Begin`](crate::Step::Begin), carried out
    /// in the same transaction.
    Next(Box<Advance>),
    /// An attempt or a verdict settles it: a transition whose step is [`Settle`](crate::Step::Settle) or
    /// [`Reconcile`](crate::Step::Reconcile), carried out in the same transaction. State, result and resource are the
    /// transition's. The work says [`Finish::Succeeded`], and what else it says is not used; where it says that nothing
    /// is done, the record stays as it is. [`Advance::if_superseded`] is not written here.
    Settle(Box<Advance>),
}

impl Entry {
    /// The record that it is about.
    pub fn id(&self) -> OperationId {
        match self {
            Entry::New(claim) => claim.id,
            Entry::Next(advance) | Entry::Settle(advance) => advance.id,
        }
    }
}

/// How a work ended that leaves a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// Its writes are committed with the record.
    Succeeded,
    /// Its writes are undone; the record says so.
    Rejected,
}

/// What a work says at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A record is kept.
    Finished {
        /// With its writes or without.
        finish: Finish,
        /// The result for duplicates.
        kept: Kept,
        /// What it brought forth.
        resource: Option<Resource>,
    },
    /// Nothing is kept, neither of its writes nor of the attempt.
    NotDone,
    /// The database has lost the transaction against others (busy, serialization failure, deadlock): nothing is kept,
    /// and the whole of it may run again.
    Again(String),
}

/// What became of an atomic attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Atomically {
    /// Record and writes are durable.
    Committed {
        /// The store's time of the record.
        now: StoreTime,
        /// The number of the attempt.
        attempt: u32,
        /// When the record expires, if it does.
        expires_at: Option<StoreTime>,
        /// How the work ended.
        finish: Finish,
        /// The result.
        kept: Kept,
        /// What it brought forth.
        resource: Option<Resource>,
    },
    /// The work ran and said that nothing is done, or failed in a way that it knows itself. Everything is undone.
    NotDone,
    /// The work panicked, or was stopped by the store (its time was over; it did what it may not). Everything is
    /// undone.
    Stopped(String),
    /// Others were faster at the database. Everything is undone; it may be asked again.
    Contended(String),
    /// Another attempt holds the key in a transaction that is open, so nobody knows yet how it ends. The work did not
    /// run, or what it did is undone. A store that waits for the other one itself never says so.
    Busy,
    /// The record is not as the entry needs it; this is how it is. The work did not run, or what it did is undone.
    Found(Box<Read>),
    /// There is no record and the key is too old to make one. The work did not run.
    KeyTooOld {
        /// The store's time of the refusal.
        now: StoreTime,
    },
    /// The scope holds as many live records as it may. The work did not run.
    QuotaReached,
}

/// What stands in the place of the operation where there is none: the writes are of no operation.
pub const NO_OPERATION: OperationId = OperationId::from_bytes([0; 32]);

/// What became of writes that belong to no operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// They are durable.
    Done,
    /// The work said that nothing is done. Everything is undone.
    NotDone,
    /// The work panicked, or was stopped by the store. Everything is undone.
    Stopped(String),
    /// Others were faster at the database. Everything is undone; it may be asked again.
    Contended(String),
}

/// What became of a version of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is newer than what was applied so far: apply it, in this transaction.
    Newer,
    /// It was applied already: no effect.
    Equal,
    /// A newer one was applied already: it is marked as superseded and has no effect.
    Superseded,
}

/// What a closure was told of the versions that it asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    newer: bool,
    superseded: bool,
}

impl Versions {
    /// Notes what it was told.
    pub fn note(&mut self, applied: Applied) {
        self.newer |= applied == Applied::Newer;
        self.superseded |= applied == Applied::Superseded;
    }

    /// Whether newer ones were there before, and none was to be applied: what it was run for came too late.
    pub fn came_too_late(self) -> bool {
        self.superseded && !self.newer
    }
}

/// A store whose database also holds the rows of the business.
#[async_trait]
pub trait AtomicStore: OperationStore {
    /// What runs in the transaction. It may be run again after [`Atomically::Contended`].
    type Work: Send;

    /// Runs the work in one transaction with the record.
    ///
    /// An error means that it is not known whether the commit happened ([`StoreError::Unavailable`]), or that the
    /// record can never be stored and nothing was ([`StoreError::Refused`]). Cancellation: a dropped future has
    /// committed everything, commits it yet, or leaves nothing.
    async fn atomically(&self, entry: Entry, work: &mut Self::Work) -> Result<Atomically, StoreError>;
}

/// A store that also runs works of no operation.
#[async_trait]
pub trait WriteStore: AtomicStore {
    /// Runs the work in one transaction, without a record. It may be run again after [`Written::Contended`].
    ///
    /// An error means that it is not known whether the commit happened ([`StoreError::Unavailable`]), or that nothing
    /// was written ([`StoreError::Refused`]). Cancellation: a dropped future has committed everything, commits it yet,
    /// or leaves nothing.
    async fn write(&self, work: &mut Self::Work) -> Result<Written, StoreError>;
}
