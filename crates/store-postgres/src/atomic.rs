//! Record and business rows in one transaction.
//!
//! A new operation takes two round trips beside the closure's own: the transaction is begun, the key's lock taken and
//! the record looked for in one; the finished record is inserted, once, and committed in another (decision 0013). The
//! lock lets no duplicate begin before the other has ended; the judge is the unique digest: the insert of a second
//! record is an error, and the commit that is under way behind it rolls back. Nobody sees the attempt run, and nobody
//! waits for it here with a connection in hand: whoever does not get the lock is told [`Atomically::Busy`].
//!
//! *After a crash* there is the whole or nothing. When the answer to a commit is lost, the key's lock says when the
//! server has ended that transaction, and the record says how. A connection that is not known to be out of its
//! transaction is closed. Quotas are counted at the very end, in one of many shards, so that nobody waits for the
//! commit of another for long; a claim without a quota is not counted at all.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use onefold_core::OperationId;
use onefold_store::{Atomically, Ended, Entry, StoreError};
use tokio::time::timeout;

use crate::error::Failed;
use crate::server::STATEMENT_MAX;
use crate::store::PostgresStore;
use crate::{PostgresTx, read};

mod closure;
mod ending;
mod key_lock;
pub(crate) mod new;
mod next;
pub(crate) mod settle;

pub(crate) use closure::{Finished, closure};
pub(crate) use ending::{Answers, End, ended, in_turn};
pub(crate) use key_lock::{LOCK_WAIT_MAX, begin_with, begun, lock, locking};

/// The future of a closure.
pub type Ending<'a> = Pin<Box<dyn Future<Output = Ended> + Send + 'a>>;

type Closure = dyn for<'a> FnMut(&'a mut PostgresTx) -> Ending<'a> + Send;

/// A closure that runs in a transaction with its record. It may run again when the database asks for it.
pub struct PostgresWork(Box<Closure>);

impl PostgresWork {
    /// The work that this closure does.
    pub fn new(
        closure: impl for<'a> FnMut(&'a mut PostgresTx) -> Ending<'a> + Send + 'static,
    ) -> PostgresWork {
        PostgresWork(Box::new(closure))
    }
}

impl fmt::Debug for PostgresWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresWork")
    }
}

/// Runs the closure and writes the record.
pub(crate) async fn run(
    entry: Entry,
    work: &mut PostgresWork,
    store: &PostgresStore,
) -> Result<Atomically, StoreError> {
    let ended = match entry {
        Entry::New(claim) => new::run(*claim, work, store).await,
        Entry::Next(advance) => next::run(*advance, work, store).await,
        Entry::Settle(advance) => settle::run(*advance, work, store).await,
    };
    match ended {
        Err(Stopped::Store(error)) => Err(error),
        Err(Stopped::Ended(ended) | Stopped::Undone(ended)) => Ok(*ended),
        Ok(committed) => Ok(committed),
    }
}

/// Why an attempt has not committed.
pub(crate) enum Stopped {
    /// So it ended.
    Ended(Box<Atomically>),
    /// So the closure ended it, by what it saw.
    Undone(Box<Atomically>),
    /// It is not known what became of it, or it can never be.
    Store(StoreError),
}

impl Stopped {
    fn ended(ended: Atomically) -> Stopped {
        Stopped::Ended(Box::new(ended))
    }

    fn undone(ended: Atomically) -> Stopped {
        Stopped::Undone(Box::new(ended))
    }

    fn busy() -> Stopped {
        Stopped::ended(Atomically::Busy)
    }

    pub(crate) fn contended(why: String) -> Stopped {
        Stopped::ended(Atomically::Contended(why))
    }
}

impl From<Failed> for Stopped {
    fn from(failed: Failed) -> Stopped {
        match failed {
            Failed::Rerun(why) => Stopped::contended(why),
            other => Stopped::Store(other.into()),
        }
    }
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Stopped {
        Stopped::Store(error)
    }
}

/// A step of an attempt that ends, whatever the server does.
pub(crate) async fn bounded<A>(step: impl Future<Output = Result<A, Failed>>) -> Result<A, Failed> {
    timeout(STATEMENT_MAX, step)
        .await
        .unwrap_or_else(|_| Err(Failed::Lost("the database takes too long".into())))
}

/// The record that stands in the way.
async fn found(id: OperationId, store: &PostgresStore) -> Result<Atomically, Stopped> {
    let read = read::one(id, store.server()).await?.open(store.sealer())?;
    Ok(Atomically::Found(Box::new(read)))
}
