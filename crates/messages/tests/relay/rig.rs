//! An outbox in a SQLite file, and a sink that answers by a script.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::retry::Backoff;
use onefold_core::{Key, OutboxEntry, OutboxState};
use onefold_engine::{Engine, Limits};
use onefold_messages::{Destination, Handling, IfLost, Inbound, Inbox, Message, Relay, Sending, Sink, Word};
use onefold_store::{Clock, OutboxStore};
use onefold_store_sqlite::{Options, SqliteStore, SqliteWork};
use onefold_testkit::wait;
use parking_lot::Mutex;

/// An outbox.
pub struct Outbox {
    pub store: Arc<SqliteStore>,
    pub dyned: Arc<dyn OutboxStore>,
    _directory: tempfile::TempDir,
}

pub fn outbox(clock: Option<Arc<dyn Clock>>) -> Outbox {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let mut options = Options::default();
    if let Some(clock) = clock {
        options.clock = clock;
    }
    let store = SqliteStore::open(directory.path().join("onefold.db"), options).expect("a new store opens");
    let store = Arc::new(store);
    Outbox { dyned: store.clone(), store, _directory: directory }
}

pub fn key(id: &str) -> Key {
    Key::new(id).expect("tests use valid keys")
}

pub fn message(id: &str, destination: &str, ordering_key: Option<&str>) -> Message {
    Message {
        id: key(id),
        destination: destination.into(),
        address: "orders".into(),
        ordering_key: ordering_key.map(Into::into),
        headers: Vec::new(),
        body: id.as_bytes().to_vec(),
    }
}

impl Outbox {
    pub async fn put(&self, messages: Vec<Message>) {
        let new = messages.len() as u64;
        assert_eq!(self.store.enqueue(messages).await.expect("the store works"), new);
    }

    /// Has the handler of a message that came in make this one, and fail.
    pub async fn put_in_vain(&self, id: &str) {
        let engine = Engine::new(self.store.clone(), "library", Limits::default());
        let inbox = Inbox::new(&engine, self.store.clone(), "in vain".into());
        let made = message(id, "shop", None);
        let work = |_, word: Word| {
            SqliteWork::new(move |tx| {
                assert!(tx.enqueue(&made).expect("the store works"));
                word.of(Err("in vain".into()))
            })
        };
        let handling = inbox.handle(Inbound::new("test", id, "a"), work).await;
        assert!(matches!(handling, Handling::Again { .. }), "{handling:?}");
        assert_eq!(self.store.outgoing(&key(id)).await.expect("the store works"), None);
    }

    pub fn relay(&self, destinations: Vec<Destination>) -> Relay {
        Relay::start(&self.dyned, destinations)
    }

    pub async fn entry(&self, id: &str) -> OutboxEntry {
        self.store.outgoing(&key(id)).await.expect("the store works").expect("the message is there")
    }

    /// Waits until the message is in this state.
    pub async fn becomes(&self, id: &str, state: OutboxState) {
        let what = format!("{id} is {state}");
        wait::until_within(wait::DEADLINE, &what, async || self.entry(id).await.state == state).await;
    }
}

type Script = dyn Fn(&Message, u32) -> Step + Send + Sync;

/// What a sink does with a message.
pub enum Step {
    Answer(Sending),
    Panic,
    /// Never answers.
    Hang,
    /// Answers so after a while.
    Later(Duration, Sending),
}

pub fn accepted() -> Step {
    Step::Answer(Sending::Accepted)
}

pub fn failed() -> Step {
    Step::Answer(Sending::Failed { reason: "500".into() })
}

#[derive(Default)]
struct Seen {
    order: Vec<String>,
    times: HashMap<String, u32>,
    now: HashMap<String, u32>,
    crossed: bool,
}

/// A sink that is told what to do, and remembers. Clones are one.
#[derive(Clone)]
pub struct Scripted {
    script: Arc<Script>,
    if_lost: IfLost,
    seen: Arc<Mutex<Seen>>,
}

impl Scripted {
    /// The script gets the message and how often it was sent here before.
    pub fn new(script: impl Fn(&Message, u32) -> Step + Send + Sync + 'static) -> Scripted {
        Scripted { script: Arc::new(script), if_lost: IfLost::SendAgain, seen: Arc::default() }
    }

    pub fn holding(self) -> Scripted {
        Scripted { if_lost: IfLost::Hold, ..self }
    }

    /// The ids in the order in which they were sent.
    pub fn order(&self) -> Vec<String> {
        self.seen.lock().order.clone()
    }

    pub fn times(&self, id: &str) -> u32 {
        self.seen.lock().times.get(id).copied().unwrap_or(0)
    }

    /// Whether one message was ever sent twice at once.
    pub fn crossed(&self) -> bool {
        self.seen.lock().crossed
    }

    pub fn destination(&self, name: &str) -> Destination {
        let backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_millis(20) };
        Destination::new(name, self.clone()).backoff(backoff)
    }
}

#[async_trait]
impl Sink for Scripted {
    fn if_lost(&self) -> IfLost {
        self.if_lost
    }

    async fn send(&self, message: &Message) -> Sending {
        let id = message.id.as_str().to_owned();
        let before = {
            let mut seen = self.seen.lock();
            seen.order.push(id.clone());
            let times = seen.times.entry(id.clone()).or_default();
            let before = *times;
            *times += 1;
            let now = seen.now.entry(id.clone()).or_default();
            *now += 1;
            let crossed = *now > 1;
            seen.crossed |= crossed;
            before
        };
        let sending = match (self.script)(message, before) {
            Step::Answer(sending) => sending,
            Step::Later(after, sending) => {
                tokio::time::sleep(after).await;
                sending
            }
            Step::Panic => panic!("a bug of the sink"),
            Step::Hang => std::future::pending().await,
        };
        if let Some(now) = self.seen.lock().now.get_mut(&id) {
            *now -= 1;
        }
        sending
    }
}
