//! Atomic mode of a method over either database (feature `postgres`): see [`onefold_library::any`].

use std::sync::Arc;

use onefold_library::CallError;
use onefold_library::any::{AnyStore, AnyTx};
use onefold_library::companion::Settled;
use onefold_library::postgres::Writes;
use prost::Message;
use tonic::{Request, Response, Status};

use crate::kept::Kept;
use crate::meaning::Speaks;
use crate::perform::{answered, kept};
use crate::postgres::Work;
use crate::{Admitted, Protection, settling};

impl<M> Admitted<M, AnyStore>
where
    M: Clone + Send + 'static,
{
    /// As [`Protection::atomic`].
    pub async fn atomic<R, F>(self, work: F) -> Result<Response<R>, Status>
    where
        R: Message + Default,
        F: for<'a> Work<'a, M, R, AnyTx> + Clone + Send + 'static,
    {
        let message = self.message;
        let done = self.onefold.atomic(self.call, async move |tx: &mut AnyTx| {
            kept(work(tx, message).await, Speaks::ForTheOperation)
        });
        answered(done.await)
    }
}

impl Protection<AnyStore> {
    /// Registers what is written in the commit that settles a call of this method as answered or as refused, whoever
    /// settles it: see `Onefold::companion`, of which all is true here.
    pub async fn companion<R, F>(&self, write: F) -> Result<(), CallError>
    where
        R: Message + Default,
        F: for<'a> Writes<'a, Result<R, Status>, AnyTx> + Clone + Send + Sync + 'static,
    {
        let write = async move |tx: &mut AnyTx, settled: Arc<Settled<Kept>>| {
            let settled = Arc::new(settling::answered(&settled)?);
            write(tx, settled).await
        };
        self.onefold().companion(self.operation(), write).await
    }

    /// Performs the call in one transaction: what the closure writes and the record of its answer are committed
    /// together or not at all. The closure may run again when the database asks for it, each time as a clone with the
    /// message; on SQLite it may wait for nothing but its transaction.
    ///
    /// An error that is a [`Status`] and refuses for good by the table of [`meanings`](crate::meanings) is
    /// remembered; any other error undoes everything and frees the key. Cancellation: the same call made again says how
    /// it ended.
    pub async fn atomic<M, R, F>(&self, request: Request<M>, work: F) -> Result<Response<R>, Status>
    where
        M: Message + Clone + 'static,
        R: Message + Default,
        F: for<'a> Work<'a, M, R, AnyTx> + Clone + Send + 'static,
    {
        self.admit(request)?.atomic(work).await
    }
}
