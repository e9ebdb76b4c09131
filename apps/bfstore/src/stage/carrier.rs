//! A carrier between services that speak over a broker: the place of a [balancer](super::balancer) for events. It takes
//! what a sender's relay has left at the broker, and a [`Balance`] says what becomes of its way to the receiver's queue.
//!
//! *Promises.* An event is delivered when its receiver has handled it: its mark is in the receiver's database. What was
//! not delivered the broker hands over again. Two deliveries of one event are two, also for NATS, which would forget the
//! second of two that name their id to it.

use std::fmt;
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use onefold::Key;
use onefold::inbox::{Inbound, Receive, Settle};
use onefold::messages::{MESSAGE_ID, Message, ORDERING_KEY, Order, Sending, Sink};
use onefold::nats::{self, NatsConsumer, async_nats};
use onefold::rabbitmq::{self, Access, RabbitConsumer, RabbitSink};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::balancer::{Answer, Backend, Balance, Delivery};
use crate::events::{RECEIVERS, queue};
use crate::ground::{Events, Ground};
use crate::services::NAMES;
use crate::story::Ledgers;

/// The header that names an event, here as among webhooks.
pub const ID: &str = "webhook-id";
/// Events on their way at once: some wait for the death of a service.
const IN_FLIGHT: u16 = 256;
/// A receiver has handled an event by then, also if it is started again meanwhile.
const HANDLED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// When an event comes again that was not delivered.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// A carrier. It ends when it is dropped.
pub(super) struct Carrier(JoinHandle<()>);

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One for each sender and receiver, from the senders' place at the broker to the receivers'.
pub(super) async fn between(
    ground: &Ground,
    folder: &Path,
    balance: &Arc<dyn Balance>,
) -> anyhow::Result<Vec<Carrier>> {
    let ledgers = Arc::new(Ledgers::at(ground, folder).await?);
    let mut carriers = Vec::new();
    for (sender, receiver) in RECEIVERS.into_iter().filter(|(sender, _)| NAMES.contains(sender)) {
        let end = queue(&ground.name, sender, receiver);
        let publishes = match &ground.events {
            Events::Webhooks => bail!("webhooks have a balancer"),
            Events::Nats(url) => {
                let client = nats::connect(url, async_nats::ConnectOptions::new()).await?;
                Publishes::ToNats(async_nats::jetstream::new(client))
            }
            Events::RabbitMq(url) => Publishes::ToRabbitMq(
                RabbitSink::new(Access::new(url).map_err(anyhow::Error::msg)?, "")
                    .map_err(anyhow::Error::msg)?,
            ),
        };
        let outgoing = Queue { name: end, receiver, publishes, ledgers: ledgers.clone() };
        let backend = Backend::behind_broker(receiver, Arc::new(outgoing));
        let carries = Arc::new(Carries { sender, backend, balance: balance.clone() });
        carriers.push(Carrier(consume(&ground.sent(), sender, receiver, carries).await?));
    }
    Ok(carriers)
}

async fn consume(
    sent: &Ground,
    sender: &str,
    receiver: &str,
    carries: Arc<Carries>,
) -> anyhow::Result<JoinHandle<()>> {
    let queue = queue(&sent.name, sender, receiver);
    Ok(match &sent.events {
        Events::Webhooks => bail!("webhooks have a balancer"),
        Events::Nats(url) => {
            let wish = nats::Subscription {
                filter: Some(queue),
                order: Order::Free,
                in_flight: IN_FLIGHT.into(),
                ..nats::Subscription::new(&sent.name, &format!("{sender}-{receiver}"))
            };
            let client = nats::connect(url, async_nats::ConnectOptions::new()).await?;
            let consumer = NatsConsumer::new(client, wish, carries);
            tokio::spawn(async move { ended(consumer.run(pending()).await) })
        }
        Events::RabbitMq(url) => {
            let wish = rabbitmq::Subscription { in_flight: IN_FLIGHT, ..rabbitmq::Subscription::new(&queue) };
            let access = Access::new(url).map_err(anyhow::Error::msg)?;
            let consumer = RabbitConsumer::new(access, wish, carries);
            tokio::spawn(async move { ended(consumer.run(pending()).await) })
        }
    })
}

/// What a carrier does with each event.
struct Carries {
    sender: &'static str,
    backend: Backend,
    balance: Arc<dyn Balance>,
}

#[async_trait]
impl Receive for Carries {
    async fn receive(&self, inbound: Inbound) -> Settle {
        let carried = match delivery(self.sender, inbound) {
            Ok(delivery) => self.balance.carry(&self.backend, delivery).await,
            Err(error) => {
                tracing::error!(%error, "an event cannot be carried");
                None
            }
        };
        match carried.is_some_and(|answer| answer.is_success()) {
            true => Settle::Acknowledge,
            false => Settle::Again { after: AGAIN_AFTER },
        }
    }
}

fn delivery(sender: &str, inbound: Inbound) -> anyhow::Result<Delivery> {
    let mut headers = HeaderMap::new();
    for (name, value) in &inbound.headers {
        headers.append(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
    }
    let id = inbound.id.context("an event has an id")?;
    headers.insert(ID, HeaderValue::try_from(id.as_str())?);
    Ok(Delivery {
        method: Method::POST,
        path: format!("/events/{sender}"),
        headers,
        body: Bytes::from(inbound.body),
    })
}

/// The queue of a receiver, and how it is seen that it has handled what was put there.
pub(super) struct Queue {
    name: String,
    receiver: &'static str,
    publishes: Publishes,
    ledgers: Arc<Ledgers>,
}

enum Publishes {
    ToNats(async_nats::jetstream::Context),
    ToRabbitMq(RabbitSink),
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.name).finish()
    }
}

impl Queue {
    /// Puts an event there and waits until it is handled, now or before.
    pub(super) async fn deliver(&self, delivery: &Delivery) -> anyhow::Result<Answer> {
        let said = |name: &str| delivery.headers.get(name).and_then(|value| value.to_str().ok());
        let id = said(ID).context("an event has an id")?;
        match &self.publishes {
            Publishes::ToNats(context) => {
                let mut headers = async_nats::HeaderMap::new();
                headers.insert(MESSAGE_ID, id);
                for name in [ORDERING_KEY, "content-type"] {
                    said(name).into_iter().for_each(|value| headers.insert(name, value));
                }
                let body = delivery.body.clone();
                context.publish_with_headers(self.name.clone(), headers, body).await?.await?;
            }
            Publishes::ToRabbitMq(sink) => {
                let message = Message {
                    id: Key::new(id)?,
                    destination: self.receiver.to_owned(),
                    address: self.name.clone(),
                    ordering_key: said(ORDERING_KEY).map(str::to_owned),
                    headers: vec![("content-type".into(), "application/json".into())],
                    body: delivery.body.to_vec(),
                };
                let sending = sink.send(&message).await;
                ensure!(sending == Sending::Accepted, "the broker did not take it: {sending:?}");
            }
        }
        let handled = format!("SELECT 1 FROM {{inbox}} WHERE message = '{id}' AND state <> 0");
        let until = Instant::now() + HANDLED_WITHIN;
        while self.ledgers.seen(self.receiver, &handled).await?.is_empty() {
            ensure!(Instant::now() < until, "{} has not handled {id}", self.receiver);
            sleep(LOOK_EVERY).await;
        }
        Ok(Answer::default())
    }
}

fn ended<E: std::fmt::Display>(carried: Result<(), E>) {
    if let Err(error) = carried {
        tracing::error!(%error, "a carrier has ended");
    }
}
