//! One delivery of Kafka: settled by noting its offset, which is committed with those around it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_messages::{Delivery, Inbound, wire};
use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers};

use crate::offsets::Offsets;

pub(crate) struct KafkaDelivery {
    inbound: Inbound,
    offsets: Arc<Offsets>,
    partition: i32,
    offset: i64,
}

impl KafkaDelivery {
    pub(crate) fn new(message: &BorrowedMessage<'_>, source: &str, offsets: &Arc<Offsets>) -> KafkaDelivery {
        let mut headers = Vec::new();
        for header in message.headers().iter().flat_map(|headers| headers.iter()) {
            let value = String::from_utf8_lossy(header.value.unwrap_or_default()).into_owned();
            headers.push((header.key.to_owned(), value));
        }
        let key = message.key().map(|key| String::from_utf8_lossy(key).into_owned());
        let inbound = Inbound {
            source: source.to_owned(),
            id: wire::id(&headers, None),
            ordering_key: wire::line(&headers, wire::ORDERING_KEY).map(str::to_owned).or(key),
            headers,
            body: message.payload().unwrap_or_default().to_vec(),
        };
        let (partition, offset) = (message.partition(), message.offset());
        offsets.give(partition, offset);
        KafkaDelivery { inbound, offsets: offsets.clone(), partition, offset }
    }
}

#[async_trait]
impl Delivery for KafkaDelivery {
    fn inbound(&self) -> Inbound {
        self.inbound.clone()
    }

    async fn acknowledge(self) {
        self.offsets.settle(self.partition, self.offset);
    }

    /// Kafka delivers nothing a second time while it is read on: it is kept.
    async fn postpone(self, _after: Duration) -> Option<KafkaDelivery> {
        Some(self)
    }

    /// Its offset is not committed, so whoever has the partition next gets it.
    async fn hand_back(self) {}
}
