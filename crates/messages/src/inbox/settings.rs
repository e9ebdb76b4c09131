//! What a consumer promises of its messages.

use onefold_core::contract::Retention;
use onefold_core::key::KeyTime;
use onefold_core::retry::Backoff;

use crate::limits::{PARK_AFTER, RETENTION};

/// What becomes of a message that has no id of its sender's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutId {
    /// It reaches no handler: it is parked, under an id made from its content, for a person.
    #[default]
    Park,
    /// Its id is made from its content. Only where two messages with one body mean one thing.
    FromContent,
}

/// How a consumer handles its messages.
#[derive(Clone, Debug)]
pub struct InboxSettings {
    /// Its name: one for all replicas and builds of one handler. Part of a message's identity.
    pub consumer: String,
    /// The build of the handler, for the question which messages it handled, and for permits.
    pub build: String,
    /// How long a handled message is known: longer than anybody may deliver it again.
    pub retention: Retention,
    /// Which ids carry a time: one that says itself that it is older than the retention is parked.
    pub key_time: KeyTime,
    /// What becomes of a message without an id.
    pub without_id: WithoutId,
    /// Tries that may fail before a message is parked; `None` is no end.
    pub park_after: Option<u32>,
    /// The pauses between tries that failed.
    pub backoff: Backoff,
    /// Whether the bodies of handled messages are kept as long as their marks, so that a permitted build can handle
    /// them again from here.
    pub keep_bodies: bool,
}

impl InboxSettings {
    /// Marks for 7 days, parked after 10 failures, pauses of up to 1 s that grow to 30 s, messages without an id
    /// parked, no bodies kept.
    pub fn new(consumer: impl Into<String>) -> InboxSettings {
        InboxSettings {
            consumer: consumer.into(),
            build: "unnamed".into(),
            retention: Retention::For(RETENTION),
            key_time: KeyTime::default(),
            without_id: WithoutId::default(),
            park_after: Some(PARK_AFTER),
            backoff: Backoff::default(),
            keep_bodies: false,
        }
    }
}

impl From<&str> for InboxSettings {
    fn from(consumer: &str) -> InboxSettings {
        InboxSettings::new(consumer)
    }
}
