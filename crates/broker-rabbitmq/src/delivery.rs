//! One delivery of RabbitMQ, and what it says of itself.

use std::time::Duration;

use async_trait::async_trait;
use lapin::message::Delivery as Raw;
use lapin::options::BasicAckOptions;
use lapin::types::{AMQPValue, ShortString};
use onefold_messages::{Delivery, Inbound, wire};

/// The server's own count, which differs between the deliveries of one message.
const DELIVERY_COUNT: &str = "x-delivery-count";

pub(crate) struct RabbitDelivery {
    /// Without its body, which is in `inbound`.
    raw: Raw,
    inbound: Inbound,
}

impl RabbitDelivery {
    pub(crate) fn new(mut raw: Raw, source: &str) -> RabbitDelivery {
        let headers = lines(&raw);
        let of_broker = raw.properties.message_id().as_ref().map(ShortString::as_str);
        let inbound = Inbound {
            source: source.to_owned(),
            id: wire::id(&headers, of_broker),
            ordering_key: wire::line(&headers, wire::ORDERING_KEY).map(str::to_owned),
            headers,
            body: std::mem::take(&mut raw.data),
        };
        RabbitDelivery { raw, inbound }
    }
}

/// The headers, and under the server's names the properties that say something of the content.
fn lines(raw: &Raw) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for (name, value) in raw.properties.headers().iter().flatten() {
        if name.as_str() != DELIVERY_COUNT {
            push(&mut lines, name.as_str(), value);
        }
    }
    let properties = &raw.properties;
    for (name, value) in [
        (wire::CONTENT_TYPE, properties.content_type()),
        ("content-encoding", properties.content_encoding()),
        ("correlation-id", properties.correlation_id()),
        ("message-id", properties.message_id()),
        ("reply-to", properties.reply_to()),
        ("type", properties.kind()),
        ("app-id", properties.app_id()),
    ] {
        if let Some(value) = value.as_ref().filter(|_| wire::line(&lines, name).is_none()) {
            lines.push((name.to_owned(), value.to_string()));
        }
    }
    lines
}

/// A value as a line, a list as several, and none of what is no text: tables, and bytes.
fn push(lines: &mut Vec<(String, String)>, name: &str, value: &AMQPValue) {
    let text = match value {
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into_owned(),
        AMQPValue::ShortString(text) => text.to_string(),
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::ShortShortInt(value) => value.to_string(),
        AMQPValue::ShortShortUInt(value) => value.to_string(),
        AMQPValue::ShortInt(value) => value.to_string(),
        AMQPValue::ShortUInt(value) => value.to_string(),
        AMQPValue::LongInt(value) => value.to_string(),
        AMQPValue::LongUInt(value) => value.to_string(),
        AMQPValue::LongLongInt(value) => value.to_string(),
        AMQPValue::Float(value) => value.to_string(),
        AMQPValue::Double(value) => value.to_string(),
        AMQPValue::Timestamp(value) => value.to_string(),
        AMQPValue::FieldArray(values) => {
            values.as_slice().iter().for_each(|value| push(lines, name, value));
            return;
        }
        AMQPValue::DecimalValue(_) | AMQPValue::FieldTable(_) | AMQPValue::ByteArray(_) | AMQPValue::Void => {
            return;
        }
    };
    lines.push((name.to_owned(), text));
}

#[async_trait]
impl Delivery for RabbitDelivery {
    fn inbound(&self) -> Inbound {
        self.inbound.clone()
    }

    async fn acknowledge(self) {
        // `false` is no error to the client: the channel is gone, and nothing was sent.
        match self.raw.ack(BasicAckOptions::default()).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!("an acknowledgement came after its channel's end; the message comes again")
            }
            Err(error) => tracing::warn!(%error, "an acknowledgement was lost; the message comes again"),
        }
    }

    /// The server cannot wait, and what is put back overtakes or is overtaken: it is kept.
    async fn postpone(self, _after: Duration) -> Option<RabbitDelivery> {
        Some(self)
    }

    /// Goes back with everything else that is out when the connection is closed: at once and in its order.
    async fn hand_back(self) {}
}
