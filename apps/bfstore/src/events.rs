//! Events between the services: written with the business, sent as signed webhooks, handled once.
//!
//! The sender writes a message for each receiver in the transaction of the business (the outbox), and its relay sends it
//! under one id until it is accepted. The receiver checks the signature before it notes the id, and answers "accepted"
//! only when the handler's writes and the mark of the message are durable, in one commit.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use onefold::inbox::{Consumer, Inbound, Receive, Rerun, Settle};
use onefold::messages::{Destination, Message};
use onefold::webhooks::{HttpSink, Scheme, Source};
use onefold::{BoxError, Engine, Key, SqliteStore};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use crate::safeguard::{self, Safeguard};
use crate::service::Settings;

/// How long a receiver has to answer, and a sending in all: what a relay that has died was sending stands still for not
/// much longer.
const ANSWER_MAX: Duration = Duration::from_secs(4);
const SENDING_MAX: Duration = Duration::from_secs(5);
/// How old a signed time may be.
const TOLERANCE: Duration = Duration::from_secs(300);
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

struct Receiving {
    engine: Engine,
    sender: &'static str,
    source: Source,
    consumer: Consumer<SqliteStore>,
}

/// The route at which events of one sender come in.
pub fn receive(
    settings: &Settings,
    engine: &Engine,
    sender: &'static str,
    consumer: Consumer<SqliteStore>,
) -> anyhow::Result<Router> {
    let source = Source {
        scheme: Scheme::Standard,
        secrets: vec![settings.secret(sender)?],
        tolerance: TOLERANCE,
        id: None,
        entity: None,
        version: None,
    };
    let receiving = Arc::new(Receiving { engine: engine.clone(), sender, source, consumer });
    Ok(Router::new().route(&format!("/events/{sender}"), post(take)).with_state(receiving))
}

/// Handles again, from kept bodies, what permits let through to this build: once for each permit, however often it is
/// asked.
pub async fn rerun(consumer: Consumer<SqliteStore>) {
    loop {
        match consumer.rerun().await {
            Ok(rerun) if rerun == Rerun::default() => return,
            Ok(rerun) => return tracing::info!(?rerun, "handled again, as permitted"),
            Err(error) => tracing::warn!(%error, "what is permitted could not be handled again"),
        }
        sleep(RERUN_PAUSE).await;
    }
}

async fn take(State(receiving): State<Arc<Receiving>>, headers: HeaderMap, body: Bytes) -> Response {
    let Receiving { engine, sender, source, consumer } = &*receiving;
    let id = match source.read(&headers, &body, engine.unix_time()) {
        Ok(delivery) => delivery.id,
        Err(refusal) if refusal.is_of_the_signature() => return StatusCode::UNAUTHORIZED.into_response(),
        Err(_) => return StatusCode::BAD_REQUEST.into_response(),
    };
    let line = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    let inbound = Inbound {
        source: (*sender).to_owned(),
        id: Key::new(safeguard::key(Safeguard::InboxMark, id.as_str())).ok(),
        ordering_key: line("onefold-ordering-key"),
        headers: headers.keys().filter_map(|name| Some((name.to_string(), line(name.as_str())?))).collect(),
        body: body.to_vec(),
    };
    match consumer.receive(inbound).await {
        Settle::Acknowledge => StatusCode::NO_CONTENT.into_response(),
        Settle::Again { after } => {
            let seconds = after.as_secs() + 1;
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, seconds.to_string())]).into_response()
        }
    }
}
