//! Atomic mode, companions and consuming, with one async closure for both databases.

use std::sync::Arc;

use onefold_core::CORRELATION_ID;
use onefold_store::Ended;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{AnyStore, AnyTx, AnyWork};
use crate::companion::{Settled, ended};
use crate::inbox::{Consumer, Handled, Handling, Inbound, Inbox, Incoming};
use crate::postgres::{Handler, Work, Writes};
use crate::sqlite::contended;
use crate::{BoxError, Call, CallError, Done, Onefold, Operation, Verdict};

impl Onefold<AnyStore> {
    /// Performs the operation in one transaction: what the closure writes and the record of its result are committed
    /// together or not at all.
    ///
    /// The closure gets the transaction and nothing else, because it may run again when the database asks for that,
    /// and because an effect outside of the database cannot be rolled back. Each run is that of a clone. An error
    /// undoes everything, and the key is free. A panic counts as an error, and so does a closure that takes too long,
    /// or waits on SQLite for anything but its transaction.
    ///
    /// Errors say whether a new key is safe ([`CallError::new_key_is_safe`]). Cancellation: the same call made again
    /// says how it ended.
    pub async fn atomic<T, F>(&self, call: Call, work: F) -> Result<Done<T>, CallError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: for<'a> Work<'a, T, AnyTx> + Clone + Send + 'static,
    {
        let correlation = call.correlation_id.clone();
        self.perform(call, |word| {
            let work = AnyWork::new(move |mut tx| {
                let (work, word) = (work.clone(), word.clone());
                async move {
                    let said = work(&mut tx).await;
                    let again = match &said {
                        Err(error) | Ok(Verdict::Unknown { error }) => contended(&**error),
                        Ok(_) => None,
                    };
                    let ended = word.of(said);
                    again.map_or(ended, Ended::Again)
                }
            });
            work.correlated(correlation)
        })
        .await
    }

    /// Registers what is written in the commit that settles this operation as having happened or as refused, whoever
    /// settles it; see [`companion`](crate::companion), where the same is said of SQLite. Each run is that of a clone.
    ///
    /// Errors: the store is unavailable, and nothing is registered. Cancellation: the same.
    pub async fn companion<T, F>(&self, operation: &Operation, write: F) -> Result<(), CallError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
        F: for<'a> Writes<'a, T, AnyTx> + Clone + Send + Sync + 'static,
    {
        self.accompany(operation, move |settled: Settled<T>| {
            let (write, settled) = (write.clone(), Arc::new(settled));
            let correlation = settled.correlation_id().map(str::to_owned);
            let work = AnyWork::new(move |mut tx| {
                let (write, settled) = (write.clone(), settled.clone());
                async move {
                    let written = write(&mut tx, settled.clone()).await;
                    let again = written.as_ref().err().and_then(|error| contended(&**error));
                    again.map_or_else(|| ended(settled.id(), written), Ended::Again)
                }
            });
            work.correlated(correlation)
        })
        .await
    }
}

impl Inbox<AnyStore> {
    /// A consumer with this handler, for the adapter of a broker.
    ///
    /// The handler gets the transaction and the message, and nothing else that could be waited for. It may run again
    /// when the database asks for that; each run is that of a clone. What it writes is committed with the mark; an
    /// error, a panic and one that takes too long undo everything and count as a try that failed,
    /// [`Handled::Rejected`] undoes everything and is final, [`Handled::NotYet`] undoes everything and counts as
    /// nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn consumer<F>(&self, handler: F) -> Consumer<AnyStore>
    where
        F: for<'a> Handler<'a, AnyTx> + Clone + Send + Sync + 'static,
    {
        Consumer::new(self.0.clone(), move |message, word| work(handler.clone(), message, word))
    }

    /// Handles one delivery with this handler, for a loop of your own. Settle with whoever delivered as
    /// `Settle::from(answer)` says, and not before.
    ///
    /// Cancellation: a call whose future is dropped is committed whole or not at all; the next delivery says which.
    pub async fn handle<F>(&self, message: Inbound, handler: F) -> Handling
    where
        F: for<'a> Handler<'a, AnyTx> + Clone + Send + 'static,
    {
        self.0.handle(message, move |message, word| work(handler, message, word)).await
    }
}

fn work<F>(handler: F, message: Arc<Incoming>, word: onefold_messages::Word) -> AnyWork
where
    F: for<'a> Handler<'a, AnyTx> + Clone + Send + 'static,
{
    let correlation = message.header(CORRELATION_ID).map(str::to_owned);
    let work = AnyWork::new(move |mut tx| {
        let (handler, message, word) = (handler.clone(), message.clone(), word.clone());
        async move {
            let said: Result<Handled, BoxError> = handler(&mut tx, message).await;
            let again = said.as_ref().err().and_then(|error| contended(&**error));
            let ended = word.of(said);
            again.map_or(ended, Ended::Again)
        }
    });
    work.correlated(correlation)
}
