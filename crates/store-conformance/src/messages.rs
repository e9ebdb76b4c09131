//! A store with a table of a business beside it, for the behaviours of outbox and inbox.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use onefold_core::contract::Retention;
use onefold_core::{
    Delivery, InboxEntry, InboxState, Key, Message, MessageIdentity, OutboxState, judge_delivery,
};
use onefold_store::clock::ManualClock;
use onefold_store::{
    Applied, ConsumeStore, Consumed, Ended, Failure, IfLost, Mark, OperationStore, OutboxStore, Redrive,
    Redriving, Sent, Settlement, Take, Taken, Versioned,
};
use parking_lot::Mutex;

use crate::fixture::fingerprint;

type Reading = Pin<Box<dyn Future<Output = Vec<String>> + Send>>;

/// The lease of a sending.
pub const SENDING: Duration = Duration::from_secs(30);
/// The one entity whose versions handlers ask about.
pub const ENTITY: &str = "product-7";
/// How long marks stay.
pub const DAY: Duration = Duration::from_secs(24 * 3600);

/// What a handler of a test does: it inserts a row, makes a message, and ends.
#[derive(Clone)]
pub struct Handler {
    /// The row that it inserts.
    pub row: Option<String>,
    /// The message that it makes.
    pub message: Option<Message>,
    /// The effect that the message is the one of.
    pub effect: Option<String>,
    /// The versions of the one entity that it asks about, in this order.
    pub versions: Vec<i64>,
    end: Arc<dyn Fn() -> Ended + Send + Sync>,
    made: Arc<Mutex<Vec<bool>>>,
    told: Arc<Mutex<Vec<Applied>>>,
}

impl Handler {
    /// One that does nothing and ends so.
    pub fn new(end: impl Fn() -> Ended + Send + Sync + 'static) -> Handler {
        let (row, message, effect, versions) = (None, None, None, Vec::new());
        let (made, told) = (Arc::default(), Arc::default());
        Handler { row, message, effect, versions, end: Arc::new(end), made, told }
    }

    /// It inserts this row.
    pub fn row(self, row: &str) -> Handler {
        Handler { row: Some(row.into()), ..self }
    }

    /// It makes this message.
    pub fn message(self, message: Message) -> Handler {
        Handler { message: Some(message), ..self }
    }

    /// The message is the one of this effect.
    pub fn effect(self, effect: &str) -> Handler {
        Handler { effect: Some(effect.into()), ..self }
    }

    /// It asks whether this version of [`ENTITY`] is to be applied, behind those that it asks about already.
    pub fn version(mut self, version: i64) -> Handler {
        self.versions.push(version);
        self
    }

    /// Whether the message was new, in this run.
    pub fn noted(&self, made: bool) {
        self.made.lock().push(made);
    }

    /// What became of the next version, in this run.
    pub fn applied(&self, applied: Applied) {
        self.told.lock().push(applied);
    }

    /// What became of the versions, in the latest run.
    pub fn told(&self) -> Vec<Applied> {
        let told = self.told.lock();
        told[told.len().saturating_sub(self.versions.len())..].to_vec()
    }

    /// The end of one run. May panic.
    pub fn end(&self) -> Ended {
        (self.end)()
    }

    /// Whether the message was new, for each run.
    pub fn made(&self) -> Vec<bool> {
        self.made.lock().clone()
    }
}

/// A store that was made for one test, with the business beside it.
pub struct Shop<S: ConsumeStore + OutboxStore> {
    /// The store.
    pub store: Arc<S>,
    /// The work of a handler.
    pub work: Box<dyn Fn(Handler) -> S::Work + Send + Sync>,
    /// The rows that are committed, in order.
    pub rows: Box<dyn Fn() -> Reading + Send + Sync>,
    /// What must outlive it.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// A shop under test.
pub struct Messages<S: ConsumeStore + OutboxStore> {
    /// The store.
    pub store: Arc<S>,
    /// Its clock.
    pub clock: Arc<ManualClock>,
    work: Box<dyn Fn(Handler) -> S::Work + Send + Sync>,
    rows: Box<dyn Fn() -> Reading + Send + Sync>,
    // After the store, so that the store is dropped first.
    _keep: Box<dyn Any + Send + Sync>,
}

impl<S: ConsumeStore + OutboxStore> Messages<S> {
    /// An empty store that was made to live by this clock.
    pub fn new(made: Shop<S>, clock: Arc<ManualClock>) -> Messages<S> {
        let Shop { store, work, rows, keep } = made;
        Messages { store, clock, work, rows, _keep: keep }
    }

    /// Makes messages; says how many were new.
    pub async fn enqueue(&self, messages: &[Message]) -> u64 {
        self.store.enqueue(messages.to_vec()).await.expect("the store works")
    }

