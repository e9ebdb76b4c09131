//! The port of the inbox: the mark of a message and its local effect in one commit.
//!
//! *Promises of an implementation.* `(id, round)` is unique, and the judge. Where a row stands under it that is not
//! `failing` under the same fingerprint, nothing is run and nothing is written: the entries are handed back, and what
//! they mean is `judge_delivery`'s to say; a row of a later round stands in the way likewise. Otherwise the effect
//! and the mark are committed together or not at all. The records of failures and of dead letters are commits of
//! their own. The mark of a later round stays no shorter than those before it, so that no permit lets a message
//! through twice.

use std::time::Duration;

use async_trait::async_trait;
use onefold_core::contract::Retention;
use onefold_core::{
    Act, Fingerprint, FingerprintBuilder, IdentityKey, InboxEntry, InboxState, Kept, Key, Message,
    MessageIdentity, OperationId, Permit, StoreTime, TypedValue,
};

use crate::{AtomicStore, Ended, Finish, OperationStore, StoreError};

/// The mark that a handled message leaves.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The digest of the identity.
    pub id: OperationId,
    /// 0, or the number of the permit that lets it through again.
    pub round: u32,
    /// Who the message is.
    pub identity: MessageIdentity,
    /// The build of the handler.
    pub handler: String,
    /// What was sent.
    pub fingerprint: Fingerprint,
    /// How long the mark stays. A mark whose message waits in a dead list stays as long as that.
    pub retention: Retention,
    /// Refuse from this time on where no mark stands: the message says itself that it is older than the marks.
    pub too_old_at: Option<StoreTime>,
    /// The body, where it is to be kept, so that it can be handled again from here.
    pub body: Option<KeptMessage>,
    /// With a version, there is an effect only where it is newer than what the entity had; otherwise the mark says
    /// `superseded`. In a later round its own version counts as newer: a message does not supersede itself.
    pub versioned: Option<Versioned>,
}

/// A message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessage {
    /// Header lines in their order.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
}

/// The entity that a message is about, and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// Of all messages of a consumer and source that are about one thing.
    pub entity: String,
    /// Grows with each change. Of two messages with one version the first counts.
    pub version: i64,
}

impl Versioned {
    /// The digest of the entity, for messages of this consumer and source.
    pub fn digest(&self, of: &MessageIdentity, secret: &IdentityKey) -> [u8; 32] {
        let entity = FingerprintBuilder::new(secret)
            .part("consumer", of.consumer.as_bytes())
            .part("source", of.source.as_bytes())
            .part("entity", self.entity.as_bytes());
        entity.finish().digest
    }
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consumed {
    /// Effect and mark are durable, in this state: `processed`, `rejected` or `superseded`.
    Done {
        /// The store's time of the commit.
        now: StoreTime,
        /// What the mark says.
        state: InboxState,
    },
    /// The handler said that nothing is done; nothing was written.
    NotDone,
    /// The handler panicked or was stopped by the store; nothing was written.
    Stopped(String),
    /// Others were faster at the database; nothing was written, and it may be asked again.
    Contended(String),
    /// There are entries that stand in the way: all of this identity. Nothing was written.
    Found {
        /// The store's time.
        now: StoreTime,
        /// In the order of their rounds; not empty.
        entries: Vec<InboxEntry>,
    },
    /// No mark stands and the message says itself that it is too old. Nothing was written.
    TooOld {
        /// The store's time.
        now: StoreTime,
    },
}

/// A failure of a handler.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The mark of the message that failed; its body is what a dead letter keeps.
    pub mark: Mark,
    /// Why.
    pub reason: String,
    /// Park it when it has failed this often, this time included.
    pub park_after: Option<u32>,
}

/// A dead letter that a person lets go on.
#[derive(Clone, Debug)]
pub struct Unparking {
    /// The message.
    pub id: OperationId,
    /// The round in which it is parked.
    pub round: u32,
    /// Not handled from its kept body before this long from now: how many at once are paced.
    pub after: Duration,
    /// Who.
    pub who: String,
    /// Why.
    pub reason: String,
}

/// Which entries are listed. Every condition that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct InboxQuery {
    /// Of this consumer.
    pub consumer: Option<String>,
    /// From this source.
    pub source: Option<String>,
    /// In this state.
    pub state: Option<InboxState>,
    /// Handled by this build.
    pub handler: Option<String>,
    /// Under this id of the sender's.
    pub message: Option<Key>,
    /// With conflicts only.
    pub conflicts: bool,
    /// Where the page before ended.
    pub cursor: Option<i64>,
    /// At most this many, 1 to 1000.
    pub limit: u32,
}

/// One page of entries, oldest first.
#[derive(Clone, Debug, Default)]
pub struct InboxPage {
    /// The store's time of reading.
    pub now: StoreTime,
    /// The entries.
    pub entries: Vec<InboxEntry>,
    /// Where the next page begins; `None` at the end.
    pub next_cursor: Option<i64>,
}

