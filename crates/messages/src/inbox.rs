//! Handling messages once: the handler's local effect and the mark of its message in one commit (docs/messages.md).
//!
//! *Promises.* A delivery is consumed at once; only what stands in its way is judged. It is settled only when its end
//! is durable: the effect with its mark, or a dead letter with its body. A handler that fails, panics or says "not
//! yet" leaves nothing, and its message is as new as before. After enough failures the message is parked, and so is
//! what cannot be told from another message or is older than the marks: nothing is dropped.
//!
//! *After a crash* there is the whole or nothing, and whoever delivers delivers again. Lost are at most the duplicates
//! that were counted in the last half second.
//!
//! *It does not* run a handler outside of the database's transaction: what is to leave it goes through the outbox.

mod consumer;
mod handle;
mod handled;
mod locks;
mod settings;

use std::fmt;
use std::sync::Arc;

use onefold_core::{Key, OperationId};
use onefold_engine::Engine;
use onefold_store::{ConsumeStore, DeliveryCounts};

use crate::limits::TALLY_EVERY;
use crate::tally::Tally;

pub use consumer::{Consumer, Rerun};
pub use handled::{Handled, HandlerError, Handling, Word};
pub use settings::{InboxSettings, WithoutId};

/// A message as its handler sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Its id: the sender's, or the one that was made from its content.
    pub id: Key,
    /// Who sent it.
    pub source: String,
    /// The ordering key, if it has one.
    pub ordering_key: Option<String>,
    /// Header lines in their order.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
}

impl Incoming {
    /// The value of the first header line of this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        crate::wire::line(&self.headers, name)
    }
}

/// The inbox of one consumer over one database. Cheap to clone; clones are one.
pub struct Inbox<S> {
    inner: Arc<Inner<S>>,
}

pub(crate) struct Inner<S> {
    store: Arc<S>,
    engine: Engine,
    settings: InboxSettings,
    locks: locks::Locks,
    tally: Tally,
}

impl<S> Clone for Inbox<S> {
    fn clone(&self) -> Self {
        Inbox { inner: self.inner.clone() }
    }
}

impl<S> fmt::Debug for Inbox<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

impl<S: ConsumeStore + 'static> Inbox<S> {
    /// The inbox of this consumer in the database of `store`. The engine is the one that counts: its metrics.
    pub fn new(engine: &Engine, store: Arc<S>, settings: InboxSettings) -> Inbox<S> {
        let (locks, tally) = (locks::Locks::default(), Tally::default());
        Inbox { inner: Arc::new(Inner { store, engine: engine.clone(), settings, locks, tally }) }
    }

    /// The engine that counts for it.
    pub fn engine(&self) -> &Engine {
        &self.inner.engine
    }

    /// What it promises.
    pub fn settings(&self) -> &InboxSettings {
        &self.inner.settings
    }

    /// The store.
    pub fn store(&self) -> &Arc<S> {
        &self.inner.store
    }

    /// Writes the duplicates and conflicts that were counted and not written yet. What the store does not take stays
    /// counted. Worth calling before the process ends.
    pub async fn flush(&self) {
        self.inner.flush().await;
    }
}

impl<S: ConsumeStore + 'static> Inner<S> {
    fn count(self: &Arc<Self>, id: OperationId, round: u32, more: DeliveryCounts) {
        if self.tally.add(id, round, more) {
            let inner = self.clone();
            tokio::spawn(async move {
                while {
                    tokio::time::sleep(TALLY_EVERY).await;
                    inner.flush().await;
                    !inner.tally.is_done()
                } {}
            });
        }
    }

    async fn flush(&self) {
        if let Err(error) = self.tally.write(&*self.store).await {
            tracing::warn!(consumer = self.settings.consumer, %error, "deliveries could not be counted yet");
        }
    }
}
