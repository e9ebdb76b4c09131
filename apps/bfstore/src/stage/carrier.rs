//! A carrier between services that speak over a broker: the place of a [balancer](super::balancer) for events. It takes
//! what a sender's relay has left at the broker, and a [`Balance`] says what becomes of its way to the receiver's queue.
//!
//! *Promises.* An event is delivered when its receiver has handled it: its mark is in the receiver's database. What was
//! not delivered the broker hands over again. Two deliveries of one event are two, also for NATS, which would forget the
//! second of two that name their id to it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use onefold::Key;
use onefold::inbox::{Inbound, Receive, Settle};
use onefold::messages::{Message, ORDERING_KEY, Order, Sending, Sink};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::balancer::{Answer, Backend, Balance, Delivery};
use super::fallen::Fallen;
use crate::brokers::{Broker, Manner};
use crate::ground::{Ground, between_services};
use crate::ledgers::Ledgers;

/// The header that names an event, here as among webhooks.
pub const EVENT_ID: &str = "webhook-id";
/// Events on their way at once: some wait for the death of a service.
const IN_FLIGHT: u16 = 256;
/// A receiver has handled an event by then, also if it is started again meanwhile.
const HANDLED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// When an event comes again that was not delivered.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// One for each sender and receiver, from the senders' place at the broker to the receivers'. They end when they are
/// dropped; one that ends by itself is told.
pub(super) async fn between(
    broker: &dyn Broker,
    ground: &Ground,
    folder: &Path,
    balance: &Arc<dyn Balance>,
    fallen: &Fallen,
) -> anyhow::Result<JoinSet<()>> {
    let ledgers = Arc::new(Ledgers::at(ground, folder).await?);
    let mut carriers = JoinSet::new();
    for (sender, receiver) in between_services() {
        let sink = broker.sink_of_copies(&ground.route(sender, receiver)).await?;
        let backend =
            Backend::behind_broker(receiver, Arc::new(Queue { receiver, sink, ledgers: ledgers.clone() }));
        let carries = Arc::new(Carries { sender, backend, balance: balance.clone() });
        let manner = Manner { order: Order::Free, in_flight: Some(IN_FLIGHT) };
        let consuming = broker.consume(&ground.sent().route(sender, receiver), manner, carries).await?;
        let fallen = fallen.clone();
        carriers.spawn(async move {
            let ended = consuming.await;
            fallen.tell(format!("the carrier from {sender} to {receiver} has ended: {ended:#}"));
        });
    }
    Ok(carriers)
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
    headers.insert(EVENT_ID, HeaderValue::try_from(id.as_str())?);
    Ok(Delivery {
        method: Method::POST,
        path: format!("/events/{sender}"),
        headers,
        body: Bytes::from(inbound.body),
    })
}

/// The queue of a receiver, and how it is seen that it has handled what was put there.
pub(super) struct Queue {
    receiver: &'static str,
    sink: Arc<dyn Sink>,
    ledgers: Arc<Ledgers>,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queue").field(&self.receiver).finish()
    }
}

impl Queue {
    /// Puts an event there and waits until it is handled, now or before.
    pub(super) async fn deliver(&self, delivery: &Delivery) -> anyhow::Result<Answer> {
        let said = |name: &str| delivery.headers.get(name).and_then(|value| value.to_str().ok());
        let id = said(EVENT_ID).context("an event has an id")?;
        let message = Message {
            id: Key::new(id)?,
            destination: self.receiver.to_owned(),
            address: String::new(),
            ordering_key: said(ORDERING_KEY).map(str::to_owned),
            headers: vec![("content-type".into(), "application/json".into())],
            body: delivery.body.to_vec(),
        };
        let sending = self.sink.send(&message).await;
        ensure!(sending == Sending::Accepted, "the broker did not take it: {sending:?}");
        let handled = format!("SELECT 1 FROM {{inbox}} WHERE message = '{id}' AND state <> 0");
        let until = Instant::now() + HANDLED_WITHIN;
        while self.ledgers.ask(self.receiver, handled.as_str()).await?.is_empty() {
            ensure!(Instant::now() < until, "{} has not handled {id}", self.receiver);
            sleep(LOOK_EVERY).await;
        }
        Ok(Answer::default())
    }
}
