//! What a consumer's adapter hands over, and how it settles with its broker.

use std::time::Duration;

use async_trait::async_trait;
use onefold_core::{Fingerprint, Key};

/// A delivery of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// Who sent it: the stream, the queue, the endpoint. Ids are unique to a source only.
    pub source: String,
    /// The id that the sender gave it, if it did. A redelivery under a new id carries the original one, and that
    /// counts.
    pub id: Option<Key>,
    /// Messages of a source under one ordering key are handled one after the other.
    pub ordering_key: Option<String>,
    /// Header lines in their order.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
}

impl Inbound {
    /// A delivery without headers and ordering key.
    ///
    /// # Panics
    /// If the id is no key: empty, blank or longer than 255 bytes.
    pub fn new(source: impl Into<String>, id: &str, body: impl Into<Vec<u8>>) -> Inbound {
        let id = Some(Key::new(id).expect("an id is a key"));
        Inbound { source: source.into(), id, ordering_key: None, headers: Vec::new(), body: body.into() }
    }
}

/// What a source's contract says of a delivery, beside the delivery itself.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// What is significant of it: two deliveries under one id that differ in this are a conflict.
    pub fingerprint: Fingerprint,
    /// The version of what its ordering key names. One that is not newer than what was handled before is marked
    /// `superseded`, and reaches no handler.
    pub version: Option<i64>,
}

/// How a delivery is settled with the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settle {
    /// It is done, now or before, or it is kept in the dead list: the broker may forget it.
    Acknowledge,
    /// It is to be delivered again, not before this long.
    Again {
        /// From now.
        after: Duration,
    },
}

/// Whoever handles deliveries. The adapter waits for the answer before it settles; a delivery that is handed over twice
/// at once is handled once.
#[async_trait]
pub trait Receive: Send + Sync + 'static {
    /// Handles a delivery. Cancellation safe: a dropped future has committed the whole, commits it yet, or leaves
    /// nothing; the delivery comes again.
    async fn receive(&self, inbound: Inbound) -> Settle;
}
