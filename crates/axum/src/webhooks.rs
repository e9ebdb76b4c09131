//! A route that takes webhooks into an inbox (feature `webhooks`): verified as they come, handled once, and answered as
//! the gateway answers.
//!
//! ```
//! use axum::Router;
//! use onefold::inbox::Handled;
//! use onefold::webhooks::{KeyForm, Scheme, Secret, Source};
//! use onefold::{BoxError, Onefold};
//! use onefold::axum::Webhooks;
//!
//! fn routes(onefold: &Onefold) -> Result<Router, BoxError> {
//!     let consumer = onefold.inbox("orders").consumer(|tx, message| {
//!         tx.execute("INSERT INTO paid (charge) VALUES (?1)", [message.id.as_str()])?;
//!         Ok(Handled::Done)
//!     });
//!     let stripe = Source::new(Scheme::Stripe, [Secret::new("whsec_of_the_endpoint", KeyForm::Text)?]);
//!     Ok(Router::new().route("/hooks/stripe", Webhooks::new("stripe", stripe, consumer).route()))
//! }
//! ```
//!
//! | what came | status |
//! | --- | --- |
//! | a message that is handled now, and that is durable; or was before | 200 |
//! | one that is not newer than what was handled of its entity; kept, and not handled (`superseded`) | 200 |
//! | one that was given up and waits for a person | 200 |
//! | one that cannot be handled now: the handler fails or says "not yet", the store is down | 503 with `Retry-After` |
//! | signature missing, wrong, or too old | 401 `signature-invalid`; nothing is noted |
//! | no id, no JSON where a pointer is set, cut on its way | 400 `request-invalid`; nothing is noted |
//! | too long | 413 `request-too-large`; nothing is noted |
//! | another body under a known id | 409 `message-conflict`; parked under an id of its own, and not handled |
//!
//! Which deliveries are one message the [`Source`] says: those under one id whose bodies say the same, JSON by its
//! meaning and without what the source ignores. Where it names entity and version, a message that is not newer than
//! what was handled of its entity reaches no handler.
//!
//! What the headers alone refuse costs no byte of the body, and the signature is checked as the body comes. The sender
//! hanging up changes nothing: what was begun is committed whole or not at all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use onefold_core::{Key, Problem, retry};
use onefold_http::ProblemDocument;
use onefold_library::inbox::{ConsumeStore, Consumer, Handling, Inbound, InboxState, Told};
use onefold_library::messages::ORDERING_KEY;
use onefold_webhooks::{Refusal, Source};
use serde_json::json;

use crate::POLICY;
use crate::reply::problem_document;

/// The longest delivery, in bytes, unless told otherwise: it is held in memory until it is handled.
const DELIVERY_BYTES_MAX: usize = 1 << 20;

/// The webhooks of one source, and who handles them.
pub struct Webhooks<S: ConsumeStore> {
    name: String,
    source: Source,
    consumer: Consumer<S>,
    bytes_max: usize,
}

impl<S: ConsumeStore> fmt::Debug for Webhooks<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").field("source", &self.name).finish_non_exhaustive()
    }
}

