//! A mail server, mails, and an outbox.

use std::sync::Arc;
use std::time::Duration;

use onefold_broker_smtp::SmtpSink;
use onefold_core::retry::Backoff;
use onefold_core::{Act, Key, OutboxEntry, OutboxState, StoreTime};
use onefold_messages::{Message, Relay};
use onefold_store::clock::ManualClock;
use onefold_store::{OutboxStore, Redrive, Redriving};
use onefold_store_sqlite::{Options, SqliteStore};
use onefold_testkit::{SmtpServer, TestDirectory, wait};

/// Larger than what the system's buffers between two sockets hold.
pub const LARGE_BYTES: usize = 16 * 1024 * 1024;

pub fn sink(server: &SmtpServer) -> SmtpSink {
    SmtpSink::unencrypted("127.0.0.1").port(server.port()).sender("Shop <shop@example.org>").unwrap()
}

pub fn message(id: &str) -> Message {
    Message {
        id: Key::new(id).expect("a key"),
        destination: "mail".into(),
        address: String::new(),
        ordering_key: None,
        headers: vec![("content-type".into(), "application/json".into())],
        body: br#"{"to":["ann@example.org"],"subject":"Your order","text":"Thank you."}"#.to_vec(),
    }
}

pub fn large(id: &str) -> Message {
    let line = [b"x".repeat(990), b"\r\n".to_vec()].concat();
    let mut body = b"From: shop@example.org\r\nTo: ann@example.org\r\nSubject: large\r\n\r\n".to_vec();
    body.extend(line.repeat(LARGE_BYTES / line.len()));
    Message { headers: vec![("content-type".into(), "message/rfc822".into())], body, ..message(id) }
}

pub struct Outbox {
    store: Arc<SqliteStore>,
    pub clock: Arc<ManualClock>,
}

pub fn outbox(directory: &TestDirectory) -> Outbox {
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let options = Options { clock: clock.clone(), ..Options::default() };
    let store = SqliteStore::open(directory.file("onefold.db"), options).expect("a new store opens");
    Outbox { store: Arc::new(store), clock }
}

impl Outbox {
    pub async fn put(&self, message: Message) {
        assert_eq!(self.store.enqueue(vec![message]).await.expect("the store works"), 1);
    }

    pub fn relay(&self, sink: SmtpSink) -> Relay {
        let store: Arc<dyn OutboxStore> = self.store.clone();
        let backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_millis(20) };
        Relay::start(&store, vec![sink.destination("mail").backoff(backoff)])
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

    pub async fn redrive(&self, id: &str, attempt: u32, redrive: Redrive) -> bool {
        let id = Key::new(id).expect("a key");
        let (who, reason) = ("ann".into(), "the mailbox was looked into".into());
        let redriving = Redriving { id, attempt, redrive, after: Duration::ZERO, who, reason };
        self.store.redrive(redriving).await.expect("the store works")
    }

    pub async fn acts(&self, id: &str) -> Vec<Act> {
        self.store.outbox_acts(&Key::new(id).expect("a key")).await.expect("the store works")
    }
}
