//! The consumer's loop: it asks for as many messages as there are places, so that none waits here unattended.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::PullConsumer;
use futures_util::StreamExt;
use onefold_messages::limits::RECONNECT;
use onefold_messages::{Lanes, Order, Receive};

use crate::delivery::NatsDelivery;
use crate::position;

/// How long one request for messages stands.
const PULL_FOR: Duration = Duration::from_secs(5);

/// What is consumed, and how.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The stream. It must exist.
    pub stream: String,
    /// The name of the durable consumer. With [`Order::PerKey`] it is the start of names; only one process has it.
    pub durable: String,
    /// Only these subjects.
    pub filter: Option<String>,
    /// What the messages say as their source; ids are unique to it.
    pub source: String,
    /// What is kept in order.
    pub order: Order,
    /// How many messages are worked on at once, those that wait behind others of their key included.
    pub in_flight: usize,
    /// After how long without a sign of life the server delivers again. Signs are sent at a third of it.
    pub ack_wait: Duration,
    /// How long handlers may take to end when the consumer stops.
    pub grace: Duration,
}

impl Subscription {
    /// One without order, 64 messages at once, a wait of 30 s, a grace of 10 s, and the stream as source.
    pub fn new(stream: &str, durable: &str) -> Subscription {
        Subscription {
            stream: stream.to_owned(),
            durable: durable.to_owned(),
            filter: None,
            source: stream.to_owned(),
            order: Order::Free,
            in_flight: 64,
            ack_wait: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        }
    }
}

/// Why a consumer ended that was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// Another process consumes under this name, with order. It began later.
    #[error("another process has taken this consumer over")]
    Superseded,
    /// The durable was made by somebody else with a limit: messages would be lost.
    #[error("the durable {durable} drops messages after {most} deliveries: set its max_deliver to -1")]
    Drops {
        /// Its name.
        durable: String,
        /// Its limit.
        most: i64,
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
pub struct NatsConsumer {
    client: Client,
    wish: Subscription,
    receive: Arc<dyn Receive>,
}

/// Why pulling ended.
enum Ended {
    Stopped,
    /// A delivery was lost on its way: what is behind it may not be handled before it.
    Gap,
    Error(ConsumeError),
}

impl NatsConsumer {
    /// Hands the messages of `wish` to `receive`.
    pub fn new(client: Client, wish: Subscription, receive: Arc<dyn Receive>) -> NatsConsumer {
        NatsConsumer { client, wish, receive }
    }

    /// Consumes until `stop` is ready; then lets handlers end and hands back what has not begun. A server that is away
    /// is waited for. Cancellation safe: what was not settled comes again.
    pub async fn run(&self, stop: impl Future<Output = ()> + Send) -> Result<(), ConsumeError> {
        let mut stop = pin!(stop);
        let mut tries: u32 = 0;
        loop {
            let attached = tokio::select! {
                () = &mut stop => return Ok(()),
                attached = self.attach() => attached,
            };
            let ended = match attached {
                Ok(consumer) => {
                    tries = 0;
                    let mut lanes = Lanes::new(self.receive.clone(), self.wish.order, self.wish.in_flight);
                    let ended = tokio::select! {
                        () = &mut stop => Ended::Stopped,
                        ended = self.pull(&consumer, &mut lanes) => ended,
                    };
                    lanes.close(self.wish.grace).await;
                    ended
                }
                Err(error) => Ended::Error(error),
            };
            match ended {
                Ended::Stopped => return Ok(()),
                Ended::Gap => tracing::info!("a delivery was lost on its way; consuming from before it"),
                Ended::Error(ConsumeError::Server(error)) => {
                    tracing::warn!(%error, "consuming is interrupted");
                    let pause = tokio::time::sleep(RECONNECT.pause(tries, rand::random()));
                    tries = tries.saturating_add(1);
                    tokio::select! {
                        () = &mut stop => return Ok(()),
                        () = pause => {}
                    }
                }
                Ended::Error(error) => return Err(error),
            }
        }
    }

    async fn attach(&self) -> Result<PullConsumer, ConsumeError> {
        let context = async_nats::jetstream::new(self.client.clone());
        let stream = context.get_stream(&self.wish.stream).await.map_err(ConsumeError::server)?;
        match self.wish.order {
            Order::Free => position::shared(&stream, &self.wish).await,
            Order::PerKey => position::own(&stream, &self.wish).await,
        }
    }

    async fn pull(&self, consumer: &PullConsumer, lanes: &mut Lanes<NatsDelivery>) -> Ended {
        let ack_wait = consumer.cached_info().config.ack_wait;
        let mut last = 0;
        loop {
            let mut places = vec![lanes.place().await];
            places.extend(std::iter::from_fn(|| lanes.free_place()));
            let batch = consumer.batch().max_messages(places.len()).expires(PULL_FOR).messages().await;
            let mut batch = match batch {
                Ok(batch) => batch,
                Err(error) => return Ended::Error(ConsumeError::server(error)),
            };
            let (mut failed, mut came) = (None, false);
            while let Some(message) = batch.next().await {
                let message = match message {
                    Ok(message) => message,
                    Err(error) => {
                        failed = Some(ConsumeError::Server(error));
                        break;
                    }
                };
                came = true;
                if self.wish.order == Order::PerKey {
                    let number = message.info().map_or(0, |info| info.consumer_sequence);
                    if number != last + 1 {
                        return Ended::Gap;
                    }
                    last = number;
                }
                let delivery = NatsDelivery::new(message, &self.wish.source, ack_wait);
                if let (Some(delivery), Some(place)) = (delivery, places.pop()) {
                    lanes.give(delivery, place);
                }
            }
            if failed.is_some() || !came {
                drop(places);
                if let Err(ended) = self.still_there(consumer).await {
                    return Ended::Error(ended);
                }
            }
            if let Some(error) = failed {
                return Ended::Error(error);
            }
        }
    }

    /// Whether the durable is still ours.
    async fn still_there(&self, consumer: &PullConsumer) -> Result<(), ConsumeError> {
        use async_nats::jetstream::context::ConsumerInfoErrorKind;
        match consumer.get_info().await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ConsumerInfoErrorKind::NotFound => match self.wish.order {
                Order::PerKey => Err(ConsumeError::Superseded),
                Order::Free => Err(ConsumeError::server(error)),
            },
            Err(error) => Err(ConsumeError::server(error)),
        }
    }
}
