//! What a destination is to the relay.

use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use onefold_core::Message;
use onefold_store::IfLost;

/// How a sending ended, as the destination's protocol tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sending {
    /// It was accepted for good: confirmed, stored, acknowledged. Nothing less.
    Accepted,
    /// The destination asks for patience. Not a failure; the relay chooses the pause where none is given.
    NotYet {
        /// As long as it asks.
        after: Option<Duration>,
        /// Why.
        reason: String,
    },
    /// It was not accepted, or the answer was lost and sending again under the same id is harmless.
    Failed {
        /// Why.
        reason: String,
    },
    /// It will never be accepted as it is: it is given up at once.
    Refused {
        /// Why.
        reason: String,
    },
    /// It may have been accepted, and nobody behind the destination would know it again: it is held, never sent again
    /// by itself.
    Unknown {
        /// Why.
        reason: String,
    },
}

impl Sending {
    /// An answer was lost, or does not say whether the message was accepted.
    pub fn lost(reason: impl Into<String>, if_lost: IfLost) -> Sending {
        let reason = reason.into();
        match if_lost {
            IfLost::SendAgain => Sending::Failed { reason },
            IfLost::Hold => Sending::Unknown { reason },
        }
    }
}

/// A destination.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// What becomes of a message whose relay was lost while it was sending it here.
    fn if_lost(&self) -> IfLost {
        IfLost::SendAgain
    }

    /// Sends one message and waits until the destination has accepted it. Called for several messages at once, but for
    /// one at a time of an ordering key. The message's id goes with it, in the place where the protocol keeps ids.
    ///
    /// It bounds its own waiting: the relay drops the future when the lease is nearly over, and then it counts as the
    /// answer that was lost. Reasons name no body and no secret.
    async fn send(&self, message: &Message) -> Sending;

    /// How many messages are handed over at once, to [`Sink::send_all`]: more than one where many are confirmed as
    /// quickly as one. A relay settles all of them when the last one is answered.
    fn batch(&self) -> usize {
        1
    }

    /// Sends several messages, no two of one ordering key, as [`Sink::send`] sends one: all at once, unless the sink
    /// knows a better way. An answer for each, in order.
    async fn send_all(&self, messages: Vec<Message>) -> Vec<Sending> {
        join_all(messages.iter().map(|message| self.send(message))).await
    }
}
