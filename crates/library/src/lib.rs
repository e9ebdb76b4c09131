//! The boundary over one database: operations and their verdicts, typed results, the three modes, inbox and outbox,
//! notifications.
//!
//! Services depend on `onefold`, the facade, which has all of it and says what each part promises.

#[cfg(feature = "postgres")]
pub mod any;
#[cfg(feature = "postgres")]
mod asynchronous;
mod atomic;
mod beside;
mod call;
pub mod companion;
mod done;
pub mod drive;
mod error;
pub mod guest;
pub mod inbox;
pub mod messages;
mod news;
pub mod notify;
mod operation;
mod person;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod reconcile;
mod rejection;
mod reserved;
mod resumable;
mod sqlite;
mod standing;
mod task;
mod ties;
mod transaction;
mod typed;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use companion::Companions;

pub use beside::AccessError;
pub use call::Call;
pub use done::{Done, Recorded};
pub use error::CallError;
pub use onefold_core::contract::{AfterExpiry, Finding, Retention, Severity, WhileRunning};
pub use onefold_core::key::KeyTime;
pub use onefold_core::{
    Contract, Expiry, Fingerprint, Key, KeyError, OperationId, Problem, Resource, Scope, State,
};
pub use onefold_engine::{
    ActError, AtomicEngine, Engine, Keeper, Limits, Release, Resolution, ResolvedAs, Shown,
};
pub use onefold_store::{AtomicStore, StepStore};
use onefold_store::{InboxStore, OutboxStore};
pub use onefold_store_sqlite::{Applied, FileUse, OpenError, Options, SqliteStore, SqliteTx};
pub use operation::{OnError, Operation};
pub use person::Settlement;
pub use rejection::Rejection;
pub use reserved::Performing;
pub use resumable::{StepError, Steps};
pub use standing::Standing;
pub use transaction::{Claim, Claimed};
pub use verdict::{BoxError, Verdict};

/// The boundary over one database. Cheap to clone.
pub struct Onefold<S = SqliteStore> {
    engine: AtomicEngine<S>,
    companions: Arc<Companions>,
}

impl<S> Clone for Onefold<S> {
    fn clone(&self) -> Self {
        Onefold { engine: self.engine.clone(), companions: self.companions.clone() }
    }
}

impl<S: AtomicStore> Onefold<S> {
    /// Over a store of your own, or one that was opened in another way: `AtomicEngine::new(store, surface, limits)`. The
    /// store must do all that the conformance suite asks for (`onefold-store-conformance`); nothing here makes up for one
    /// that does not.
    pub fn over(engine: AtomicEngine<S>) -> Onefold<S> {
        Onefold { engine, companions: Arc::default() }
    }

    /// The engine, for what people do to records and for metrics.
    pub fn engine(&self) -> &Engine {
        self.engine.engine()
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        self.engine.store()
    }

    pub(crate) fn atomic_engine(&self) -> &AtomicEngine<S> {
        &self.engine
    }

    pub(crate) fn companions(&self) -> &Companions {
        &self.companions
    }

    /// Starts what runs beside the calls, for as long as the answer is kept: it writes counters, marks lost outcomes
    /// and sweeps what has expired. Without it nothing is wrong, but lists and the size of the file lag. `sweep_every` is
    /// the pause between two sweeps; one of zero sweeps without an end, so choose a second at least, and a minute for most.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn keep(&self, sweep_every: Duration) -> Keeper {
        self.engine().keep(sweep_every)
    }

    /// The same for the messages of this database: reads their gauges, forgets marks whose retention is over, and
    /// outgoing messages that have been done for `sent_kept`. Until then a second message under one id is recognised; with
    /// zero, as soon as it is swept it is not.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn keep_messages(&self, sweep_every: Duration, sent_kept: Duration) -> Keeper
    where
        S: InboxStore + OutboxStore,
    {
        self.engine().keep_messages(self.store().clone(), sweep_every, sent_kept)
    }
}
