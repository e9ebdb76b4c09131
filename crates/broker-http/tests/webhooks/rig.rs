//! Messages, a receiver that verifies and keeps ids, and an outbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onefold_broker_http::{HttpSink, KeyForm, Secret};
use onefold_core::retry::Backoff;
use onefold_core::{Key, OutboxEntry, OutboxState};
use onefold_messages::{Destination, Message, Relay};
use onefold_store::OutboxStore;
use onefold_store::clock::ManualClock;
use onefold_store_sqlite::{Options, SqliteStore};
use onefold_testkit::{Seen, TestDirectory, wait};
use onefold_webhooks::{Scheme, Source};

pub const OLD: &str = "whsec_b2xkLW9sZC1vbGQtb2xk";
pub const NEW: &str = "whsec_bmV3LW5ldy1uZXctbmV3";

pub fn secret(text: &str) -> Secret {
    Secret::new(text, KeyForm::Whsec).expect("a secret")
}

pub fn message(id: &str) -> Message {
    Message {
        id: Key::new(id).expect("a key"),
        destination: "hook".into(),
        address: String::new(),
        ordering_key: None,
        headers: vec![("content-type".into(), "application/json".into())],
        body: format!("{{\"order\":\"{id}\"}}").into_bytes(),
    }
}

pub fn sink(url: &str) -> HttpSink {
    HttpSink::new(url, vec![secret(NEW)]).expect("a sink")
}

/// A receiver with one secret: it takes what is signed well, once for each id.
#[derive(Clone)]
pub struct Receiver {
    source: Arc<Source>,
    taken: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Receiver {
    pub fn new(text: &str) -> Receiver {
        let source = Source::new(Scheme::Standard, [secret(text)]);
        Receiver { source: Arc::new(source), taken: Arc::default() }
    }

    /// Whether the delivery is the sender's, noted under its id.
    pub fn takes(&self, seen: &Seen) -> bool {
        let mut headers = http::HeaderMap::new();
        for (name, value) in &seen.headers {
            let name: http::HeaderName = name.parse().expect("a name");
            headers.append(name, http::HeaderValue::from_bytes(value).expect("a value"));
        }
        // clock: a receiver compares the signed time with its own
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let now = i64::try_from(now).expect("not that late");
        let Ok(delivery) = self.source.read(&headers, &seen.body, now) else { return false };
        *self.taken.lock().unwrap().entry(delivery.id.as_str().to_owned()).or_default() += 1;
        true
    }

    /// Ids, and how often each came.
    pub fn taken(&self) -> BTreeMap<String, u32> {
        self.taken.lock().unwrap().clone()
    }
}

pub struct Outbox {
    store: Arc<SqliteStore>,
    pub clock: Arc<ManualClock>,
    _directory: TestDirectory,
}

pub fn outbox() -> Outbox {
    let directory = TestDirectory::create();
    let clock = Arc::new(ManualClock::at(onefold_core::StoreTime(1_700_000_000_000)));
    let options = Options { clock: clock.clone(), ..Options::default() };
    let store = SqliteStore::open(directory.file("onefold.db"), options).expect("a new store opens");
    Outbox { store: Arc::new(store), clock, _directory: directory }
}

impl Outbox {
    pub async fn put(&self, message: Message) {
        assert_eq!(self.store.enqueue(vec![message]).await.expect("the store works"), 1);
    }

    pub fn relay(&self, sink: HttpSink) -> Relay {
        let store: Arc<dyn OutboxStore> = self.store.clone();
        let backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_millis(20) };
        Relay::start(&store, vec![Destination::new("hook", sink).backoff(backoff)])
    }

    pub async fn entry(&self, id: &str) -> OutboxEntry {
        let id = Key::new(id).expect("a key");
        self.store.outgoing(&id).await.expect("the store works").expect("the message is there")
    }

    /// Waits until the message is in this state. The store's time passes meanwhile, so that pauses end.
    pub async fn becomes(&self, id: &str, state: OutboxState) {
        let what = format!("{id} is {state}");
        wait::until_within(wait::DEADLINE, &what, async || {
            self.clock.pass(Duration::from_millis(10));
            self.entry(id).await.state == state
        })
        .await;
    }
}
