//! The service's own reads and writes on PostgreSQL: async closures over a transaction of the boundary's pool.

use std::future::Future;

use onefold_store::Ended;
use onefold_store_postgres::{PostgresStore, PostgresTx, PostgresWork};

use crate::Onefold;
use crate::beside::{AccessError, Left, write};
use crate::verdict::BoxError;

/// An async closure over an open transaction of no operation, whose future may be sent between threads. Implemented for
/// all of them: `async move |tx: &mut PostgresTx| { … }`.
pub trait Beside<'a, A>: FnOnce(&'a mut PostgresTx) -> Self::Running {
    /// What it does.
    type Running: Future<Output = Result<A, BoxError>> + Send + 'a;
}

impl<'a, A, F, Running> Beside<'a, A> for F
where
    F: FnOnce(&'a mut PostgresTx) -> Running,
    Running: Future<Output = Result<A, BoxError>> + Send + 'a,
{
    type Running = Running;
}

impl Onefold<PostgresStore> {
    /// Reads the service's own tables in a transaction that only reads: all statements of the closure see one state of
    /// the database. It holds a connection of the pool as a closure of atomic mode does, and has as long.
    ///
    /// Cancellation: nothing is left.
    pub async fn read<A, F>(&self, read: F) -> Result<A, AccessError>
    where
        A: Send + 'static,
        F: for<'a> Beside<'a, A> + Send + 'static,
    {
        let left = Left::nothing();
        let (own, mut read) = (left.clone(), Some(read));
        let mut work = PostgresWork::new(move |tx| {
            let (own, read) = (own.clone(), read.take());
            Box::pin(async move {
                match read {
                    Some(read) => own.of(read(tx).await),
                    None => Ended::NotDone,
                }
            })
        });
        left.taken(self.store().lend(&mut work).await?)
    }

    /// Writes the service's own tables in one transaction, without an operation: what must not happen twice belongs
    /// into [`Onefold::atomic`]. The closure may run again when the database asks for that, each time as a clone. An
    /// error and a panic undo everything.
    ///
    /// Cancellation: it is committed whole or not at all.
    pub async fn write<A, F>(&self, write_own: F) -> Result<A, AccessError>
    where
        A: Send + 'static,
        F: for<'a> Beside<'a, A> + Clone + Send + 'static,
    {
        let left = Left::nothing();
        let own = left.clone();
        let work = PostgresWork::new(move |tx| {
            let (own, write_own) = (own.clone(), write_own.clone());
            Box::pin(async move { own.of(write_own(tx).await) })
        });
        write(&**self.store(), work, &left).await
    }
}
