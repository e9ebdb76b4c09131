//! Events between the services: written with the business, carried by webhooks or a broker, handled once.
//!
//! The sender writes a message for each receiver in the transaction of the business (the outbox), and its relay sends it
//! under one id until it is accepted. The receiver says that it has it only when the handler's writes and the mark of the
//! message are durable, in one commit. Webhooks need no broker: the receiver checks the signature before it notes the
//! id. A [broker](crate::brokers) has a subject, a queue or a topic for each pair of sender and receiver.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use onefold::any::AnyStore;
use onefold::axum::Webhooks;
use onefold::inbox::{Consumer, Rerun};
use onefold::messages::{Destination, Message, Order, Sink};
use onefold::webhooks::{HttpSink, Scheme, Source};
use onefold::{BoxError, Key};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::brokers::{Consuming, Manner};
use crate::service::{Settings, serve};

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
    if let Some(broker) = settings.events.broker() {
        return broker.sink(&settings.route(&settings.name, receiver)).await;
    }
    let endpoint = format!("{}/events/{}", settings.peer(receiver)?, settings.name);
    let sink = HttpSink::new(&endpoint, vec![settings.secret(&settings.name)?])?;
    Ok(Arc::new(sink.answer_within(ANSWER_MAX)))
}

/// Where events come in: the routes of webhooks, or consumers at a broker.
#[derive(Default)]
pub struct Inlets {
    routes: Router,
    consumers: Vec<Consuming>,
}

impl Inlets {
    /// And those of this sender.
    pub async fn of(
        mut self,
        settings: &Settings,
        sender: &str,
        consumer: Consumer<AnyStore>,
    ) -> anyhow::Result<Inlets> {
        match settings.events.broker() {
            None => self.routes = self.routes.merge(webhooks(settings, sender, consumer)?),
            Some(broker) => {
                let manner = Manner { order: Order::PerKey, in_flight: None };
                let route = settings.route(sender, &settings.name);
                self.consumers.push(broker.consume(&route, manner, Arc::new(consumer)).await?);
            }
        }
        Ok(self)
    }

    /// Lets events in and serves these pages until the parent is gone.
    ///
    /// # Errors
    /// When events do not come in any more, which is for a person: a consumer waits for a broker that is away.
    pub async fn serve(self, settings: &Settings, pages: Router) -> anyhow::Result<()> {
        let mut consuming: JoinSet<_> = self.consumers.into_iter().collect();
        tokio::select! {
            served = serve(settings.listen, pages.merge(self.routes)) => served,
            Some(ended) = consuming.join_next() => Err(ended?.context("no more events come in")),
        }
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