impl<S: ConsumeStore + 'static> Webhooks<S> {
    /// Those of this source, under whose name their ids are unique, for this consumer.
    pub fn new(name: impl Into<String>, source: Source, consumer: Consumer<S>) -> Webhooks<S> {
        Webhooks { name: name.into(), source, consumer, bytes_max: DELIVERY_BYTES_MAX }
    }

    /// The longest delivery, in bytes; a longer one is refused with 413. 1 MiB by default.
    pub fn delivery_bytes_max(mut self, bytes: usize) -> Webhooks<S> {
        self.bytes_max = bytes;
        self
    }

    /// The route: `POST`, at the path of your choice.
    pub fn route<T: Clone + Send + Sync + 'static>(self) -> MethodRouter<T> {
        let webhooks = Arc::new(self);
        post(move |request: Request<Body>| async move { webhooks.take(request).await })
    }

    async fn take(&self, request: Request<Body>) -> Response {
        let (inbound, told) = match self.read(request).await {
            Ok(read) => read,
            Err(refused) => {
                tracing::info!(source = self.name, detail = refused.detail(), "a delivery is refused");
                return refused.into_response(POLICY).map(Body::from);
            }
        };
        let id = inbound.id.clone();
        match self.consumer.handle_as(inbound, told).await {
            Handling::Done(InboxState::Superseded) => taken("superseded", id.as_ref()),
            Handling::Done(_) => taken("accepted", id.as_ref()),
            Handling::Duplicate => taken("duplicate", id.as_ref()),
            Handling::Parked => taken("parked", id.as_ref()),
            Handling::Conflict => {
                let detail = "another message came under this id before; this one was kept and not handled";
                ProblemDocument::new(Problem::MessageConflict, detail).into_response(POLICY).map(Body::from)
            }
            Handling::Again { after } => not_now(after),
        }
    }

    /// The delivery, once its signature was found good.
    async fn read(&self, request: Request<Body>) -> Result<(Inbound, Told), ProblemDocument> {
        let (parts, mut body) = request.into_parts();
        let headers = parts.headers;
        let now_s = self.consumer.inbox().engine().unix_time();
        let mut verifier = self.source.verifier(&headers, now_s).map_err(refused)?;
        let said = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let mut bytes = Vec::new();
        self.fits(said.unwrap_or(0))?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| {
                ProblemDocument::new(Problem::RequestInvalid, "the delivery was cut; nothing was noted")
            })?;
            let Some(part) = frame.data_ref() else { continue };
            self.fits(bytes.len() + part.len())?;
            verifier.update(part);
            bytes.extend_from_slice(part);
        }
        let content = verifier.finish().map_err(refused)?;
        let said = self.source.read_verified(&headers, &bytes).map_err(refused)?;
        let headers = lines(&headers);
        // A version is one of an entity that was signed with it.
        let version = said.version.filter(|_| said.entity.is_some());
        let ordering_key = said.entity.or_else(|| {
            let named = headers.iter().find(|(name, _)| name == ORDERING_KEY);
            named.map(|(_, value)| value.clone())
        });
        let fingerprint = content.fingerprint(self.consumer.inbox().engine().identity_key());
        let told = Told { fingerprint, version };
        let source = self.name.clone();
        Ok((Inbound { source, id: Some(said.id), ordering_key, headers, body: bytes }, told))
    }

    fn fits(&self, bytes: usize) -> Result<(), ProblemDocument> {
        if bytes <= self.bytes_max {
            return Ok(());
        }
        let detail = format!("a delivery has at most {} bytes", self.bytes_max);
        Err(ProblemDocument::new(Problem::RequestTooLarge, detail))
    }
}

fn refused(refusal: Refusal) -> ProblemDocument {
    let problem = match refusal.is_of_the_signature() {
        true => Problem::SignatureInvalid,
        false => Problem::RequestInvalid,
    };
    ProblemDocument::new(problem, refusal.to_string())
}

/// Header lines that are text, but for those of the connection.
fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
    let of_connection = [
        header::HOST,
        header::CONNECTION,
        header::TRANSFER_ENCODING,
        header::CONTENT_LENGTH,
        header::TRAILER,
        header::ACCEPT_ENCODING,
    ];
    let lines = headers.iter().filter(|(name, _)| !of_connection.contains(name));
    let text = |value: &HeaderValue| Some(std::str::from_utf8(value.as_bytes()).ok()?.to_owned());
    lines.filter_map(|(name, value)| Some((name.to_string(), text(value)?))).collect()
}

fn taken(state: &str, id: Option<&Key>) -> Response {
    axum::Json(json!({"state": state, "message_id": id.map(Key::as_str)})).into_response()
}

/// It is to be delivered again, not before this long.
fn not_now(after: Duration) -> Response {
    let mut response = problem_document(StatusCode::SERVICE_UNAVAILABLE, json!({"title": "Not handled yet"}));
    let after = HeaderValue::from(retry::whole_seconds(after));
    response.headers_mut().insert(header::RETRY_AFTER, after);
    response
}
