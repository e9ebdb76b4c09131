//! Messages on their way out: written in the transaction of the business, sent afterwards by a relay
//! (`docs/messages.md`).
//!
//! A closure of atomic mode writes them with [`SqliteTx::enqueue`](crate::SqliteTx::enqueue), or one for each effect
//! with [`enqueue_once`](crate::SqliteTx::enqueue_once); on PostgreSQL (feature `postgres`) `PostgresTx` has the same
//! two, and `Onefold::enqueue` writes them in a transaction of the caller's. [`Onefold::relay`] starts what sends
//! them, each to the [`Sink`] of its destination, always under one id. [`Onefold::messages`] is for what people do:
//! look, send again what was given up, settle what is unknown, have messages that came in handled again.

use std::sync::Arc;

pub use async_trait::async_trait;
pub use onefold_core::{OutboxEntry, OutboxState};
pub use onefold_messages::wire::{CAUSATION_ID, CORRELATION_ID, MESSAGE_ID, ORDERING_KEY, TRACEPARENT};
pub use onefold_messages::{
    ActError, ActOnIncoming, ActOnOutgoing, Acted, Destination, HandleAgain, IfLost, Message, Messages,
    Order, Relay, Sending, Sink, Which, WhichIncoming,
};
pub use onefold_store::{OutboxQuery, OutboxStore, Redrive};

use onefold_store::InboxStore;

use crate::{AtomicStore, Onefold};

impl<S: AtomicStore + OutboxStore> Onefold<S> {
    /// Starts a relay over this database's outbox, with a loop for each destination. Any number of processes may run
    /// one. Must be called within a tokio runtime; dropped, the relay stops.
    pub fn relay(&self, destinations: Vec<Destination>) -> Relay {
        let store: Arc<dyn OutboxStore> = self.store().clone();
        Relay::start(&store, destinations)
    }

    /// The messages of this database, in and out, for people: what waits, dead letters, permits.
    pub fn messages(&self) -> Messages
    where
        S: InboxStore,
    {
        Messages::new(self.store().clone())
    }
}