    /// What is given to a relay.
    pub async fn take(&self, if_lost: IfLost) -> Vec<Taken> {
        let take = Take { destination: "shop".into(), limit: 10, bytes: u64::MAX, lease: SENDING, if_lost };
        self.store.take(take).await.expect("the store works")
    }

    /// The ids of what is given.
    pub async fn ids(&self) -> Vec<String> {
        let taken = self.take(IfLost::SendAgain).await;
        taken.iter().map(|taken| taken.message.id.as_str().to_owned()).collect()
    }

    /// Ends a sending.
    pub async fn settle(&self, id: &str, attempt: u32, sent: Sent) -> bool {
        let settlement = Settlement { id: key(id), attempt, sent };
        self.store.settle_sent(vec![settlement]).await.expect("the store works")[0]
    }

    /// A person acts.
    pub async fn redrive(&self, id: &str, attempt: u32, redrive: Redrive) -> bool {
        let (who, reason) = ("ann".into(), "it is up again".into());
        let redriving = Redriving { id: key(id), attempt, redrive, after: Duration::ZERO, who, reason };
        self.store.redrive(redriving).await.expect("the store works")
    }

    /// Where a message stands; `None`: it was not made.
    pub async fn state(&self, id: &str) -> Option<OutboxState> {
        self.store.outgoing(&key(id)).await.expect("the store works").map(|entry| entry.state)
    }

    /// Whether a message was made.
    pub async fn is_made(&self, id: &str) -> bool {
        self.state(id).await.is_some()
    }

    /// A mark for this message.
    pub fn mark(&self, message: &str, round: u32, handler: &str) -> Mark {
        mark_under(&*self.store, message, round, handler)
    }

    /// Accepts a message that brings these about.
    pub async fn accept(&self, mark: &Mark, messages: &[&str]) -> Consumed {
        self.accept_version(mark, None, messages).await
    }

    /// Accepts a message about a version of the one entity.
    pub async fn accept_version(&self, mark: &Mark, version: Option<i64>, messages: &[&str]) -> Consumed {
        let versioned = version.map(|version| Versioned { entity: ENTITY.into(), version });
        let messages = messages.iter().map(|id| message(id, None)).collect();
        self.store.accept(Mark { versioned, ..mark.clone() }, messages).await.expect("the store works")
    }

    /// Notes a failure.
    pub async fn fail(&self, mark: &Mark, park_after: u32) -> InboxEntry {
        let failure = Failure { mark: mark.clone(), reason: "busy".into(), park_after: Some(park_after) };
        self.store.fail(failure).await.expect("the store works")
    }

    /// What a delivery may do.
    pub async fn judge(&self, mark: &Mark) -> Delivery {
        let entries = self.entries(mark).await;
        let permits = self.store.permits(Some("loyalty")).await.expect("the store works");
        judge_delivery(&entries, &mark.fingerprint, &mark.handler, &permits)
    }

    /// What stands of a message.
    pub async fn entries(&self, mark: &Mark) -> Vec<InboxEntry> {
        self.store.entries(mark.id).await.expect("the store works")
    }

    /// Handles a message.
    pub async fn consume(&self, mark: &Mark, handler: &Handler) -> Consumed {
        let mut work = (self.work)(handler.clone());
        self.store.consume(mark.clone(), &mut work).await.expect("the store works")
    }

    /// Handles it again where others came between.
    pub async fn consume_in_the_end(&self, mark: &Mark, handler: &Handler) -> Consumed {
        loop {
            match self.consume(mark, handler).await {
                Consumed::Contended(_) => {}
                consumed => return consumed,
            }
        }
    }

    /// A work that does what the handler says.
    pub fn work(&self, handler: &Handler) -> S::Work {
        (self.work)(handler.clone())
    }

    /// The committed rows of the business.
    pub async fn rows(&self) -> Vec<String> {
        (self.rows)().await
    }
}

/// A mark for this message in this store.
pub fn mark_under(store: &impl OperationStore, message: &str, round: u32, handler: &str) -> Mark {
    let identity =
        MessageIdentity { consumer: "loyalty".into(), source: "shop".into(), message: key(message) };
    Mark {
        id: identity.id(store.identity_key()),
        round,
        identity,
        handler: handler.into(),
        fingerprint: fingerprint("a"),
        retention: Retention::For(DAY),
        too_old_at: None,
        body: None,
        versioned: None,
    }
}

/// An id.
pub fn key(id: &str) -> Key {
    Key::new(id).expect("tests use valid keys")
}

/// A message for the one destination.
pub fn message(id: &str, ordering_key: Option<&str>) -> Message {
    Message {
        id: key(id),
        destination: "shop".into(),
        address: "orders".into(),
        ordering_key: ordering_key.map(Into::into),
        headers: vec![("content-type".into(), "text/plain".into())],
        body: b"a body".to_vec(),
    }
}

/// Whether effect and mark are durable.
pub fn is_processed(consumed: &Consumed) -> bool {
    matches!(consumed, Consumed::Done { state: InboxState::Processed, .. })
}
