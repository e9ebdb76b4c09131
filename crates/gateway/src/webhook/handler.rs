//! A webhook's handler as a destination of the relay: one POST for each try, under the message's one key.
//!
//! 2xx: it has accepted. 425, or 503 with `Retry-After`: not yet, which is no failure. It could not be reached:
//! nobody was asked, which is none either. Everything else, a lost answer too, is a failed try: the message goes on
//! again under its key, by which the handler knows it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use onefold_core::contract::KEY_HEADER;
use onefold_core::{CAUSATION_ID, CORRELATION_ID, Message, header_id};
use onefold_http::strip_hop_by_hop;
use onefold_messages::intake::Verdict;
use onefold_messages::{Intake, Sending, Sink, wire};
use tokio::time::{Instant, timeout_at};

use super::listeners::{Heard, Listeners};
use crate::body::{AnyBody, whole};
use crate::limits::{HANDLER_ANSWER_BYTES_MAX, HANDLER_AWAY_MAX, HANDLER_AWAY_MIN};
use crate::look_up::{Services, body};
use crate::options::WebhookSource;
use crate::upstream::NoAnswer;

/// What headers of the layer begin with.
const OWN_PREFIX: &str = "onefold-";

/// The way to one handler.
pub(super) struct Handler {
    source: String,
    url: Uri,
    timeout: Duration,
    services: Services,
    listeners: Arc<Listeners>,
    intake: Intake,
}

impl Handler {
    pub(super) fn new(
        source: &WebhookSource,
        services: Services,
        listeners: Arc<Listeners>,
        intake: Intake,
    ) -> Handler {
        let (url, timeout) = (source.handler.clone(), source.timeout);
        Handler { source: source.name.clone(), url, timeout, services, listeners, intake }
    }

    /// The request of a message, as often as it is needed.
    fn request(&self, headers: &HeaderMap, body: &Bytes) -> Request<AnyBody> {
        let mut request = Request::new(whole(body.clone(), None));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.clone();
        *request.headers_mut() = headers.clone();
        request
    }

    async fn heard(&self, message: &Message) -> (Sending, Heard) {
        let until = Instant::now() + self.timeout;
        let (headers, content) = (headers(message), Bytes::copy_from_slice(&message.body));
        match timeout_at(until, self.services.ask(|| self.request(&headers, &content))).await {
            Ok(Ok(response)) => {
                let sending = meaning(&response);
                (sending, Heard::Answer(kept(response, until).await))
            }
            Ok(Err(NoAnswer::Unreachable(why) | NoAnswer::NotTaken(why))) => {
                let away = HANDLER_AWAY_MIN + (HANDLER_AWAY_MAX - HANDLER_AWAY_MIN).mul_f64(rand::random());
                let reason = format!("the handler could not be reached: {why}");
                (Sending::NotYet { after: Some(away), reason }, Heard::Unreachable)
            }
            Ok(Err(NoAnswer::Lost(why))) => {
                (Sending::Failed { reason: format!("the handler's answer was lost: {why}") }, Heard::Lost)
            }
            Err(_) => {
                let reason = format!("the handler did not answer within {} ms", self.timeout.as_millis());
                (Sending::Failed { reason }, Heard::Late)
            }
        }
    }
}

#[async_trait]
impl Sink for Handler {
    async fn send(&self, message: &Message) -> Sending {
        let (sending, heard) = self.heard(message).await;
        // The relay says what was not accepted, and when it is tried again.
        let verdict = match &sending {
            Sending::Accepted => Verdict::Accepted,
            Sending::NotYet { .. } => Verdict::NotYet,
            Sending::Failed { .. } | Sending::Refused { .. } | Sending::Unknown { .. } => Verdict::Failed,
        };
        self.intake.signals().tried(&self.source, verdict);
        self.listeners.tell(&message.id, heard);
        sending
    }
}

/// What goes with a message: the sender's lines but for those that only the layer says, and the key under which the
/// handler knows it again.
fn headers(message: &Message) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let mut add = |name: &str, value: &str| {
        // An entity may hold what no header can.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes()))
        {
            headers.append(name, value);
        }
    };
    for (name, value) in message.headers.iter().filter(|(name, _)| !is_own(name)) {
        add(name, value);
    }
    // These two are no word of the layer: the first is the sender's, the second the id that the sender gave.
    for name in [CORRELATION_ID, CAUSATION_ID] {
        wire::line(&message.headers, name).and_then(header_id).iter().for_each(|id| add(name, id));
    }
    add(wire::MESSAGE_ID, message.id.as_str());
    message.ordering_key.iter().for_each(|key| add(wire::ORDERING_KEY, key));
    message.id.to_header().iter().for_each(|key| add(KEY_HEADER, key));
    headers
}

fn is_own(name: &str) -> bool {
    let named = |own: &HeaderName| name.eq_ignore_ascii_case(own.as_str());
    let prefixed = name.get(..OWN_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN_PREFIX));
    prefixed || name.eq_ignore_ascii_case(KEY_HEADER) || named(&onefold_http::REPLAYED)
}

fn meaning(response: &Response<Incoming>) -> Sending {
    let status = response.status();
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let asks_for_patience = status == StatusCode::TOO_EARLY
        || (status == StatusCode::SERVICE_UNAVAILABLE && retry_after.is_some());
    let reason = format!("the handler answered {}", status.as_u16());
    if status.is_success() {
        Sending::Accepted
    } else if asks_for_patience {
        let seconds = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        Sending::NotYet { after: seconds.map(Duration::from_secs), reason }
    } else {
        Sending::Failed { reason }
    }
}

/// An answer for whoever waits for it; without its body where that is too long or does not come.
async fn kept(response: Response<Incoming>, until: Instant) -> Response<Bytes> {
    let (parts, content) = response.into_parts();
    let left = until.saturating_duration_since(Instant::now());
    let content = body(content, HANDLER_ANSWER_BYTES_MAX, left).await;
    let mut headers = strip_hop_by_hop(&parts.headers);
    for own in [header::CONTENT_LENGTH, header::TRAILER, onefold_http::REPLAYED, onefold_http::OPERATION] {
        headers.remove(own);
    }
    if content.is_err() {
        headers.remove(header::CONTENT_TYPE);
        headers.remove(header::CONTENT_ENCODING);
    }
    let mut kept = Response::new(content.unwrap_or_default());
    *kept.status_mut() = parts.status;
    *kept.headers_mut() = headers;
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_core::Key;

    #[test]
    fn of_the_layers_headers_only_what_ties_a_message_to_others_goes_on_as_it_came() {
        let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let message = Message {
            id: Key::new("goes-on-under-this").expect("a key"),
            destination: "inbox/shop".into(),
            address: String::new(),
            ordering_key: None,
            headers: vec![
                line("traceparent", trace),
                line("onefold-correlation-id", "flow-7"),
                line("onefold-causation-id", "evt-1"),
                line("onefold-message-id", "another"),
                line("onefold-anything", "else"),
                line("idempotency-key", "another"),
            ],
            body: Vec::new(),
        };
        let headers = headers(&message);
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        lines.sort_unstable();
        assert_eq!(
            lines,
            [
                ("idempotency-key", "\"goes-on-under-this\""),
                ("onefold-causation-id", "evt-1"),
                ("onefold-correlation-id", "flow-7"),
                ("onefold-message-id", "goes-on-under-this"),
                ("traceparent", trace),
            ]
        );
    }
}
