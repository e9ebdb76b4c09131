//! An answer as the client saw it: every byte, and when it came.

use std::time::Duration;

use serde_json::Value;

use crate::wire::Line;

/// An answer over HTTP/1.1 or HTTP/2.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header lines in order.
    pub headers: Vec<Line>,
    /// The content, without framing.
    pub body: Vec<u8>,
    /// Trailer lines.
    pub trailers: Vec<Line>,
    /// Whether the body came to its proper end.
    pub is_complete: bool,
    /// From the request's last byte to the whole head.
    pub time_to_head: Duration,
    /// From the request's last byte to the first byte of content, if any came.
    pub time_to_first_byte: Option<Duration>,
    /// From the request's last byte to the end.
    pub time_to_end: Duration,
}

impl Answer {
    /// All values of `name`, in order, byte for byte.
    #[must_use]
    pub fn lines(&self, name: &str) -> Vec<&[u8]> {
        let named = self.headers.iter().filter(|(line, _)| line.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_slice()).collect()
    }

    /// The first value of `name` as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.lines(name).first().and_then(|value| std::str::from_utf8(value).ok())
    }

    /// The body as text, lossily: for messages of assertions and for substring checks.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("body is no JSON ({error}): {self}"),
        }
    }

    /// The number `n` that the counting upstream answered.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn n(&self) -> u64 {
        match self.json().get("n").and_then(Value::as_u64) {
            Some(n) => n,
            None => panic!("no count in {self}"),
        }
    }

    /// Whether the layer marked it as a replay.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The `code` of a problem document that the layer made; `None` when it is none of the layer's.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let media_type = self.header("content-type")?;
        if !media_type.starts_with("application/problem+json") {
            return None;
        }
        let document: Value = serde_json::from_slice(&self.body).ok()?;
        let kind = document.get("type")?.as_str()?;
        kind.strip_prefix("https://onefold.dev/problems/").map(str::to_owned)
    }

    /// The operation's id out of `Onefold-Operation: /operations/{id}`.
    #[must_use]
    pub fn operation(&self) -> Option<String> {
        let place = self.header("onefold-operation")?;
        place.rsplit('/').next().map(str::to_owned)
    }

    /// `Retry-After` in whole seconds.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        self.header("retry-after").and_then(|seconds| seconds.parse().ok())
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} (complete: {}, after {:?})", self.status, self.is_complete, self.time_to_end)?;
        for (name, value) in &self.headers {
            writeln!(f, "  {name}: {}", String::from_utf8_lossy(value))?;
        }
        let shown = &self.body[..self.body.len().min(600)];
        write!(f, "  [{} bytes] {}", self.body.len(), String::from_utf8_lossy(shown))
    }
}
