//! Publishing: one message, and the stream's word that it is stored.

use std::time::Duration;

use async_nats::connection::State;
use async_nats::header::{HeaderMap, HeaderValue, NATS_MESSAGE_ID};
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::{HeaderName, Subject};
use async_trait::async_trait;
use onefold_messages::{Message, Sending, Sink, wire};

/// How long a stream has to store a message: below any lease of a relay's.
const ACCEPT_WITHIN: Duration = Duration::from_secs(5);

/// A destination. A message's address is its subject.
#[derive(Clone, Debug)]
pub struct NatsSink {
    context: Context,
    default_subject: String,
}

impl NatsSink {
    /// Publishes over this connection.
    pub fn new(client: async_nats::Client) -> NatsSink {
        NatsSink { context: async_nats::jetstream::new(client), default_subject: String::new() }
    }

    /// The subject of messages without an address. Without it these are refused.
    pub fn default_subject(mut self, subject: impl Into<String>) -> NatsSink {
        self.default_subject = subject.into();
        self
    }
}

#[async_trait]
impl Sink for NatsSink {
    async fn send(&self, message: &Message) -> Sending {
        if self.context.client().connection_state() != State::Connected {
            return Sending::NotYet { after: None, reason: "not connected: nothing was sent".into() };
        }
        let headers = match headers(message) {
            Ok(headers) => headers,
            Err(reason) => return Sending::Refused { reason },
        };
        let address = if message.address.is_empty() { &self.default_subject } else { &message.address };
        let subject = Subject::from(address.as_str());
        if !subject.is_valid() || address.contains(['*', '>']) {
            return Sending::Refused { reason: "the address is no subject to publish to".into() };
        }
        let accepted = async {
            let body = message.body.clone().into();
            self.context.publish_with_headers(subject, headers, body).await?.await
        };
        match tokio::time::timeout(ACCEPT_WITHIN, accepted).await {
            Ok(Ok(_)) => Sending::Accepted,
            Ok(Err(error)) => match error.kind() {
                PublishErrorKind::MaxPayloadExceeded => {
                    Sending::Refused { reason: "larger than the server's max_payload".into() }
                }
                PublishErrorKind::StreamNotFound => {
                    Sending::Failed { reason: "no stream takes this subject".into() }
                }
                _ => Sending::Failed { reason: error.to_string() },
            },
            Err(_) => Sending::Failed { reason: format!("no stream stored it within {ACCEPT_WITHIN:?}") },
        }
    }
}

fn headers(message: &Message) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in wire::lines(message) {
        let refused = || format!("the header {name:?} cannot be sent over NATS");
        let value: HeaderValue = value.parse().map_err(|_| refused())?;
        headers.append(name.parse::<HeaderName>().map_err(|_| refused())?, value);
    }
    let id =
        message.id.as_str().parse::<HeaderValue>().map_err(|_| "the id cannot be a header".to_owned())?;
    headers.insert(NATS_MESSAGE_ID, id);
    Ok(headers)
}
