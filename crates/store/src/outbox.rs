//! The port of the outbox: messages that are written with the business and leave afterwards.
//!
//! *Promises of an implementation.* A message is found by its state and never by a cursor over numbers: one that is
//! committed late is sent late, not skipped. Its order among those of one ordering key is that of the commits, so the
//! writer holds the key's row until then. Only the first message of an ordering key that is not done is ever given to
//! a relay. No transaction and no lock outlives a call, so nothing is held while a message is sent. Every settlement
//! names the attempt that it settles; one that was superseded changes nothing.

use std::time::Duration;

use async_trait::async_trait;
use onefold_core::{Act, Key, Message, OutboxEntry, OutboxState, StoreTime, printable};

use crate::{Hint, OperationStore, StoreError};

/// A wish for messages to send.
#[derive(Clone, Debug)]
pub struct Take {
    /// Of this destination.
    pub destination: String,
    /// At most this many.
    pub limit: u32,
    /// At most so many bytes of headers and bodies as they are stored, together; the first one whatever its length.
    pub bytes: u64,
    /// How long they are the taker's: longer than a sending takes.
    pub lease: Duration,
    /// What becomes of a message whose relay was lost while it had it.
    pub if_lost: IfLost,
}

/// What follows a relay that was lost between taking a message and settling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfLost {
    /// It is sent again under its id: the destination, or who reads from it, knows the id.
    SendAgain,
    /// It becomes `outcome_unknown`: nobody behind the destination would know it again.
    Hold,
}

/// A message that is this relay's to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The message.
    pub message: Message,
    /// The number of this sending: its fence.
    pub attempt: u32,
    /// Sendings that failed so far.
    pub failures: u32,
    /// Since when it waits.
    pub created_at: StoreTime,
    /// The store's time when it was given.
    pub now: StoreTime,
}

/// How a sending ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The destination has accepted it for good.
    Delivered,
    /// It is to be sent again after this long. Counted: as a failure.
    Again {
        /// From now.
        after: Duration,
        /// Whether it counts as a failure.
        counted: bool,
        /// Why.
        reason: String,
    },
    /// It is given up.
    Dead {
        /// Why.
        reason: String,
    },
    /// It may have been accepted, and must not be sent twice.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// The end of one sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The message.
    pub id: Key,
    /// The attempt that ends.
    pub attempt: u32,
    /// How.
    pub sent: Sent,
}

/// Which messages are listed. Every condition that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct OutboxQuery {
    /// For this destination.
    pub destination: Option<String>,
    /// In this state.
    pub state: Option<OutboxState>,
    /// Under this ordering key.
    pub ordering_key: Option<String>,
    /// Made at least this long ago.
    pub older_than: Option<Duration>,
    /// Where the page before ended.
    pub cursor: Option<i64>,
    /// At most this many, 1 to 1000.
    pub limit: u32,
}

/// One page of messages, oldest first.
#[derive(Clone, Debug, Default)]
pub struct OutboxPage {
    /// The store's time of reading.
    pub now: StoreTime,
    /// The messages.
    pub entries: Vec<OutboxEntry>,
    /// Where the next page begins; `None` at the end.
    pub next_cursor: Option<i64>,
}

/// What a person does with a message that waits for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redrive {
    /// It is sent again under its id.
    SendAgain,
    /// It was accepted.
    Delivered,
    /// It is taken out.
    Discard,
}

/// One act of a person on one message.
#[derive(Clone, Debug)]
pub struct Redriving {
    /// The message.
    pub id: Key,
    /// The attempt after which the person saw it: what was done since is not done twice.
    pub attempt: u32,
    /// What is done.
    pub redrive: Redrive,
    /// Not sent before this long from now: how many at once are paced.
    pub after: Duration,
    /// Who.
    pub who: String,
    /// Why.
    pub reason: String,
}

/// What stands in the outbox for one destination, for gauges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxSurvey {
    /// The destination.
    pub destination: String,
    /// Messages that wait or are being sent.
    pub depth: u64,
    /// Age of the oldest of them.
    pub oldest: Option<Duration>,
    /// Dead letters.
    pub dead: u64,
    /// Messages of which nobody knows whether they were accepted.
    pub unknown: u64,
}

/// Why a message is not made whose id is that of one that goes elsewhere: an id is one message's, wherever it goes, and
/// to pass it over would lose it (decision 0021).
pub fn id_is_taken(id: &Key, destination: &str) -> StoreError {
    let (id, destination) = (printable(id.as_str()), printable(destination));
    StoreError::Refused(format!(
        "the id {id} is that of a message for another place; a message for {destination} needs an id of its own"
    ))
}

/// The outbox of a database.
#[async_trait]
pub trait OutboxStore: OperationStore {
    /// Writes messages in a commit of their own, for those who have no business beside them. One that was made before
    /// is passed over. Returns how many were new.
    ///
    /// An id whose message goes to another destination or address is refused ([`id_is_taken`]); of the others some may
    /// have been made.
    async fn enqueue(&self, messages: Vec<Message>) -> Result<u64, StoreError>;

    /// Gives messages that are due, those that wait longest first; of each ordering key the first only. A sending whose
    /// lease is over is due again, or held, as `if_lost` says; it does not count as a failure.
    async fn take(&self, take: Take) -> Result<Vec<Taken>, StoreError>;

    /// Ends sendings, in one commit. For each, whether it was the attempt that holds the message. As long as nobody
    /// else has acted, the attempt that holds the number may still report after its lease, also on `outcome_unknown`.
    async fn settle_sent(&self, settlements: Vec<Settlement>) -> Result<Vec<bool>, StoreError>;

    /// Ends sendings as [`settle_sent`](OutboxStore::settle_sent) does, then gives messages as
    /// [`take`](OutboxStore::take) does, those included that the ends let go; all in one commit. An error says nothing
    /// of either.
    async fn settle_and_take(
        &self,
        settlements: Vec<Settlement>,
        take: Take,
    ) -> Result<(Vec<bool>, Vec<Taken>), StoreError>;

    /// One message.
    async fn outgoing(&self, id: &Key) -> Result<Option<OutboxEntry>, StoreError>;

    /// Lists messages.
    async fn list_outbox(&self, query: OutboxQuery) -> Result<OutboxPage, StoreError>;

    /// Acts on a message that is `dead` or `outcome_unknown` after this attempt, with an entry in its history. False
    /// when it is not: somebody was there before.
    async fn redrive(&self, redriving: Redriving) -> Result<bool, StoreError>;

    /// What people did to a message, oldest first.
    async fn outbox_acts(&self, id: &Key) -> Result<Vec<Act>, StoreError>;

    /// Deletes messages that are done for longer than `keep`, at most `limit`; returns how many.
    async fn sweep_outbox(&self, keep: Duration, limit: u32) -> Result<u64, StoreError>;

    /// Counts what stands, for each destination that has anything.
    async fn survey_outbox(&self) -> Result<Vec<OutboxSurvey>, StoreError>;

    /// Hints that messages wait, from now on: what this process commits, and perhaps more.
    fn hint(&self) -> Hint;
}
