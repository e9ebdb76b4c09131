//! Consuming: the handler is an async closure over the transaction that also makes the mark.

use std::future::Future;
use std::sync::Arc;

use onefold_core::{CORRELATION_ID, TRACEPARENT};
use onefold_store_postgres::PostgresTx;

use super::AsyncStore;
use crate::BoxError;
use crate::inbox::{Consumer, Handled, Handling, Inbound, Inbox, Incoming};
use crate::ties::Ties;

/// An async handler over the open transaction and a message, whose future may be sent between threads. Implemented
/// for all of them: `async move |tx: &mut PostgresTx, message: Arc<Incoming>| { … }`.
pub trait Handler<'a, Tx: 'a = PostgresTx>: FnOnce(&'a mut Tx, Arc<Incoming>) -> Self::Running {
    /// What it does.
    type Running: Future<Output = Result<Handled, BoxError>> + Send + 'a;
}

impl<'a, Tx: 'a, F, Running> Handler<'a, Tx> for F
where
    F: FnOnce(&'a mut Tx, Arc<Incoming>) -> Running,
    Running: Future<Output = Result<Handled, BoxError>> + Send + 'a,
{
    type Running = Running;
}

impl<S: AsyncStore> Inbox<S> {
    /// A consumer with this handler, for the adapter of a broker.
    ///
    /// The handler gets the transaction and the message, and nothing else that could be waited for. It may run again
    /// when the database asks for that (serialization failures and deadlocks); each run is that of a clone. What it
    /// writes is committed with the mark; an error, a panic, one that takes longer than the store's options say
    /// and one that goes on after a statement that failed undo everything and count as a try that failed,
    /// [`Handled::Rejected`] undoes everything and is final, [`Handled::NotYet`] undoes everything and counts as
    /// nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn consumer<F>(&self, handler: F) -> Consumer<S>
    where
        F: for<'a> Handler<'a, S::Tx> + Clone + Send + Sync + 'static,
    {
        Consumer::new(self.0.clone(), move |message, word| work::<S, _>(handler.clone(), message, word))
    }

    /// Handles one delivery with this handler, for a loop of your own. Settle with whoever delivered as
    /// `Settle::from(answer)` says, and not before.
    ///
    /// Cancellation: a call whose future is dropped is committed whole or not at all; the next delivery says which.
    pub async fn handle<F>(&self, message: Inbound, handler: F) -> Handling
    where
        F: for<'a> Handler<'a, S::Tx> + Clone + Send + 'static,
    {
        self.0.handle(message, move |message, word| work::<S, _>(handler, message, word)).await
    }
}

fn work<S, F>(handler: F, message: Arc<Incoming>, word: onefold_messages::Word) -> S::Work
where
    S: AsyncStore,
    F: for<'a> Handler<'a, S::Tx> + Clone + Send + 'static,
{
    let said = |header| message.header(header).map(str::to_owned);
    let ties = Ties { correlation_id: said(CORRELATION_ID), traceparent: said(TRACEPARENT) };
    S::work(ties, move |tx| {
        let (handler, message, word) = (handler.clone(), message.clone(), word.clone());
        Box::pin(async move { word.of(handler(tx, message).await) })
    })
}
