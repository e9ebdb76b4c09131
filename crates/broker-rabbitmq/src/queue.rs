//! The queue that is consumed, and who has it.
//!
//! Without order any queue will do, and it is made where it is missing. With order one consumer at a time may have it,
//! and only the queue itself can see to that (`x-single-active-consumer`), from the moment it is made. So it is
//! declared here, and the server refuses where the one that exists was made otherwise. Asking for exclusive use would
//! not do: quorum queues ignore it.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Connection, ErrorKind};
use onefold_messages::Order;

use crate::consumer::{ConsumeError, Subscription};

/// The server's codes for a queue that is missing, and for one that is made otherwise.
const NOT_FOUND: u16 = 404;
const PRECONDITION_FAILED: u16 = 406;

/// What a queue is made as where it is missing. Everything else about it is for a policy of its owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// On one node, durable.
    Classic,
    /// On several nodes. It is declared without a limit of deliveries: with one, which newer servers set by themselves,
    /// the server drops what was out at a consumer that died some times.
    Quorum,
}

/// A channel to consume the queue over.
pub(crate) async fn ready(connection: &Connection, wish: &Subscription) -> Result<Channel, ConsumeError> {
    let queue = ShortString::try_new(wish.queue.as_str()).map_err(ConsumeError::server)?;
    let mut channel = connection.create_channel().await.map_err(ConsumeError::server)?;
    if wish.order == Order::Free {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        match channel.queue_declare(queue.clone(), passive, FieldTable::default()).await {
            Ok(_) => return Ok(channel),
            Err(error) if code(&error) == Some(NOT_FOUND) => {
                channel = connection.create_channel().await.map_err(ConsumeError::server)?;
            }
            Err(error) => return Err(ConsumeError::server(error)),
        }
    }
    let declared = channel.queue_declare(queue, QueueDeclareOptions::durable(), arguments(wish)).await;
    match declared {
        Ok(_) => Ok(channel),
        Err(error) if code(&error) == Some(PRECONDITION_FAILED) => {
            Err(ConsumeError::Queue { queue: wish.queue.clone(), reason: error.to_string() })
        }
        Err(error) => Err(ConsumeError::server(error)),
    }
}

fn arguments(wish: &Subscription) -> FieldTable {
    let mut arguments = FieldTable::default();
    if wish.kind == Kind::Quorum {
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(i32::MAX));
    }
    if wish.order == Order::PerKey {
        arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    }
    arguments
}

fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(said) => Some(said.get_id()),
        _ => None,
    }
}
