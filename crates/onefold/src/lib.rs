//! **Many attempts, one effect.** A request that is sent twice, a job that is started again, a message that is
//! delivered a third time: the operation behind it happens once, and everybody who asks for it gets its one result.
//!
//! A service adds this crate to the database that it has, says what an operation promises, and writes its business
//! inside the boundary:
//!
//! ```
//! use onefold::{Onefold, Operation, Scope, Verdict};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), onefold::BoxError> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("shop.db");
//! let onefold = Onefold::sqlite(&path)?;
//! # rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, sku TEXT)")?;
//! let place_order = Operation::new("PlaceOrder", "one order row for each checkout");
//!
//! for attempt in 1..=2 {
//!     let sku = "lamp".to_owned();
//!     let call = place_order.call(Scope::new([("customer", "17")]), "checkout-7f82", &sku)?;
//!     let done = onefold
//!         .atomic(call, move |tx| {
//!             tx.execute("INSERT INTO orders (sku) VALUES (?1)", [&sku])?;
//!             Ok(Verdict::succeeded(tx.last_insert_rowid()))
//!         })
//!         .await?;
//!     assert_eq!((*done.value(), done.replayed()), (1, attempt == 2));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | mode | where the effect is | what it promises |
//! | --- | --- | --- |
//! | [`Onefold::atomic`] | in this database | exactly one committed effect in this database |
//! | [`Onefold::claim`] | in this database, in a transaction of yours | the same |
//! | [`Onefold::reserved`] | elsewhere | at most one unresolved attempt at a time; a lost outcome is held as unknown, never silently repeated |
//! | [`Onefold::resumable`] | elsewhere, in several [`Steps`] | each step is asked for under one key |
//!
//! Inside a closure of atomic mode, [`SqliteTx::effect`] notes what the business would notice if it happened twice,
//! under a key of its own and for good, and [`SqliteTx::apply_if_newer`] keeps an older event from overwriting a
//! newer one. Messages that leave with the business are in [`messages`], and the one mail for an effect in
//! [`notify`].
//!
//! With the feature `postgres` all of it works over PostgreSQL: see the module `postgres`.
//!
//! What a call without a result means is a [`CallError`], which says whether a new key is safe. Results are kept as
//! versioned data: see [`Operation::value_version`].

mod atomic;
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
mod reserved;
mod resumable;
mod sqlite;
mod task;
mod transaction;
mod typed;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

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
