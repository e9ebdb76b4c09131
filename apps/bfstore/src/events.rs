//! Events between the services: written with the business, sent as signed webhooks, handled once.
//!
//! The sender writes a message for each receiver in the transaction of the business (the outbox), and its relay sends it
//! under one id until it is accepted. The receiver checks the signature before it notes the id, and answers "accepted"
//! only when the handler's writes and the mark of the message are durable, in one commit.

use std::time::Duration;

use axum::Router;
use onefold::axum::Webhooks;
use onefold::inbox::{Consumer, Rerun};
use onefold::messages::{Destination, Message};
use onefold::webhooks::{HttpSink, Scheme, Source};
use onefold::{BoxError, Key};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::service::Settings;

/// How long a receiver has to answer, and a sending in all: what a relay that has died was sending stands still for not
/// much longer.
const ANSWER_MAX: Duration = Duration::from_secs(4);
const SENDING_MAX: Duration = Duration::from_secs(5);
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
pub fn destination(settings: &Settings, receiver: &str) -> anyhow::Result<Destination> {
    let endpoint = format!("{}/events/{}", settings.peer(receiver)?, settings.name);
    let sink = HttpSink::new(&endpoint, vec![settings.secret(&settings.name)?])?.answer_within(ANSWER_MAX);
    Ok(Destination::new(receiver, sink).timeout(SENDING_MAX))
}

/// The route at which events of one sender come in.
pub fn receive(settings: &Settings, sender: &str, consumer: Consumer) -> anyhow::Result<Router> {
    let source = Source::new(Scheme::Standard, [settings.secret(sender)?]);
    let webhooks = Webhooks::new(sender, source, consumer);
    Ok(Router::new().route(&format!("/events/{sender}"), webhooks.route()))
}

/// Handles again, from kept bodies, what permits let through to this build: once for each permit, however often it is
/// asked.
pub async fn rerun(consumer: Consumer) {
    loop {
        match consumer.rerun().await {
            Ok(rerun) if rerun == Rerun::default() => return,
            Ok(rerun) => return tracing::info!(?rerun, "handled again, as permitted"),
            Err(error) => tracing::warn!(%error, "what is permitted could not be handled again"),
        }
        sleep(RERUN_PAUSE).await;
    }
}
