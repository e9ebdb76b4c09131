//! Publishing: messages, and for each the stream's word that it is stored.

use std::future::IntoFuture;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::header::{HeaderMap, HeaderValue, NATS_MESSAGE_ID};
use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::{HeaderName, Subject};
use async_trait::async_trait;
use onefold_messages::{Message, Sending, Sink, wire};
use tokio::time::{Instant, timeout_at};

/// How long a stream has to store a message: below any lease of a relay's.
const ACCEPT_WITHIN: Duration = Duration::from_secs(5);
/// Messages that are published before their confirmations are waited for.
const BATCH: usize = 250;

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
        let until = Instant::now() + ACCEPT_WITHIN;
        match self.publish(message.clone(), until).await {
            Ok(confirmation) => confirmed(confirmation, until).await,
            Err(sending) => sending,
        }
    }

    fn batch(&self) -> usize {
        BATCH
    }

    async fn send_all(&self, messages: Vec<Message>) -> Vec<Sending> {
        let until = Instant::now() + ACCEPT_WITHIN;
        let mut published = Vec::with_capacity(messages.len());
        for message in messages {
            published.push(self.publish(message, until).await);
        }
        let mut answers = Vec::with_capacity(published.len());
        for confirmation in published {
            answers.push(match confirmation {
                Ok(confirmation) => confirmed(confirmation, until).await,
                Err(sending) => sending,
            });
        }
        answers
    }
}

impl NatsSink {
    /// Puts a message on its way to the server.
    async fn publish(&self, message: Message, until: Instant) -> Result<PublishAckFuture, Sending> {
        if self.context.client().connection_state() != State::Connected {
            return Err(Sending::NotYet { after: None, reason: "not connected: nothing was sent".into() });
        }
        let headers = headers(&message).map_err(|reason| Sending::Refused { reason })?;
        let address = if message.address.is_empty() { self.default_subject.clone() } else { message.address };
        let subject = Subject::from(address);
        if !subject.is_valid() || subject.contains(['*', '>']) {
            return Err(Sending::Refused { reason: "the address is no subject to publish to".into() });
        }
        let publish = self.context.publish_with_headers(subject, headers, message.body.into());
        match timeout_at(until, publish).await {
            Ok(published) => published.map_err(|error| meaning(&error)),
            Err(_) => Err(late()),
        }
    }
}

/// The stream's word.
async fn confirmed(confirmation: PublishAckFuture, until: Instant) -> Sending {
    match timeout_at(until, confirmation.into_future()).await {
        Ok(Ok(_)) => Sending::Accepted,
        Ok(Err(error)) => meaning(&error),
        Err(_) => late(),
    }
}

fn late() -> Sending {
    Sending::Failed { reason: format!("no stream stored it within {ACCEPT_WITHIN:?}") }
}

fn meaning(error: &PublishError) -> Sending {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => {
            Sending::Refused { reason: "larger than the server's max_payload".into() }
        }
        PublishErrorKind::StreamNotFound => Sending::Failed { reason: "no stream takes this subject".into() },
        _ => Sending::Failed { reason: error.to_string() },
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
