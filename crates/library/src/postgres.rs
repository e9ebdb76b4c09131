//! The boundary over a PostgreSQL database (feature `postgres`): opening it, and atomic mode in our transaction with
//! your closure.
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

use std::future::Future;
use std::sync::Arc;

use onefold_store_postgres::PostgresWork;
pub use onefold_store_postgres::{Address, OpenError, Options, Param, PostgresStore, PostgresTx, TxError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::verdict::{BoxError, Verdict};
use crate::{AtomicEngine, Call, CallError, Done, Limits, Onefold};

mod beside;
mod companion;
mod inbox;
mod transaction;

pub use beside::Beside;
pub use companion::Writes;
pub use inbox::Handler;
pub use transaction::{Claim, Claimed};

/// An async closure over the open transaction, whose future may be sent between threads. Implemented for all of them:
/// `async move |tx: &mut PostgresTx| { … }`.
pub trait Work<'a, T, Tx: 'a = PostgresTx>: FnOnce(&'a mut Tx) -> Self::Running {
    /// What it does.
    type Running: Future<Output = Result<Verdict<T>, BoxError>> + Send + 'a;
}

impl<'a, T, Tx: 'a, F, Running> Work<'a, T, Tx> for F
where
    F: FnOnce(&'a mut Tx) -> Running,
    Running: Future<Output = Result<Verdict<T>, BoxError>> + Send + 'a,
{
    type Running = Running;
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

    /// The same, with other options and limits. What can lose acknowledged records (durability settings, standbys of which
    /// none is synchronous), clocks that are apart, and old transactions are told in the log.
    ///
    /// # Errors
    /// [`OpenError`]: the server cannot be reached, is read-only, a replica or too old, the schema is another's or a later
    /// release's, a key is missing. Cancellation: nothing has changed but perhaps the schema, by whole migrations.
    pub async fn open_postgres(
        address: &Address,
        options: Options,
        limits: Limits,
    ) -> Result<Onefold<PostgresStore>, OpenError> {
        let store = Arc::new(PostgresStore::open(address, options).await?);
        Ok(Onefold::over(AtomicEngine::new(store, "library", limits)))
    }

    /// Performs the operation in one transaction: what the closure writes and the record of its result are committed
    /// together or not at all.
    ///
    /// The closure gets the transaction and nothing else, because it may run again when the database asks for that
    /// (serialization failures and deadlocks, six times in all), and because an effect outside of the database cannot
    /// be rolled back. Each run is that of a clone. An error undoes everything, and the key is free: the rollback
    /// proves that nothing happened. A panic counts as an error, and so do a closure that holds its transaction for
    /// longer than [`Options::closure_time_max`] and one that goes on after a statement that failed.
    ///
    /// Errors say whether a new key is safe ([`CallError::new_key_is_safe`]). Cancellation: a call whose future is
    /// dropped runs on; the same call made again says how it ended.
    ///
    /// The transaction cannot leave the closure:
    ///
    /// ```compile_fail
    /// # use onefold::{Call, Onefold, Verdict, postgres::{PostgresStore, PostgresTx}};
    /// # async fn example(onefold: Onefold<PostgresStore>, call: Call, kept: tokio::sync::mpsc::Sender<&'static mut PostgresTx>) {
    /// onefold.atomic(call, async move |tx: &mut PostgresTx| {
    ///     kept.send(tx).await?;
    ///     Ok(Verdict::succeeded(7_i64))
    /// }).await;
    /// # }
    /// ```
    ///
    /// nor be committed in it by another way than the closure's end:
    ///
    /// ```compile_fail
    /// # use onefold::{Call, Onefold, Verdict, postgres::{PostgresStore, PostgresTx}};
    /// # async fn example(onefold: Onefold<PostgresStore>, call: Call) {
    /// onefold.atomic(call, async move |tx: &mut PostgresTx| {
    ///     tx.commit().await?;
    ///     Ok(Verdict::succeeded(7_i64))
    /// }).await;
    /// # }
    /// ```
    ///
    /// nor can the closure carry what cannot run twice:
    ///
    /// ```compile_fail
    /// # use onefold::{Call, Onefold, Verdict, postgres::{PostgresStore, PostgresTx}};
    /// # async fn example(onefold: Onefold<PostgresStore>, call: Call, told: tokio::sync::oneshot::Sender<()>) {
    /// onefold.atomic(call, async move |tx: &mut PostgresTx| {
    ///     let _ = told.send(());
    ///     Ok(Verdict::succeeded(7_i64))
    /// }).await;
    /// # }
    /// ```
    ///
    /// while the same without those lines compiles:
    ///
    /// ```
    /// # use onefold::{Call, Onefold, Verdict, postgres::{PostgresStore, PostgresTx}};
    /// # async fn example(onefold: Onefold<PostgresStore>, call: Call) {
    /// let done = onefold.atomic(call, async move |tx: &mut PostgresTx| {
    ///     let row = tx.query_opt("SELECT 7::bigint", &[]).await?.ok_or("no row")?;
    ///     Ok(Verdict::succeeded(row.get::<_, i64>(0)))
    /// }).await;
    /// # }
    /// ```
    pub async fn atomic<T, F>(&self, call: Call, work: F) -> Result<Done<T>, CallError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: for<'a> Work<'a, T> + Clone + Send + 'static,
    {
        let (correlation, trace) = (call.correlation_id.clone(), call.traceparent.clone());
        self.perform(call, |word| {
            PostgresWork::new(move |tx| {
                let (work, word) = (work.clone(), word.clone());
                tx.correlate(correlation.as_deref());
                tx.trace(trace.as_deref());
                Box::pin(async move { word.of(work(tx).await) })
            })
        })
        .await
    }
}
