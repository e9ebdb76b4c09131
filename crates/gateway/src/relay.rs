//! An answer on its way to the caller while it is recorded.
//!
//! The caller has the end of the answer only after the outcome is durable: whoever received it whole will find it
//! again. Until then everything but the end is handed on as it comes, so a stream is not held back. A caller who
//! hangs up or stalls changes nothing: the answer is read to its end and recorded. When the store does not take the
//! outcome, the caller still gets the real answer (SEMANTICS 3, rule 7).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use onefold_core::{Kept, Outcome};
use onefold_engine::{Attempt, Verdict};
use onefold_http::capture::{self, Recorded};
use onefold_http::{clean_trailers, strip_hop_by_hop};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::body::{AnyBody, Filled, Part, whole};
use crate::limits::{ANSWER_HELD_MAX, CALLER_STALLS_MAX, FRAMES_MAX};
use crate::perform::{Performance, Told};

/// The caller's side of an answer.
pub(crate) enum Listener {
    /// Waits for the head.
    Waiting(Told),
    /// Takes the body.
    Streaming(mpsc::Sender<Part>),
    /// Has gone.
    Gone,
}

/// Records an answer, settles the attempt with it, and hands it to the caller.
pub(crate) async fn relay(
    p: &Performance,
    attempt: Attempt,
    outcome: Outcome,
    response: Response<Incoming>,
    mut listener: Listener,
) {
    let (parts, mut body) = response.into_parts();
    let length = body.size_hint().exact();
    let fields = strip_hop_by_hop(&parts.headers);
    let mut head = Response::new(());
    *head.status_mut() = parts.status;
    *head.headers_mut() = handed_on(&fields, length, &p.operation_url(attempt.id()));
    let held = length.is_some_and(|length| length <= ANSWER_HELD_MAX);
    if !held {
        listener = listener.begin(&head, length);
    }
    let mut record = Recorder::new(p.route.contract.store_response.body_bytes_max, held);
    let mut last = None;
    let cut = loop {
        let frame = match timeout(p.gateway.options.upstream_timeout, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(None) => break None,
            Ok(Some(Err(error))) => break Some(error.to_string()),
            Err(_) => break Some("the upstream fell silent".to_owned()),
        };
        let frame = match frame.into_trailers() {
            Ok(trailers) => Frame::trailers(clean_trailers(&trailers)),
            Err(data) => data,
        };
        record.take(&frame);
        if held {
            continue;
        }
        let complete = length == Some(record.length);
        if complete && frame.is_data() {
            last = Some(frame);
        } else {
            listener = listener.hand(Ok(frame)).await;
        }
    };
    let verdict = verdict(p, outcome, parts.status, &fields, &record, cut.is_some());
    attempt.settle(verdict).await;
    match (listener, cut) {
        (Listener::Waiting(told), None) => {
            let (bytes, trailers) = record.into_whole();
            let _ = told.send(head.map(|()| whole(bytes, trailers)));
        }
        (Listener::Waiting(told), Some(why)) => {
            let (parts, stream) = mpsc::channel(FRAMES_MAX);
            let (bytes, _) = record.into_whole();
            let _ = parts.try_send(Ok(Frame::data(bytes)));
            let _ = parts.try_send(Err(why.into()));
            let _ = told.send(head.map(|()| Filled::new(stream, length).boxed_unsync()));
        }
        (listener, Some(why)) => drop(listener.hand(Err(why.into())).await),
        (listener, None) => {
            if let Some(last) = last {
                drop(listener.hand(Ok(last)).await);
            }
        }
    }
}

fn verdict(
    p: &Performance,
    outcome: Outcome,
    status: StatusCode,
    headers: &HeaderMap,
    record: &Recorder,
    cut: bool,
) -> Verdict {
    if outcome == Outcome::Unknown {
        return Verdict::unknown(format!(
            "the upstream answered {status}, which does not say whether it happened"
        ));
    }
    let rule = &p.route.contract.store_response;
    let body = if cut { Recorded::Cut } else { record.recorded(rule.body_bytes_max) };
    let kept: Kept = capture::keep(rule, &p.route.redact, status, headers, body, record.trailers.as_ref());
    Verdict::known(outcome, kept, capture::resource(headers))
}

/// The fields as they are handed on. A length is named only where it is the body's.
fn handed_on(fields: &HeaderMap, length: Option<u64>, operation_url: &str) -> HeaderMap {
    let mut handed = HeaderMap::with_capacity(fields.len() + 1);
    for (name, value) in fields {
        if !capture::is_marker(name) && (length.is_some() || name != header::CONTENT_LENGTH) {
            handed.append(name, value.clone());
        }
    }
    if let Ok(url) = HeaderValue::from_str(operation_url) {
        handed.insert(onefold_http::OPERATION, url);
    }
    handed
}

impl Listener {
    fn begin(self, head: &Response<()>, length: Option<u64>) -> Listener {
        let Listener::Waiting(told) = self else { return self };
        let (parts, stream) = mpsc::channel(FRAMES_MAX);
        let mut response: Response<AnyBody> = Response::new(Filled::new(stream, length).boxed_unsync());
        *response.status_mut() = head.status();
        *response.headers_mut() = head.headers().clone();
        match told.send(response) {
            Ok(()) => Listener::Streaming(parts),
            Err(_) => Listener::Gone,
        }
    }

    async fn hand(self, part: Part) -> Listener {
        let Listener::Streaming(parts) = self else { return self };
        match timeout(CALLER_STALLS_MAX, parts.send(part)).await {
            Ok(Ok(())) => Listener::Streaming(parts),
            Ok(Err(_)) | Err(_) => Listener::Gone,
        }
    }
}

/// What was heard of an answer's body.
struct Recorder {
    bytes: Vec<u8>,
    bytes_max: u64,
    length: u64,
    trailers: Option<HeaderMap>,
}

impl Recorder {
    /// `held`: the whole body is needed for the caller, however little of it is kept.
    fn new(bytes_max: u64, held: bool) -> Recorder {
        let bytes_max = if held { bytes_max.max(ANSWER_HELD_MAX) } else { bytes_max };
        Recorder { bytes: Vec::new(), bytes_max, length: 0, trailers: None }
    }

    fn take(&mut self, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref() {
            self.length += data.len() as u64;
            if self.length <= self.bytes_max {
                self.bytes.extend_from_slice(data);
            } else {
                self.bytes = Vec::new();
            }
        }
        if let Some(trailers) = frame.trailers_ref() {
            self.trailers = Some(trailers.clone());
        }
    }

    fn recorded(&self, kept_max: u64) -> Recorded {
        if self.length > kept_max { Recorded::TooBig } else { Recorded::Whole(self.bytes.clone()) }
    }

    fn into_whole(self) -> (Bytes, Option<HeaderMap>) {
        (self.bytes.into(), self.trailers)
    }
}
