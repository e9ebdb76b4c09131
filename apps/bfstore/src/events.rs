//! Events between the services: written with the business, carried by webhooks or a broker, handled once.
//!
//! The sender writes a message for each receiver in the transaction of the business (the outbox), and its relay sends it
//! under one id until it is accepted. The receiver says that it has it only when the handler's writes and the mark of the
//! message are durable, in one commit. Webhooks need no broker: the receiver checks the signature before it notes the
//! id. On NATS and RabbitMQ each pair of sender and receiver has a subject, or a queue, of its own.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use onefold::any::AnyStore;
use onefold::axum::Webhooks;
use onefold::inbox::{Consumer, Rerun};
use onefold::messages::{Destination, Message, Order, Sink};
use onefold::nats::{self, NatsConsumer, NatsSink, async_nats};
use onefold::rabbitmq::{self, Access, RabbitConsumer, RabbitSink};
use onefold::webhooks::{HttpSink, Scheme, Source};
use onefold::{BoxError, Key};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::ground::Events;
use crate::service::Settings;

/// Who sends events to whom. The catalogue is somebody outside of bfstore.
pub const RECEIVERS: [(&str, &str); 4] = [
    ("order", "notification"),
    ("order", "loyalty"),
    ("payment", "notification"),
    ("catalogue", "storefront"),
];
/// How long a receiver has to answer, and a sending in all: what a relay that has died was sending stands still for not
/// much longer.
const ANSWER_MAX: Duration = Duration::from_secs(4);
const SENDING_MAX: Duration = Duration::from_secs(6);
/// After an error of the store, before it is asked again.
const RERUN_PAUSE: Duration = Duration::from_secs(1);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Event {
    /// An order is paid for and will be sent.
    #[serde(rename = "order.confirmed")]
    OrderConfirmed {
        /// The order.
        order_id: i64,
        /// Whose it is.
        customer_id: String,
        /// What it costs.
        cents: i64,
    },
    /// Money was taken.
    #[serde(rename = "payment.captured")]
    PaymentCaptured {
        /// The order it pays for.
        order_id: i64,
        /// Whose it is.
        customer_id: String,
        /// How much.
        cents: i64,
    },
    /// A product as it is from now on.
    #[serde(rename = "product.changed")]
    ProductChanged {
        /// The product.
        product: String,
        /// Its price.
        cents: i64,
        /// Grows with each change of this product.
        version: i64,
    },
}

impl Event {
    /// The event as a message for one receiver. `id` is the event's own, the same however often it is made.
    pub fn to(&self, receiver: &str, id: &str, about: &str, correlation: &str) -> Result<Message, BoxError> {
        Ok(Message {
            id: Key::new(format!("{id}/{receiver}"))?,
            destination: receiver.to_owned(),
            address: String::new(),
            ordering_key: Some(about.to_owned()),
            headers: vec![
                ("content-type".into(), "application/json".into()),
                ("onefold-correlation-id".into(), correlation.to_owned()),
            ],
            body: serde_json::to_vec(self)?,
        })
    }
}

/// A receiver as a destination of the relay of `settings`' service.
pub async fn destination(settings: &Settings, receiver: &str) -> anyhow::Result<Destination> {
    Ok(Destination::shared(receiver, sink(settings, receiver).await?).timeout(SENDING_MAX))
}

/// What takes the events of `settings`' service to a receiver.
pub(crate) async fn sink(settings: &Settings, receiver: &str) -> anyhow::Result<Arc<dyn Sink>> {
    let queue = queue(&settings.place, &settings.name, receiver);
    Ok(match &settings.events {
        Events::Webhooks => {
            let endpoint = format!("{}/events/{}", settings.peer(receiver)?, settings.name);
            let sink = HttpSink::new(&endpoint, vec![settings.secret(&settings.name)?])?;
            Arc::new(sink.answer_within(ANSWER_MAX))
        }
        Events::Nats(url) => {
            let client = nats::connect(url, async_nats::ConnectOptions::new()).await?;
            Arc::new(NatsSink::new(client).default_subject(queue))
        }
        Events::RabbitMq(url) => {
            let access = Access::new(url).map_err(anyhow::Error::msg)?;
            // Of the exchange without a name, which knows every queue by its own.
            Arc::new(RabbitSink::new(access, "").map_err(anyhow::Error::msg)?.default_routing_key(queue))
        }
    })
}

/// The subject, or the queue, of what one sends to another.
pub fn queue(place: &str, sender: &str, receiver: &str) -> String {
    format!("{place}.{sender}.{receiver}")
}

/// Lets events of one sender come in: the route of its webhooks, or a consumer of the broker that runs from now on.
pub async fn receive(
    settings: &Settings,
    sender: &str,
    consumer: Consumer<AnyStore>,
) -> anyhow::Result<Router> {
    let queue = queue(&settings.place, sender, &settings.name);
    match &settings.events {
        Events::Webhooks => return webhooks(settings, sender, consumer),
        Events::Nats(url) => {
            let wish = nats::Subscription {
                filter: Some(queue),
                source: sender.to_owned(),
                order: Order::PerKey,
                ..nats::Subscription::new(&settings.place, &format!("{sender}-{}", settings.name))
            };
            let client = nats::connect(url, async_nats::ConnectOptions::new()).await?;
            let consumer = NatsConsumer::new(client, wish, Arc::new(consumer));
            tokio::spawn(async move { ended(consumer.run(pending()).await) });
        }
        Events::RabbitMq(url) => {
            let wish = rabbitmq::Subscription {
                source: sender.to_owned(),
                order: Order::PerKey,
                ..rabbitmq::Subscription::new(&queue)
            };
            let access = Access::new(url).map_err(anyhow::Error::msg)?;
            let consumer = RabbitConsumer::new(access, wish, Arc::new(consumer));
            tokio::spawn(async move { ended(consumer.run(pending()).await) });
        }
    }
    Ok(Router::new())
}

/// A consumer waits for a broker that is away, so whatever ends it is for a person.
fn ended<E: std::fmt::Display>(consumed: Result<(), E>) {
    if let Err(error) = consumed {
        tracing::error!(%error, "no more events come in");
    }
}

/// The route at which webhooks of one sender come in.
fn webhooks(settings: &Settings, sender: &str, consumer: Consumer<AnyStore>) -> anyhow::Result<Router> {
    let source = Source::new(Scheme::Standard, [settings.secret(sender)?]);
    let webhooks = Webhooks::new(sender, source, consumer);
    Ok(Router::new().route(&format!("/events/{sender}"), webhooks.route()))
}

/// Handles again, from kept bodies, what permits let through to this build: once for each permit, however often it is
/// asked.
pub async fn rerun(consumer: Consumer<AnyStore>) {
    loop {
        match consumer.rerun().await {
            Ok(rerun) if rerun == Rerun::default() => return,
            Ok(rerun) => return tracing::info!(?rerun, "handled again, as permitted"),
            Err(error) => tracing::warn!(%error, "what is permitted could not be handled again"),
        }
        sleep(RERUN_PAUSE).await;
    }
}
