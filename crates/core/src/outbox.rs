//! A message on its way out: what it carries and where it stands.
//!
//! A message has one id for good, made with it and carried by every delivery. A delivery may be made several times;
//! the id is what makes that harmless, so nothing here ever changes it.

use std::fmt;
use std::str::FromStr;

use crate::key::Key;
use crate::{IdentityKey, OperationId, StoreTime, digest::Parts, to_hex};

/// A message that is to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its id, the same in every delivery. A second message under one id is not made.
    pub id: Key,
    /// The name of a configured destination.
    pub destination: String,
    /// Where at the destination: a subject, a topic, an exchange and routing key, a path, a mailbox. May be empty where
    /// the destination is one place.
    pub address: String,
    /// Messages of one destination under one ordering key leave in the order in which they were committed.
    pub ordering_key: Option<String>,
    /// Header lines beside those that every message carries (`docs/messages.md`).
    pub headers: Vec<(String, String)>,
    /// What is sent, byte for byte.
    pub body: Vec<u8>,
}

/// The id of the one message for an effect: the same whichever event asks for it.
pub fn effect_message_id(effect: &str, secret: &IdentityKey) -> Key {
    let mut parts = Parts::new("onefold/effect-message/1", secret.bytes());
    parts.part(effect.as_bytes());
    Key::new(to_hex(&parts.finish())).expect("hex digits are a key")
}

/// The digest of a message's id: what its sealed form and the lease of its sending are bound to.
pub fn outgoing_id(id: &Key, secret: &IdentityKey) -> OperationId {
    let mut parts = Parts::new("onefold/outgoing/1", secret.bytes());
    parts.part(id.as_str().as_bytes());
    OperationId::from_bytes(parts.finish())
}

/// Where a message on its way out stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutboxState {
    /// It is to be sent, now or later.
    Waiting,
    /// A relay has it under a lease.
    Sending,
    /// The destination has accepted it.
    Delivered,
    /// Given up: a dead letter that waits for a person. It holds up the later messages of its ordering key.
    Dead,
    /// It may have been accepted and must not be sent twice: it waits for a look-up or a person, and holds up its
    /// ordering key likewise.
    Unknown,
    /// A person has taken it out. It holds up nothing.
    Discarded,
}

impl OutboxState {
    /// Every state.
    pub const ALL: [OutboxState; 6] = [
        OutboxState::Waiting,
        OutboxState::Sending,
        OutboxState::Delivered,
        OutboxState::Dead,
        OutboxState::Unknown,
        OutboxState::Discarded,
    ];

    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            OutboxState::Waiting => "waiting",
            OutboxState::Sending => "sending",
            OutboxState::Delivered => "delivered",
            OutboxState::Dead => "dead",
            OutboxState::Unknown => "outcome_unknown",
            OutboxState::Discarded => "discarded",
        }
    }

    /// Whether nothing is to be sent any more and nothing is asked of a person.
    pub const fn is_done(self) -> bool {
        matches!(self, OutboxState::Delivered | OutboxState::Discarded)
    }
}

impl fmt::Display for OutboxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No state has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no state of an outgoing message is called that; the states are waiting, sending, delivered, dead, outcome_unknown and discarded"
)]
pub struct NotAnOutboxState;

impl FromStr for OutboxState {
    type Err = NotAnOutboxState;
    fn from_str(text: &str) -> Result<OutboxState, NotAnOutboxState> {
        OutboxState::ALL.into_iter().find(|state| state.name() == text).ok_or(NotAnOutboxState)
    }
}

/// A row of the outbox as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxEntry {
    /// The message.
    pub message: Message,
    /// Where it stands.
    pub state: OutboxState,
    /// The number of the latest sending: its fence.
    pub attempt: u32,
    /// Sendings that failed since it was made or redriven.
    pub failures: u32,
    /// When it was committed, or nearly.
    pub created_at: StoreTime,
    /// When it is to be sent again, while it waits.
    pub due_at: Option<StoreTime>,
    /// When it came into its state.
    pub ended_at: Option<StoreTime>,
    /// Why it is in its state: the last failure, or what a person said.
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_misspells_a_state_is_told_all_of_them() {
        let said = "parked".parse::<OutboxState>().unwrap_err().to_string();
        assert!(OutboxState::ALL.iter().all(|state| said.contains(state.name())), "{said}");
    }
}
