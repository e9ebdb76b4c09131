//! The boundary over one database: operations and their verdicts, typed results, the three modes, inbox and outbox,
//! notifications.
//!
//! Services depend on `onefold`, the facade, which has all of it and says what each part promises.

#[cfg(feature = "postgres")]
pub mod any;
mod atomic;
mod beside;
mod call;
mod done;
mod error;
pub mod guest;
pub mod inbox;
pub mod messages;
pub mod notify;
mod operation;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod reconcile;
mod reserved;
mod resumable;
mod sqlite;
mod standing;
mod task;
mod transaction;
mod typed;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

pub use beside::AccessError;
pub use call::Call;
pub use done::{Done, Recorded};
pub use error::CallError;
pub use onefold_core::contract::{AfterExpiry, Retention, WhileRunning};
pub use onefold_core::key::KeyTime;
pub use onefold_core::{
    Contract, Expiry, Fingerprint, Key, KeyError, OperationId, Problem, Resource, Scope, State,
};
pub use onefold_engine::{AtomicEngine, Engine, Keeper, Limits, Release, Resolution, ResolvedAs};
pub use onefold_store::{AtomicStore, StepStore};
use onefold_store::{InboxStore, OutboxStore};
pub use onefold_store_sqlite::{Applied, FileUse, OpenError, Options, SqliteStore, SqliteTx};
pub use operation::{OnError, Operation};
pub use reserved::Performing;
pub use resumable::{StepError, Steps};
pub use standing::Standing;
pub use transaction::{Claim, Claimed};
pub use verdict::{BoxError, Verdict};

/// The boundary over one database. Cheap to clone.
pub struct Onefold<S = SqliteStore>(AtomicEngine<S>);

impl<S> Clone for Onefold<S> {
    fn clone(&self) -> Self {
        Onefold(self.0.clone())
    }
}

impl<S: AtomicStore> Onefold<S> {
    /// Over another store.
    pub fn over(engine: AtomicEngine<S>) -> Onefold<S> {
        Onefold(engine)
    }

    /// The engine, for what people do to records and for metrics.
    pub fn engine(&self) -> &Engine {
        self.0.engine()
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        self.0.store()
    }

    /// Starts what runs beside the calls, for as long as the answer is kept: it writes counters, marks lost outcomes
    /// and sweeps what has expired. Without it nothing is wrong, but lists and the size of the file lag.
    pub fn keep(&self, sweep_every: Duration) -> Keeper {
        self.engine().keep(sweep_every)
    }

    /// The same for the messages of this database: reads their gauges, forgets marks whose retention is over, and
    /// outgoing messages that have been done for `sent_kept`. Until then a second message under one id is recognised.
    pub fn keep_messages(&self, sweep_every: Duration, sent_kept: Duration) -> Keeper
    where
        S: InboxStore + OutboxStore,
    {
        self.engine().keep_messages(self.store().clone(), sweep_every, sent_kept)
    }
}
