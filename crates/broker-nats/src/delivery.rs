//! One delivery of JetStream: kept alive while it is ours, and settled by request, so that the server says that it has
//! the word. A late acknowledgement is taken as kindly as one in time: nothing here relies on it.

use std::time::Duration;

use async_nats::jetstream::{AckKind, Message};
use async_nats::{Client, Subject};
use async_trait::async_trait;
use onefold_messages::{Delivery, Inbound, wire};
use tokio::task::AbortHandle;

pub(crate) struct NatsDelivery {
    client: Client,
    inbound: Inbound,
    /// Where it is settled.
    place: Subject,
    heart: Heart,
}

/// Tells the server that the delivery is still being worked on, until it is dropped.
struct Heart(AbortHandle);

impl Drop for Heart {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl NatsDelivery {
    /// `None` where it is no delivery of a consumer's.
    pub(crate) fn new(message: Message, source: &str, ack_wait: Duration) -> Option<NatsDelivery> {
        let client = message.context.client();
        let place = message.reply.clone()?;
        let mut headers = Vec::new();
        for (name, values) in message.headers.iter().flat_map(|headers| headers.iter()) {
            headers.extend(values.iter().map(|value| (name.to_string(), value.as_str().to_owned())));
        }
        // They lie in a map, whose order says nothing.
        headers.sort();
        let inbound = Inbound {
            source: source.to_owned(),
            id: wire::id(&headers, wire::line(&headers, "Nats-Msg-Id")),
            ordering_key: wire::line(&headers, wire::ORDERING_KEY).map(str::to_owned),
            headers,
            body: message.payload.to_vec(),
        };
        let (of_heart, where_to) = (client.clone(), place.clone());
        let heart = tokio::spawn(async move {
            loop {
                tokio::time::sleep(ack_wait / 3).await;
                if of_heart.publish(where_to.clone(), AckKind::Progress.into()).await.is_err() {
                    return;
                }
            }
        });
        Some(NatsDelivery { client, inbound, place, heart: Heart(heart.abort_handle()) })
    }

    async fn settle(self, kind: AckKind) {
        let NatsDelivery { client, place, heart, .. } = self;
        drop(heart);
        if let Err(error) = client.request(place, kind.into()).await {
            tracing::warn!(%error, "a settlement was not confirmed; the message comes again");
        }
    }
}

#[async_trait]
impl Delivery for NatsDelivery {
    fn inbound(&self) -> Inbound {
        self.inbound.clone()
    }

    async fn acknowledge(self) {
        self.settle(AckKind::Ack).await;
    }

    async fn postpone(self, after: Duration) -> Option<NatsDelivery> {
        self.settle(AckKind::Nak(Some(after))).await;
        None
    }

    async fn hand_back(self) {
        self.settle(AckKind::Nak(None)).await;
    }
}
