//! Who waits in this process for what a handler answers. Nothing depends on it: whoever is lost here, or waits for
//! another gateway's message, sees the end in the outbox.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Response;
use onefold_core::Key;
use tokio::sync::watch;

/// How a try of a handler ended.
#[derive(Debug)]
pub(crate) enum Heard {
    /// It answered.
    Answer(Response<Bytes>),
    /// It was not asked.
    Unreachable,
    /// It was asked, and the answer was lost.
    Lost,
    /// It was asked, and did not answer in time.
    Late,
}

type Latest = Option<Arc<Heard>>;

/// Those who wait, by message.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<HashMap<Key, watch::Sender<Latest>>>);

/// One who waits. What was answered before is not heard.
#[derive(Debug)]
pub(crate) struct Listening {
    listeners: Arc<Listeners>,
    key: Key,
    latest: watch::Receiver<Latest>,
}

impl Listeners {
    /// Waits for the answers to a message from now on.
    pub(crate) fn listen(self: &Arc<Self>, key: &Key) -> Listening {
        let mut all = self.0.lock().expect("nobody panics under it");
        let sender = all.entry(key.clone()).or_insert_with(|| watch::Sender::new(None));
        Listening { listeners: self.clone(), key: key.clone(), latest: sender.subscribe() }
    }

    /// Tells everybody who waits.
    pub(crate) fn tell(&self, key: &Key, heard: Heard) {
        if let Some(sender) = self.0.lock().expect("nobody panics under it").get(key) {
            sender.send_replace(Some(Arc::new(heard)));
        }
    }
}

impl Listening {
    /// Whether it is this message's answers.
    pub(crate) fn is_for(&self, key: &Key) -> bool {
        self.key == *key
    }

    /// The next answer. Cancellation safe.
    pub(crate) async fn heard(&mut self) -> Arc<Heard> {
        loop {
            // The sender stays as long as somebody listens.
            if self.latest.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(heard) = &*self.latest.borrow_and_update() {
                return heard.clone();
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut all = self.listeners.0.lock().expect("nobody panics under it");
        if let Entry::Occupied(entry) = all.entry(self.key.clone())
            && entry.get().receiver_count() <= 1
        {
            entry.remove();
        }
    }
}
