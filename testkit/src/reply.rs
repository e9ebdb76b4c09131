//! What the counting upstream is told to answer.
//!
//! A reply is data: how long to wait and before which gate, before and after the effect, and what to send.
//! The effect is the addition to the count; it happens between the two waits unless the reply closes first.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use crate::gate::Gate;
use crate::upstream::Seen;

/// How a cut body announces what never comes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Missing {
    /// `Content-Length` names this many bytes more than are sent.
    Length(usize),
    /// Chunks without the closing one.
    LastChunk,
}

/// What follows the head.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// `{"n":<count>}`.
    Count,
    Bytes(Bytes),
    /// Bytes in chunks, with no announced length.
    Chunks(Bytes),
    /// Server-sent events `data: {"event":<i>}`, the first after one pause; before the last one a gate.
    Events {
        every: Duration,
        events: usize,
        last: Option<Gate>,
    },
    Cut {
        sent: Bytes,
        missing: Missing,
    },
    /// The request's body as it comes.
    Echo,
    /// 101, then every byte comes back.
    Upgrade,
}

/// When the connection is closed without an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Close {
    Never,
    BeforeEffect,
    AfterEffect,
}

/// One scripted reply.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) before: Wait,
    pub(crate) after: Wait,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) trailers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) content: Content,
    pub(crate) close: Close,
    pub(crate) effect_if: Option<EffectIf>,
}

/// Whether a request has an effect.
#[derive(Clone)]
pub(crate) struct EffectIf(Arc<dyn Fn(&Seen) -> bool + Send + Sync>);

impl fmt::Debug for EffectIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EffectIf")
    }
}

/// A wait: time, and a gate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wait {
    pub(crate) time: Duration,
    pub(crate) gate: Option<Gate>,
}

impl Wait {
    pub(crate) async fn over(&self) {
        if !self.time.is_zero() {
            tokio::time::sleep(self.time).await;
        }
        if let Some(gate) = &self.gate {
            gate.passed().await;
        }
    }
}

impl Reply {
    /// 200 and the count.
    #[must_use]
    pub fn count() -> Self {
        Self::status(200)
    }

    /// This status and the count; 1xx, 204, 205 and 304 without a body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        let content = match status {
            204 | 205 | 304 => Content::Bytes(Bytes::new()),
            _ => Content::Count,
        };
        Self {
            before: Wait::default(),
            after: Wait::default(),
            status,
            headers: Vec::new(),
            trailers: Vec::new(),
            content,
            close: Close::Never,
            effect_if: None,
        }
    }

    /// The request's body comes back while it is still being sent.
    #[must_use]
    pub fn echo() -> Self {
        Self::count().with(Content::Echo)
    }

    /// Switches protocols and sends every byte back.
    #[must_use]
    pub fn upgrade() -> Self {
        Self::status(101).with(Content::Upgrade)
    }

    /// Server-sent events, one after each pause.
    #[must_use]
    pub fn events(every: Duration, events: usize) -> Self {
        let content = Content::Events { every, events, last: None };
        Self::count().with(content).header("content-type", "text/event-stream")
    }

    /// Server-sent events; the last one comes only when the gate is open.
    #[must_use]
    pub fn events_until(every: Duration, events: usize, last: &Gate) -> Self {
        let content = Content::Events { every, events, last: Some(last.clone()) };
        Self::count().with(content).header("content-type", "text/event-stream")
    }

    fn with(mut self, content: Content) -> Self {
        self.content = content;
        self
    }

    /// Waits before the effect.
    #[must_use]
    pub fn delay_before(mut self, time: Duration) -> Self {
        self.before.time = time;
        self
    }

    /// Asks, once the wait before it is over, whether the request has its effect; it is answered all the same.
    #[must_use]
    pub fn effect_if(mut self, has: impl Fn(&Seen) -> bool + Send + Sync + 'static) -> Self {
        self.effect_if = Some(EffectIf(Arc::new(has)));
        self
    }

    pub(crate) fn has_effect(&self, seen: &Seen) -> bool {
        self.effect_if.as_ref().is_none_or(|has| (has.0)(seen))
    }

    /// Waits between the effect and the answer.
    #[must_use]
    pub fn delay_after(mut self, time: Duration) -> Self {
        self.after.time = time;
        self
    }

    /// Stands before the gate before the effect.
    #[must_use]
    pub fn hold_before(mut self, gate: &Gate) -> Self {
        self.before.gate = Some(gate.clone());
        self
    }

    /// Stands before the gate between the effect and the answer.
    #[must_use]
    pub fn hold_after(mut self, gate: &Gate) -> Self {
        self.after.gate = Some(gate.clone());
        self
    }

    /// Adds a header line.
    ///
    /// # Panics
    /// When it is no valid header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push(parse(name, value.as_ref()));
        self
    }

    /// Adds a trailer line.
    ///
    /// # Panics
    /// When it is no valid field.
    #[must_use]
    pub fn trailer(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.trailers.push(parse(name, value.as_ref()));
        self
    }

    /// Sends these bytes.
    #[must_use]
    pub fn body(self, body: impl AsRef<[u8]>) -> Self {
        self.with(Content::Bytes(Bytes::copy_from_slice(body.as_ref())))
    }

    /// Sends these bytes as JSON.
    #[must_use]
    pub fn json(self, body: impl AsRef<[u8]>) -> Self {
        self.header("content-type", "application/json").body(body)
    }

    /// Sends these bytes without announcing their length.
    #[must_use]
    pub fn chunked(self, body: impl AsRef<[u8]>) -> Self {
        self.with(Content::Chunks(Bytes::copy_from_slice(body.as_ref())))
    }

    /// Sends these bytes and then cuts the connection in the middle of the body.
    #[must_use]
    pub fn cut(self, sent: impl AsRef<[u8]>, missing: Missing) -> Self {
        self.with(Content::Cut { sent: Bytes::copy_from_slice(sent.as_ref()), missing })
    }

    /// Reads the request and closes: no effect, no answer.
    #[must_use]
    pub fn close_before_effect(mut self) -> Self {
        self.close = Close::BeforeEffect;
        self
    }

    /// Does the effect and closes without an answer.
    #[must_use]
    pub fn close_after_effect(mut self) -> Self {
        self.close = Close::AfterEffect;
        self
    }

    /// Follows the orders in a query: `delay_ms`, `after_ms`, `status`, `close=before|after`.
    pub(crate) fn obey_query(mut self, query: &str) -> Self {
        for (name, value) in query.split('&').filter_map(|order| order.split_once('=')) {
            let ms = value.parse().map(Duration::from_millis);
            match (name, value) {
                ("delay_ms", _) => self.before.time = ms.expect("delay_ms takes milliseconds"),
                ("after_ms", _) => self.after.time = ms.expect("after_ms takes milliseconds"),
                ("status", _) => self.status = value.parse().expect("status takes a code"),
                ("close", "before") => self.close = Close::BeforeEffect,
                ("close", "after") => self.close = Close::AfterEffect,
                _ => {}
            }
        }
        self
    }
}

fn parse(name: &str, value: &[u8]) -> (HeaderName, HeaderValue) {
    let value = HeaderValue::from_bytes(value).expect("a valid field value");
    (name.parse().expect("a valid field name"), value)
}
