//! What settles a call beside its own attempt: look-ups, people; and what is written with its answer whoever settles
//! it.
//!
//! An answer is a message, or the status with which the call was refused for good.

use std::future::Future;

use onefold_library::companion::Settled;
use onefold_library::reconcile::{Found, Lost, Reconcile};
use onefold_library::{
    ActError, AtomicStore, BoxError, CallError, OperationId, Settlement, Shown, SqliteStore, SqliteTx,
};
use prost::Message;
use tonic::Status;

use crate::Protection;
use crate::kept::Kept;
use crate::meaning::Speaks;
use crate::perform::kept;

impl Protection<SqliteStore> {
    /// Registers what is written in the commit that settles a call of this method as answered or as refused, whoever
    /// settles it: see `Onefold::companion`, of which all is true here.
    pub async fn companion<R, F>(&self, write: F) -> Result<(), CallError>
    where
        R: Message + Default,
        F: Fn(&mut SqliteTx<'_>, &Settled<Result<R, Status>>) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let write = move |tx: &mut SqliteTx<'_>, settled: &Settled<Kept>| write(tx, &answered(settled)?);
        self.onefold().companion(self.operation(), write).await
    }
}

impl<S: AtomicStore> Protection<S> {
    /// Who is asked about calls of this method whose outcome is unknown, for `Onefold::reconcile`. What it finds is the
    /// answer that every caller gets from now on. An error of `ask` is an inconclusive answer: nothing is settled, and
    /// it is asked again.
    pub fn look_up<R, F, Fut>(&self, ask: F) -> Reconcile
    where
        R: Message + Default,
        F: Fn(Lost) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Found<R>, BoxError>> + Send + 'static,
    {
        Reconcile::new(self.operation(), move |lost| {
            let asking = ask(lost);
            async move { Ok(asking.await?.map(|message| Kept::message(&message))) }
        })
    }

    /// Settles a call whose outcome is unknown as a person says: see `Onefold::resolve`, of which all is true here.
    ///
    /// # Errors
    /// Those of `Onefold::resolve`; nothing has changed, but where the store did not answer.
    pub async fn resolve<R: Message>(
        &self,
        id: OperationId,
        settlement: Settlement<R>,
    ) -> Result<Shown, ActError> {
        let Settlement { verdict, reason, evidence, who } = settlement;
        let verdict = kept(Ok(verdict), Speaks::ForTheOperation)
            .map_err(|error| ActError::ValueNotKept(error.to_string()))?;
        let settlement = Settlement { verdict, reason, evidence, who };
        self.onefold().resolve(self.operation(), id, settlement).await
    }
}

/// The settled call with its answer as the service knows it.
pub(crate) fn answered<R: Message + Default>(
    settled: &Settled<Kept>,
) -> Result<Settled<Result<R, Status>>, String> {
    settled.clone().try_map(Kept::answer)
}
