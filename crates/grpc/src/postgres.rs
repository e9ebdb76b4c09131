//! Atomic mode of a method with async closures (feature `postgres`): over a PostgreSQL database, or over
//! [either database](onefold_library::any). The other modes are the same on every store.
//!
//! ```no_run
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # struct Checkout { #[prost(string, tag = "1")] sku: String }
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # struct Order { #[prost(int64, tag = "1")] number: i64 }
//! use onefold::postgres::{PostgresStore, PostgresTx};
//! use onefold::Verdict;
//! use onefold::grpc::Protection;
//! use tonic::{Request, Response, Status};
//!
//! # async fn place(place: &Protection<PostgresStore>, request: Request<Checkout>) -> Result<Response<Order>, Status> {
//! let placed = place.atomic(request, async |tx: &mut PostgresTx, checkout: Checkout| {
//!     let sql = "INSERT INTO orders (sku) VALUES ($1) RETURNING number";
//!     let number = tx.query_opt(sql, &[&checkout.sku]).await?.ok_or("no row")?.get(0);
//!     Ok(Verdict::succeeded(Order { number }))
//! });
//! placed.await
//! # }
//! ```

use std::future::Future;
use std::sync::Arc;

use onefold_library::any::AnyStore;
use onefold_library::companion::Settled;
use onefold_library::postgres::{AsyncStore, PostgresStore, PostgresTx, Writes};
use onefold_library::{BoxError, CallError, Verdict};
use prost::Message;
use tonic::{Request, Response, Status};

use crate::kept::Kept;
use crate::meaning::Speaks;
use crate::perform::{answered, kept};
use crate::settling;
use crate::{Admitted, Protection};

/// An async closure over the open transaction and the message, whose future may be sent between threads. Implemented
/// for all of them: `async |tx: &mut PostgresTx, message: M| { … }`.
pub trait Work<'a, M, R, Tx: 'a = PostgresTx>: FnOnce(&'a mut Tx, M) -> Self::Running {
    /// What it does.
    type Running: Future<Output = Result<Verdict<R>, BoxError>> + Send + 'a;
}

impl<'a, M, R, Tx: 'a, F, Running> Work<'a, M, R, Tx> for F
where
    F: FnOnce(&'a mut Tx, M) -> Running,
    Running: Future<Output = Result<Verdict<R>, BoxError>> + Send + 'a,
{
    type Running = Running;
}

/// The stores whose closures are async. A trait of this crate over [`AsyncStore`], so that the compiler knows that
/// SQLite's store, which has methods of the same names, is none of them.
pub trait Async: AsyncStore {}

impl Async for PostgresStore {}
impl Async for AnyStore {}

impl<M, S: Async> Admitted<M, S>
where
    M: Clone + Send + 'static,
{
    /// As [`Protection::atomic`].
    pub async fn atomic<R, F>(self, work: F) -> Result<Response<R>, Status>
    where
        R: Message + Default,
        F: for<'a> Work<'a, M, R, S::Tx> + Clone + Send + 'static,
    {
        let message = self.message;
        let done = self.onefold.atomic(self.call, async move |tx: &mut S::Tx| {
            kept(work(tx, message).await, Speaks::ForTheOperation)
        });
        answered(done.await)
    }
}

impl<S: Async> Protection<S> {
    /// Registers what is written in the commit that settles a call of this method as answered or as refused, whoever
    /// settles it: see `Onefold::companion`, of which all is true here.
    pub async fn companion<R, F>(&self, write: F) -> Result<(), CallError>
    where
        R: Message + Default,
        F: for<'a> Writes<'a, Result<R, Status>, S::Tx> + Clone + Send + Sync + 'static,
    {
        let write = async move |tx: &mut S::Tx, settled: Arc<Settled<Kept>>| {
            let settled = Arc::new(settling::answered(&settled)?);
            write(tx, settled).await
        };
        self.onefold().companion(self.operation(), write).await
    }

    /// Performs the call in one transaction: what the closure writes and the record of its answer are committed
    /// together or not at all. The closure may run again when the database asks for it, each time as a clone with the
    /// message; over SQLite it may wait for nothing but its transaction.
    ///
    /// An error that is a [`Status`] and refuses for good by the table of [`meanings`](crate::meanings) is
    /// remembered; any other error undoes everything and frees the key. Cancellation: the same call made again says how
    /// it ended.
    pub async fn atomic<M, R, F>(&self, request: Request<M>, work: F) -> Result<Response<R>, Status>
    where
        M: Message + Clone + 'static,
        R: Message + Default,
        F: for<'a> Work<'a, M, R, S::Tx> + Clone + Send + 'static,
    {
        self.admit(request)?.atomic(work).await
    }
}
