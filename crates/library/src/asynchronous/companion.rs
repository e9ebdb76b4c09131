//! Companions: an async closure over the transaction that settles the operation.

use std::future::Future;
use std::sync::Arc;

use onefold_store_postgres::PostgresTx;
use serde::de::DeserializeOwned;

use super::AsyncStore;
use crate::companion::{Settled, ended};
use crate::ties::Ties;
use crate::{BoxError, CallError, Onefold, Operation};

/// An async closure over the open transaction and a settled operation, whose future may be sent between threads.
/// Implemented for all of them: `async move |tx: &mut PostgresTx, settled: Arc<Settled<T>>| { … }`.
pub trait Writes<'a, T, Tx: 'a = PostgresTx>: FnOnce(&'a mut Tx, Arc<Settled<T>>) -> Self::Running {
    /// What it does.
    type Running: Future<Output = Result<(), BoxError>> + Send + 'a;
}

impl<'a, T, Tx: 'a, F, Running> Writes<'a, T, Tx> for F
where
    F: FnOnce(&'a mut Tx, Arc<Settled<T>>) -> Running,
    Running: Future<Output = Result<(), BoxError>> + Send + 'a,
{
    type Running = Running;
}

impl<S: AsyncStore> Onefold<S> {
    /// Registers what is written in the commit that settles this operation as having happened or as refused, whoever
    /// settles it; see [`companion`](crate::companion), where the same is said of SQLite. Each run is that of a clone.
    /// One that holds its transaction for longer than the store's options say or goes on after a statement that failed
    /// counts as an error.
    ///
    /// Errors: the store is unavailable, and nothing is registered. Cancellation: the same.
    pub async fn companion<T, F>(&self, operation: &Operation, write: F) -> Result<(), CallError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
        F: for<'a> Writes<'a, T, S::Tx> + Clone + Send + Sync + 'static,
    {
        self.accompany(operation, move |settled: Settled<T>| {
            let (write, settled) = (write.clone(), Arc::new(settled));
            let ties =
                Ties { correlation_id: settled.correlation_id().map(str::to_owned), traceparent: None };
            S::work(ties, move |tx| {
                let (write, settled) = (write.clone(), settled.clone());
                Box::pin(async move { ended(settled.id(), write(tx, settled.clone()).await) })
            })
        })
        .await
    }
}