/// A permit that is asked for. The store gives the number and the time.
#[derive(Clone, Debug)]
pub struct NewPermit {
    /// For this consumer.
    pub consumer: String,
    /// Only messages of this source.
    pub source: Option<String>,
    /// Only messages that this build handled last.
    pub damaged: Option<String>,
    /// Only by this build.
    pub handler: Option<String>,
    /// Only this message.
    pub message: Option<Key>,
    /// Who grants it.
    pub who: String,
    /// Why.
    pub reason: String,
}

/// What stands in the inbox, for gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxSurvey {
    /// Messages that fail.
    pub failing: u64,
    /// Dead letters.
    pub parked: u64,
    /// Age of the oldest dead letter.
    pub parked_oldest: Option<Duration>,
    /// How long the mark that waits longest for the sweeper has been due.
    pub sweep_lag: Duration,
}

/// The inbox of a database, for effects that are outgoing messages.
#[async_trait]
pub trait InboxStore: OperationStore {
    /// Makes the mark together with these outgoing messages: the local effect of a webhook that is forwarded.
    async fn accept(&self, mark: Mark, messages: Vec<Message>) -> Result<Consumed, StoreError>;

    /// Every entry of an identity, in the order of the rounds.
    async fn entries(&self, id: OperationId) -> Result<Vec<InboxEntry>, StoreError>;

    /// Lists entries.
    async fn list_inbox(&self, query: InboxQuery) -> Result<InboxPage, StoreError>;

    /// The message that an entry keeps.
    async fn kept_message(&self, id: OperationId, round: u32) -> Result<Option<KeptMessage>, StoreError>;

    /// Notes a failure. Returns the entry as it then stands: `failing` or `parked`. One that is done, parked or of
    /// another fingerprint stays as it is.
    async fn fail(&self, failure: Failure) -> Result<InboxEntry, StoreError>;

    /// Counts deliveries that found a message done, and deliveries of something else under its id.
    async fn count_deliveries(
        &self,
        counts: Vec<(OperationId, u32, DeliveryCounts)>,
    ) -> Result<(), StoreError>;

    /// A parked entry is `failing` again with no failures, so that the next delivery, or its kept body when it is due, is
    /// handled. False when it is not parked: it has been redriven before, or is done.
    async fn unpark(&self, unparking: Unparking) -> Result<bool, StoreError>;

    /// What people did to a message, oldest first.
    async fn inbox_acts(&self, id: OperationId) -> Result<Vec<Act>, StoreError>;

    /// Writes a permit.
    async fn grant_permit(&self, permit: NewPermit) -> Result<Permit, StoreError>;

    /// The permits of a consumer, or of all, by number.
    async fn permits(&self, consumer: Option<&str>) -> Result<Vec<Permit>, StoreError>;

    /// Ends a permit. False when there is none that is alive.
    async fn revoke_permit(&self, number: u32, who: &str, reason: &str) -> Result<bool, StoreError>;

    /// Deletes entries whose time is over, at most `limit`; returns how many. `failing` and `parked` ones never
    /// expire, and one that made outgoing messages stays until these are done: its dead letters may be sent again.
    async fn sweep_inbox(&self, limit: u32) -> Result<u64, StoreError>;

    /// Forgets the versions of entities whose latest message has no mark any longer, and the notes of versions that
    /// came too late when neither mark nor record of what brought them stands. Looks at `limit` of each at most, from
    /// a place that moves on with each call, so that calls in a row come to all of them; returns how many are
    /// forgotten.
    async fn sweep_versions(&self, limit: u32) -> Result<u64, StoreError>;

    /// Counts what stands.
    async fn survey_inbox(&self) -> Result<InboxSurvey, StoreError>;
}

/// What is added to an entry's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Deliveries that found it done.
    pub duplicates: u64,
    /// Deliveries of something else.
    pub conflicts: u64,
}

/// A store whose database also holds the rows of the business, for handlers that are closures.
#[async_trait]
pub trait ConsumeStore: AtomicStore + InboxStore {
    /// Runs the handler in one transaction with the mark, unless the message is superseded. `Finish::Succeeded` leaves the mark `processed`;
    /// `Finish::Rejected` undoes the handler's writes and leaves the mark `rejected`, with the reason of a
    /// [`refusal`]. What else the handler says to be kept is not: an inbox gives no answers. Errors and cancellation
    /// are as in [`AtomicStore::atomically`].
    async fn consume(&self, mark: Mark, work: &mut Self::Work) -> Result<Consumed, StoreError>;
}

/// The end of a handler that refuses its message for good.
pub fn refusal(reason: &str) -> Ended {
    let json = serde_json::to_vec(reason).expect("a text can be written as JSON");
    let kept = Kept::Value(TypedValue { version: 1, json });
    Ended::Finished { finish: Finish::Rejected, kept, resource: None }
}

/// The reason that a [`refusal`] takes to the mark.
pub fn reason_of(kept: &Kept) -> Option<String> {
    let Kept::Value(value) = kept else { return None };
    serde_json::from_slice(&value.json).ok()
}
