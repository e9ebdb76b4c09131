//! Publishing: messages, and for each the server's word that its queues have it.
//!
//! Each message that is on its way has a channel of its own. On one channel the server's words could not be told apart:
//! it returns what no queue takes and confirms it afterwards, several at once, and the client gives what was returned
//! to whichever confirmation it reads next. A channel whose word did not come is not used again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, Connection, Error, ErrorKind};
use onefold_messages::limits::RECONNECT;
use onefold_messages::{Message, Sending, Sink};
use tokio::time::Instant;

use crate::access::Access;
use crate::outgoing;

/// How long the queues have to take a message: below any lease of a relay's.
const ACCEPT_WITHIN: Duration = Duration::from_secs(5);
/// Messages that are on their way together, and wait for the slowest of them. Each has a channel, and by default a server
/// has 2047 for a connection.
const BATCH: usize = 16;
/// What a frame takes beside its content.
const FRAME_OVERHEAD: usize = 8;
/// The server's codes for what will never be accepted: too large, and more properties than a frame holds.
const PRECONDITION_FAILED: u16 = 406;

/// A destination: an exchange. A message's address is its routing key; under the default exchange, whose name is empty,
/// that is the name of a queue. Clones share one connection.
#[derive(Clone)]
pub struct RabbitSink {
    shared: Arc<Shared>,
    default_routing_key: String,
}

struct Shared {
    access: Access,
    exchange: ShortString,
    line: tokio::sync::Mutex<Line>,
    /// Channels that carry nothing at the moment.
    idle: Mutex<Vec<Channel>>,
}

/// The connection, and when to try for another one.
struct Line {
    connection: Option<Arc<Connection>>,
    failures: u32,
    not_before: Instant,
}

impl RabbitSink {
    /// Publishes to this exchange, over a connection that is made when it is needed. The exchange must exist.
    ///
    /// # Errors
    /// When the name is longer than 255 bytes.
    pub fn new(access: Access, exchange: &str) -> Result<RabbitSink, String> {
        let exchange = ShortString::try_new(exchange).map_err(|error| error.to_string())?;
        let line = Line { connection: None, failures: 0, not_before: Instant::now() };
        let shared = Shared { access, exchange, line: line.into(), idle: Mutex::default() };
        Ok(RabbitSink { shared: Arc::new(shared), default_routing_key: String::new() })
    }

    /// The routing key of messages without an address.
    pub fn default_routing_key(mut self, key: impl Into<String>) -> RabbitSink {
        self.default_routing_key = key.into();
        self
    }
}

#[async_trait]
impl Sink for RabbitSink {
    fn batch(&self) -> usize {
        BATCH
    }

    async fn send(&self, message: &Message) -> Sending {
        let properties = match outgoing::properties(message) {
            Ok(properties) => properties,
            Err(reason) => return Sending::Refused { reason },
        };
        let address = if message.address.is_empty() { &self.default_routing_key } else { &message.address };
        let Ok(key) = ShortString::try_new(address.as_str()) else {
            return Sending::Refused { reason: "the address is longer than a routing key may be".into() };
        };
        let opened = self.shared.open().await;
        let (connection, channel) = match opened {
            Ok(opened) => opened,
            Err(reason) => return Sending::NotYet { after: None, reason },
        };
        let frame_max = connection.configuration().frame_max() as usize;
        if outgoing::header_bytes_max(message) + FRAME_OVERHEAD > frame_max {
            self.shared.put_back(channel);
            return Sending::Refused { reason: format!("its headers are larger than a frame ({frame_max})") };
        }
        let publishing = publish(&channel, self.shared.exchange.clone(), key, &message.body, properties);
        match tokio::time::timeout(ACCEPT_WITHIN, publishing).await {
            Ok(Ok(confirmation)) => {
                self.shared.put_back(channel);
                meaning(confirmation)
            }
            Ok(Err(sending)) => sending,
            Err(_) if connection.status().blocked() => {
                Sending::NotYet { after: None, reason: "the server takes no messages for now".into() }
            }
            Err(_) => {
                Sending::Failed { reason: format!("the server confirmed nothing within {ACCEPT_WITHIN:?}") }
            }
        }
    }
}

async fn publish(
    channel: &Channel,
    exchange: ShortString,
    key: ShortString,
    body: &[u8],
    properties: BasicProperties,
) -> Result<Confirmation, Sending> {
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let sent = channel.basic_publish(exchange, key, options, body, properties).await;
    sent.map_err(failure)?.await.map_err(failure)
}

fn meaning(confirmation: Confirmation) -> Sending {
    match confirmation {
        Confirmation::Ack(None) => Sending::Accepted,
        Confirmation::Ack(Some(_)) => Sending::Failed { reason: "no queue takes this routing key".into() },
        Confirmation::Nack(_) => Sending::Failed { reason: "a queue did not take it".into() },
        Confirmation::NotRequested => Sending::Failed { reason: "the channel confirms nothing".into() },
    }
}

fn failure(error: Error) -> Sending {
    match error.kind() {
        ErrorKind::InvalidChannelState(..) | ErrorKind::InvalidConnectionState(_) => {
            Sending::NotYet { after: None, reason: "not connected: nothing was sent".into() }
        }
        ErrorKind::ProtocolError(said) if said.get_id() == PRECONDITION_FAILED => {
            Sending::Refused { reason: said.get_message().to_string() }
        }
        _ => Sending::Failed { reason: error.to_string() },
    }
}

impl Shared {
    /// A channel that confirms, with nothing on it.
    async fn open(&self) -> Result<(Arc<Connection>, Channel), String> {
        let connection = self.connection().await?;
        if connection.status().blocked() {
            return Err("the server takes no messages for now".into());
        }
        while let Some(channel) = self.idle() {
            if channel.status().connected() {
                return Ok((connection, channel));
            }
        }
        let opening = async {
            let channel = connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            Ok::<Channel, Error>(channel)
        };
        match tokio::time::timeout(ACCEPT_WITHIN, opening).await {
            Ok(Ok(channel)) => Ok((connection, channel)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no channel within {ACCEPT_WITHIN:?}")),
        }
    }

    fn idle(&self) -> Option<Channel> {
        self.idle.lock().expect("nobody panics under it").pop()
    }

    fn put_back(&self, channel: Channel) {
        self.idle.lock().expect("nobody panics under it").push(channel);
    }

    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut line = self.line.lock().await;
        if let Some(connection) = line.connection.as_ref().filter(|one| one.status().connected()) {
            return Ok(connection.clone());
        }
        line.connection = None;
        self.idle.lock().expect("nobody panics under it").clear();
        if Instant::now() < line.not_before {
            return Err("not connected: nothing was sent".into());
        }
        match self.access.connect().await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                line.connection = Some(connection.clone());
                line.failures = 0;
                Ok(connection)
            }
            Err(error) => {
                line.not_before = Instant::now() + RECONNECT.pause(line.failures, rand::random());
                line.failures = line.failures.saturating_add(1);
                Err(format!("not connected, nothing was sent: {error}"))
            }
        }
    }
}
