//! Async closures over an open transaction: atomic mode, companions and consuming, written once for every store whose
//! closures are async: [`PostgresStore`](crate::postgres::PostgresStore) and [`AnyStore`](crate::any::AnyStore).

use std::future::Future;

use onefold_store_postgres::{Ending, PostgresTx};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::inbox::ConsumeStore;
use crate::ties::Ties;
use crate::verdict::{BoxError, Verdict};
use crate::{AtomicStore, Call, CallError, Done, Onefold};

mod companion;
mod inbox;

pub use companion::Writes;
pub use inbox::Handler;

/// A store whose closures are async.
pub trait AsyncStore: AtomicStore<Work: 'static> + ConsumeStore + 'static {
    /// An open transaction, as a closure has it.
    type Tx: Send + 'static;

    /// The work that this closure does; the messages that it makes are tied so. It may run again.
    fn work(
        ties: Ties,
        closure: impl for<'a> FnMut(&'a mut Self::Tx) -> Ending<'a> + Send + 'static,
    ) -> Self::Work;
}

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

impl<S: AsyncStore> Onefold<S> {
    /// Performs the operation in one transaction: what the closure writes and the record of its result are committed
    /// together or not at all.
    ///
    /// The closure gets the transaction and nothing else, because it may run again when the database asks for that
    /// (serialization failures and deadlocks, six times in all), and because an effect outside of the database cannot
    /// be rolled back. Each run is that of a clone. An error undoes everything, and the key is free: the rollback
    /// proves that nothing happened. A panic counts as an error, and so do a closure that holds its transaction for
    /// longer than the store's options say (`closure_time_max`) and one that goes on after a statement that failed.
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
        F: for<'a> Work<'a, T, S::Tx> + Clone + Send + 'static,
    {
        let ties = Ties::of(&call);
        self.perform(call, |word| {
            S::work(ties, move |tx| {
                let (work, word) = (work.clone(), word.clone());
                Box::pin(async move { word.of(work(tx).await) })
            })
        })
        .await
    }
}
