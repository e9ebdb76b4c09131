//! The consumer's loop: one connection at a time, and as many messages out as there are places.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Connection, Consumer};
use onefold_messages::limits::RECONNECT;
use onefold_messages::{Lanes, Order, Receive};

use crate::access::Access;
use crate::delivery::RabbitDelivery;
use crate::queue::{self, Kind};

/// How long the server may take to say goodbye: then the last acknowledgements have reached it.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
const CLOSED: u16 = 200;

/// What is consumed, and how.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The queue. It is made where it is missing.
    pub queue: String,
    /// What it is made as.
    pub kind: Kind,
    /// What the messages say as their source; ids are unique to it.
    pub source: String,
    /// What is kept in order. With [`Order::PerKey`] the queue has one active consumer: the server hands it to one
    /// process, and to the next when that one is gone.
    pub order: Order,
    /// How many messages are worked on at once, those that wait behind others of their key included; 1 to 65 535.
    pub in_flight: u16,
    /// How long handlers may take to end when the consumer stops.
    pub grace: Duration,
}

impl Subscription {
    /// One without order, of a quorum queue, 64 messages at once, a grace of 10 s, and the queue as source.
    pub fn new(queue: &str) -> Subscription {
        Subscription {
            queue: queue.to_owned(),
            kind: Kind::Quorum,
            source: queue.to_owned(),
            order: Order::Free,
            in_flight: 64,
            grace: Duration::from_secs(10),
        }
    }
}

/// Why a consumer ended that was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// The queue exists and was made otherwise: it does not keep what the subscription asks for.
    #[error("the queue {queue} was made otherwise: {reason}")]
    Queue {
        /// Its name.
        queue: String,
        /// What the server says.
        reason: String,
    },
    /// The server cannot be asked now. Tried again by the loop, and never returned by it.
    #[error("the server cannot be asked: {0}")]
    Server(Box<dyn std::error::Error + Send + Sync>),
}

impl ConsumeError {
    pub(crate) fn server(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ConsumeError {
        ConsumeError::Server(error.into())
    }
}

/// A consumer.
pub struct RabbitConsumer {
    access: Access,
    wish: Subscription,
    receive: Arc<dyn Receive>,
}

/// A connection with a consumer on it.
struct Attached {
    // Dropped first: a consumer that is dropped cancels itself, and the server would hand the queue to the next one
    // while messages are still out here, and those would come after what is behind them.
    line: Line,
    consumer: Consumer,
}

/// A connection that is closed when it is dropped, at any moment: the client would keep one whose consumer is asked for
/// and not confirmed, and with it the queue.
struct Line(Connection);

impl Drop for Line {
    fn drop(&mut self) {
        // The first poll sends it; nobody waits for the answer.
        let _ = self.0.close(CLOSED, "gone".into()).now_or_never();
    }
}

impl RabbitConsumer {
    /// Hands the messages of `wish` to `receive`.
    pub fn new(access: Access, wish: Subscription, receive: Arc<dyn Receive>) -> RabbitConsumer {
        RabbitConsumer { access, wish, receive }
    }

    /// Consumes until `stop` is ready; then lets handlers end and gives everything else back. A server that is away is
    /// waited for. Cancellation safe: what was not settled comes again.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) -> Result<(), ConsumeError> {
        let mut stop = pin!(stop);
        let mut tries: u32 = 0;
        loop {
            let attached = tokio::select! {
                () = &mut stop => return Ok(()),
                attached = self.attach() => attached,
            };
            let error = match attached {
                Ok(mut attached) => {
                    tries = 0;
                    let mut lanes =
                        Lanes::new(self.receive.clone(), self.wish.order, usize::from(self.in_flight()));
                    let error = tokio::select! {
                        () = &mut stop => None,
                        error = self.pull(&mut attached.consumer, &mut lanes) => Some(error),
                    };
                    // The consumer stays one until the connection ends: everything that is out goes back at once.
                    lanes.close(self.wish.grace).await;
                    let goodbye = attached.line.0.close(CLOSED, "stopped".into());
                    let _ = tokio::time::timeout(CLOSE_WITHIN, goodbye).await;
                    error
                }
                Err(error) => Some(error),
            };
            match error {
                None => return Ok(()),
                Some(ConsumeError::Server(error)) => {
                    tracing::warn!(%error, "consuming is interrupted");
                    let pause = tokio::time::sleep(RECONNECT.pause(tries, rand::random()));
                    tries = tries.saturating_add(1);
                    tokio::select! {
                        () = &mut stop => return Ok(()),
                        () = pause => {}
                    }
                }
                Some(error) => return Err(error),
            }
        }
    }

    fn in_flight(&self) -> u16 {
        // None would be no limit to the server.
        self.wish.in_flight.max(1)
    }

    async fn attach(&self) -> Result<Attached, ConsumeError> {
        let line = Line(self.access.connect().await.map_err(ConsumeError::server)?);
        let channel = queue::ready(&line.0, &self.wish).await?;
        let prefetch = channel.basic_qos(self.in_flight(), BasicQosOptions::default());
        prefetch.await.map_err(ConsumeError::server)?;
        let queue = ShortString::try_new(self.wish.queue.as_str()).map_err(ConsumeError::server)?;
        let consuming = channel.basic_consume(
            queue,
            ShortString::default(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = consuming.await.map_err(ConsumeError::server)?;
        Ok(Attached { line, consumer })
    }

    /// Hands deliveries over until there are no more. The server sends no more than there are places, so a place is
    /// there or about to be, and the end of the connection is seen also while all are taken.
    async fn pull(&self, consumer: &mut Consumer, lanes: &mut Lanes<RabbitDelivery>) -> ConsumeError {
        loop {
            match consumer.next().await {
                Some(Ok(raw)) => {
                    let place = lanes.place().await;
                    lanes.give(RabbitDelivery::new(raw, &self.wish.source), place);
                }
                Some(Err(error)) => return ConsumeError::server(error),
                None => return ConsumeError::server("the server has ended the consumer"),
            }
        }
    }
}
