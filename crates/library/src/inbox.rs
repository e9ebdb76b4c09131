//! Messages on their way in, each handled once: the handler's writes and the mark of its message are one commit.
//!
//! ```
//! use onefold::Onefold;
//! use onefold::inbox::{Handled, Handling, Inbound, InboxState};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), onefold::BoxError> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("shop.db");
//! # let onefold = Onefold::sqlite(&path)?;
//! # rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE points (customer TEXT)")?;
//! let consumer = onefold.inbox("loyalty").consumer(|tx, message| {
//!     tx.execute("INSERT INTO points VALUES (?1)", [std::str::from_utf8(&message.body)?])?;
//!     Ok(Handled::Done)
//! });
//! let message = Inbound::new("shop", "evt_1", "ann");
//! assert_eq!(consumer.handle(message.clone()).await, Handling::Done(InboxState::Processed));
//! assert_eq!(consumer.handle(message).await, Handling::Duplicate);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Consumer`] is a [`Receive`], which the adapters of brokers take: they settle a delivery as it says, and never
//! before. Whatever a closure of atomic mode may do, a handler may: [`SqliteTx::effect`](crate::SqliteTx::effect),
//! [`apply_if_newer`](crate::SqliteTx::apply_if_newer), [`enqueue_once`](crate::SqliteTx::enqueue_once). On
//! PostgreSQL (feature `postgres`) a handler is an async closure over a `PostgresTx`.
//!
//! [`InboxSettings`] say how long marks stay, when a message is parked and which build handles. Parked messages are
//! listed and let go on through [`Onefold::messages`]. A *permit*, granted there as well, lets another build handle
//! messages again, each once: those that are delivered again, or, by [`Consumer::rerun`] or a person's
//! [`handle_again`](crate::messages::Messages::handle_again), those whose bodies are kept.

use onefold_core::contract::{RETRY_HORIZON, Retention};
use onefold_core::{CORRELATION_ID, TRACEPARENT};
use onefold_store::Ended;
use onefold_store_sqlite::{SqliteStore, SqliteTx, SqliteWork};

pub use onefold_core::{Delivery, Fingerprint, InboxEntry, InboxState, MessageIdentity, Permit};
pub use onefold_messages::{
    Handled, Handling, Inbound, InboxSettings, Incoming, Receive, Rerun, Settle, Told, WithoutId,
};
pub use onefold_store::{ConsumeStore, InboxQuery, InboxStore, NewPermit};

use crate::news::is_news;
use crate::sqlite::contended;
use crate::verdict::BoxError;
use crate::{AtomicStore, Onefold};

/// A consumer: an inbox with the one handler for its messages.
pub type Consumer<S = SqliteStore> = onefold_messages::Consumer<S>;

/// The inbox of one consumer. Cheap to clone.
#[derive(Debug)]
pub struct Inbox<S: ConsumeStore = SqliteStore>(pub(crate) onefold_messages::Inbox<S>);

impl<S: ConsumeStore> Clone for Inbox<S> {
    fn clone(&self) -> Self {
        Inbox(self.0.clone())
    }
}

impl<S: AtomicStore + ConsumeStore + 'static> Onefold<S> {
    /// The inbox of a consumer: its name, or [`InboxSettings`] with it. Make it once for each consumer of a process.
    ///
    /// Marks that are kept for less than a day are told in the log, once in a process: whoever delivers again after that has a message
    /// handled twice.
    pub fn inbox(&self, settings: impl Into<InboxSettings>) -> Inbox<S> {
        let settings = settings.into();
        if let Retention::For(retention) = settings.retention
            && retention < RETRY_HORIZON
            && is_news(&settings.consumer, "retention of an inbox")
        {
            let consumer = &settings.consumer;
            let unwise = "is shorter than the day for which senders and queues commonly deliver again";
            tracing::warn!(consumer, setting = "retention", "{retention:?} {unwise}");
        }
        self.engine().signals().messages().start_at_zero(&settings.consumer);
        Inbox(onefold_messages::Inbox::new(self.engine(), self.store().clone(), settings))
    }
}

impl<S: ConsumeStore + 'static> Inbox<S> {
    /// Writes what was counted of duplicates and conflicts since half a second ago; worth calling before the process
    /// ends.
    pub async fn flush(&self) {
        self.0.flush().await;
    }
}

impl Inbox<SqliteStore> {
    /// A consumer with this handler, for the adapter of a broker.
    ///
    /// The handler gets the transaction and the message, and nothing else that could be waited for; it runs on the
    /// writer's thread, so it must be short. It may run again when the database asks for that. What it writes is
    /// committed with the mark; an error, a panic and one that takes too long undo everything and count as a try that
    /// failed, [`Handled::Rejected`] undoes everything and is final, [`Handled::NotYet`] undoes everything and counts
    /// as nothing.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn consumer<F>(&self, handler: F) -> Consumer<SqliteStore>
    where
        F: Fn(&mut SqliteTx<'_>, &Incoming) -> Result<Handled, BoxError> + Send + Sync + 'static,
    {
        let handler = std::sync::Arc::new(handler);
        Consumer::new(self.0.clone(), move |message, word| {
            let handler = handler.clone();
            SqliteWork::new(move |tx| handled(tx, &message, &word, &*handler))
        })
    }

    /// Handles one delivery with this handler, for a loop of your own. Settle with whoever delivered as
    /// `Settle::from(answer)` says, and not before.
    ///
    /// Cancellation: a call whose future is dropped is committed whole or not at all; the next delivery says which.
    pub async fn handle<F>(&self, message: Inbound, mut handler: F) -> Handling
    where
        F: FnMut(&mut SqliteTx<'_>, &Incoming) -> Result<Handled, BoxError> + Send + 'static,
    {
        self.0
            .handle(message, move |message, word| {
                SqliteWork::new(move |tx| handled(tx, &message, &word, &mut handler))
            })
            .await
    }
}

/// The end of a handler of this message; where the database asks for another run, that.
fn handled(
    tx: &mut SqliteTx<'_>,
    message: &Incoming,
    word: &onefold_messages::Word,
    handler: impl FnOnce(&mut SqliteTx<'_>, &Incoming) -> Result<Handled, BoxError>,
) -> Ended {
    tx.correlate(message.header(CORRELATION_ID));
    tx.trace(message.header(TRACEPARENT));
    let said = handler(tx, message);
    let again = said.as_ref().err().and_then(|error| contended(&**error));
    let ended = word.of(said);
    again.map_or(ended, Ended::Again)
}
