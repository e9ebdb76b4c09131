//! The boundary over a PostgreSQL database (feature `postgres`): opening it. Atomic mode is [`Onefold::atomic`], in our
//! transaction with your async closure.
//!
//! ```no_run
//! use onefold::{Onefold, Operation, Scope, Verdict, postgres::PostgresTx};
//!
//! # async fn example() -> Result<(), onefold::BoxError> {
//! let onefold = Onefold::postgres("postgres://shop@localhost/shop").await?;
//! let place_order = Operation::new("PlaceOrder", "one order row for each checkout");
//! let sku = "lamp".to_owned();
//! let call = place_order.call(Scope::new([("customer", "17")]), "checkout-7f82", &sku)?;
//! let done = onefold
//!     .atomic(call, async move |tx: &mut PostgresTx| {
//!         let sql = "INSERT INTO orders (sku) VALUES ($1) RETURNING number";
//!         let number: i64 = tx.query_opt(sql, &[&sku]).await?.ok_or("no row")?.get(0);
//!         Ok(Verdict::succeeded(number))
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

pub use onefold_store_postgres::{Address, OpenError, Options, Param, PostgresStore, PostgresTx, TxError};
use onefold_store_postgres::{Ending, PostgresWork};

pub use crate::asynchronous::{AsyncStore, Handler, Work, Writes};
pub use crate::ties::Ties;
use crate::{AtomicEngine, Limits, Onefold};

mod beside;
mod transaction;

pub use beside::Beside;
pub use transaction::{Claim, Claimed};

impl AsyncStore for PostgresStore {
    type Tx = PostgresTx;

    fn work(
        ties: Ties,
        mut closure: impl for<'a> FnMut(&'a mut PostgresTx) -> Ending<'a> + Send + 'static,
    ) -> PostgresWork {
        PostgresWork::new(move |tx| {
            ties.on_postgres(tx);
            closure(tx)
        })
    }
}

impl Onefold<PostgresStore> {
    /// Over a PostgreSQL database, `postgres://user:password@host:port/database?sslmode=…`, with the service's own
    /// tables beside the schema `onefold`, which is made if there is none. No live keys are counted: the service
    /// makes the keys.
    ///
    /// Must be called in a tokio runtime, which is needed for as long as the boundary is used. An error has changed
    /// nothing but perhaps the schema, by whole migrations.
    pub async fn postgres(url: &str) -> Result<Onefold<PostgresStore>, OpenError> {
        let limits = Limits { live_keys_per_scope: None, ..Limits::default() };
        Onefold::open_postgres(&Address::parse(url)?, Options::default(), limits).await
    }

    /// The same, with other options and limits. What can lose acknowledged records (durability settings, standbys of
    /// which none is synchronous), clocks that are apart, and old transactions are told in the log.
    ///
    /// # Errors
    /// [`OpenError`]: the server cannot be reached, is read-only, a replica or too old, the schema is another's or a
    /// later release's, a key is missing. Cancellation: nothing has changed but perhaps the schema, by whole
    /// migrations.
    pub async fn open_postgres(
        address: &Address,
        options: Options,
        limits: Limits,
    ) -> Result<Onefold<PostgresStore>, OpenError> {
        let store = Arc::new(PostgresStore::open(address, options).await?);
        Ok(Onefold::over(AtomicEngine::new(store, "library", limits)))
    }
}
