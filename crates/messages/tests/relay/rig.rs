//! An outbox in a file or a database, and a sink that answers by a script.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::retry::Backoff;
use onefold_core::{Key, OutboxEntry, OutboxState};
use onefold_engine::{Engine, Limits};
use onefold_messages::{Destination, Handling, IfLost, Inbound, Inbox, Message, Relay, Sending, Sink, Word};
use onefold_store::{Clock, ConsumeStore, OutboxQuery, OutboxStore};
use onefold_store_postgres::{Address, PostgresStore, PostgresWork};
use onefold_store_sqlite::{Options, SqliteStore, SqliteWork};
use onefold_testkit::{Store, wait};
use parking_lot::Mutex;

/// An outbox.
pub struct Outbox {
    pub store: Arc<dyn OutboxStore>,
    opened: Opened,
}

enum Opened {
    Sqlite(Arc<SqliteStore>),
    Postgresql(Arc<PostgresStore>),
}

/// The outbox at this place, on its own clock or on this one.
pub async fn outbox(place: &Store, clock: Option<Arc<dyn Clock>>) -> Outbox {
    match place.url().strip_prefix("sqlite:") {
        Some(path) => {
            let mut options = Options::default();
            options.clock = clock.unwrap_or(options.clock);
            let store = SqliteStore::open(Path::new(path), options).expect("a new store opens");
            let store = Arc::new(store);
            Outbox { store: store.clone(), opened: Opened::Sqlite(store) }
        }
        None => postgresql(place.url(), clock).await,
    }
}

/// The outbox in this database.
pub async fn postgresql(url: &str, test_clock: Option<Arc<dyn Clock>>) -> Outbox {
    let options = onefold_store_postgres::Options { test_clock, ..Default::default() };
    let address = Address::parse(url).expect("an address");
    let store = Arc::new(PostgresStore::open(&address, options).await.expect("the store opens"));
    Outbox { store: store.clone(), opened: Opened::Postgresql(store) }
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
        let (made, delivery) = (message(id, "shop", None), Inbound::new("test", id, "a"));
        let handling = match &self.opened {
            Opened::Sqlite(store) => {
                let work = |_, word: Word| {
                    SqliteWork::new(move |tx| {
                        assert!(tx.enqueue(&made).expect("the store works"));
                        word.of(Err("in vain".into()))
                    })
                };
                inbox(store).handle(delivery, work).await
            }
            Opened::Postgresql(store) => {
                let work = |_, word: Word| {
                    PostgresWork::new(move |tx| {
                        let (made, word) = (made.clone(), word.clone());
                        Box::pin(async move {
                            assert!(tx.enqueue(&made).await.expect("the store works"));
                            word.of(Err("in vain".into()))
                        })
                    })
                };
                inbox(store).handle(delivery, work).await
            }
        };
        assert!(matches!(handling, Handling::Again { .. }), "{handling:?}");
        assert_eq!(self.store.outgoing(&key(id)).await.expect("the store works"), None);
    }

    /// The database's store.
    pub fn database(&self) -> &Arc<PostgresStore> {
        match &self.opened {
            Opened::Postgresql(store) => store,
            Opened::Sqlite(_) => panic!("it is a file"),
        }
    }

    pub fn relay(&self, destinations: Vec<Destination>) -> Relay {
        Relay::start(&self.store, destinations)
    }

    pub async fn entry(&self, id: &str) -> OutboxEntry {
        self.store.outgoing(&key(id)).await.expect("the store works").expect("the message is there")
    }

    /// The ids of what is in this state.
    pub async fn in_state(&self, state: OutboxState) -> Vec<String> {
        let query = OutboxQuery { state: Some(state), limit: 1000, ..OutboxQuery::default() };
        let page = self.store.list_outbox(query).await.expect("the store works");
        page.entries.iter().map(|entry| entry.message.id.as_str().to_owned()).collect()
    }

    /// Waits until the message is in this state.
    pub async fn becomes(&self, id: &str, state: OutboxState) {
        let what = format!("{id} is {state}");
        wait::until_within(wait::DEADLINE, &what, async || self.entry(id).await.state == state).await;
    }
}

fn inbox<S: ConsumeStore + 'static>(store: &Arc<S>) -> Inbox<S> {
    let engine = Engine::new(store.clone(), "library", Limits::default());
    Inbox::new(&engine, store.clone(), "in vain".into())
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
    by: HashMap<&'static str, HashSet<String>>,
}

/// A sink that is told what to do, and remembers. Clones are one.
#[derive(Clone)]
pub struct Scripted {
    script: Arc<Script>,
    if_lost: IfLost,
    relay: &'static str,
    seen: Arc<Mutex<Seen>>,
}

impl Scripted {
    /// The script gets the message and how often it was sent here before.
    pub fn new(script: impl Fn(&Message, u32) -> Step + Send + Sync + 'static) -> Scripted {
        Scripted { script: Arc::new(script), if_lost: IfLost::SendAgain, relay: "", seen: Arc::default() }
    }

    pub fn holding(self) -> Scripted {
        Scripted { if_lost: IfLost::Hold, ..self }
    }

    /// The same sink in the hands of the relay of this name.
    pub fn in_hands_of(&self, relay: &'static str) -> Scripted {
        Scripted { relay, ..self.clone() }
    }

    /// What that relay has sent.
    pub fn sent_by(&self, relay: &str) -> HashSet<String> {
        self.seen.lock().by.get(relay).cloned().unwrap_or_default()
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

/// A message that is being sent, until it is not, also where its relay dies.
struct OnItsWay<'a>(&'a Mutex<Seen>, String);

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        if let Some(now) = self.0.lock().now.get_mut(&self.1) {
            *now -= 1;
        }
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
            seen.by.entry(self.relay).or_default().insert(id.clone());
            let times = seen.times.entry(id.clone()).or_default();
            let before = *times;
            *times += 1;
            let now = seen.now.entry(id.clone()).or_default();
            *now += 1;
            let crossed = *now > 1;
            seen.crossed |= crossed;
            before
        };
        let _on_its_way = OnItsWay(&self.seen, id);
        match (self.script)(message, before) {
            Step::Answer(sending) => sending,
            Step::Later(after, sending) => {
                tokio::time::sleep(after).await;
                sending
            }
            Step::Panic => panic!("a bug of the sink"),
            Step::Hang => std::future::pending().await,
        }
    }
}
