//! A request as the test writes it: header lines in their order, several of one name if wanted.

use std::io;
use std::net::SocketAddr;

use crate::answer::Answer;
use crate::client::Connection;
use crate::wire::Line;

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Path and query as they go on the wire.
    pub target: String,
    /// Header lines in order; `Host` and the framing are added where the test gave none.
    pub headers: Vec<Line>,
    /// Content.
    pub body: Vec<u8>,
    /// Whether the content goes in chunks (of at most 16 KiB).
    pub is_chunked: bool,
    /// Trailer lines, only sent with chunks.
    pub trailers: Vec<Line>,
}

const CHUNK_BYTES: usize = 16 * 1024;

impl Request {
    /// A request without headers and body.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            is_chunked: false,
            trailers: Vec::new(),
        }
    }

    /// A POST.
    #[must_use]
    pub fn post(target: &str) -> Self {
        Self::new("POST", target)
    }

    /// A GET.
    #[must_use]
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// Adds a header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Adds `Idempotency-Key` with the value as given (quotes included or not).
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.header("Idempotency-Key", key)
    }

    /// Adds `Authorization: Bearer …`.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header("Authorization", format!("Bearer {token}"))
    }

    /// Sets the content without a media type.
    #[must_use]
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    /// Sets JSON content.
    #[must_use]
    pub fn json(self, body: impl AsRef<[u8]>) -> Self {
        self.header("Content-Type", "application/json").body(body)
    }

    /// Sends the content in chunks.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.is_chunked = true;
        self
    }

    /// Adds a trailer line; implies chunks.
    #[must_use]
    pub fn trailer(mut self, name: &str, value: &str) -> Self {
        self.trailers.push((name.to_owned(), value.as_bytes().to_vec()));
        self.chunked()
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(line, _)| line.eq_ignore_ascii_case(name))
    }

    /// The head with its blank line.
    #[must_use]
    pub fn head_bytes(&self, host: &str) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target).into_bytes();
        let mut line = |name: &str, value: &[u8]| {
            head.extend_from_slice(name.as_bytes());
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        };
        if !self.has("host") {
            line("Host", host.as_bytes());
        }
        for (name, value) in &self.headers {
            line(name, value);
        }
        let has_content = !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        if self.is_chunked && !self.has("transfer-encoding") {
            line("Transfer-Encoding", b"chunked");
        } else if has_content && !self.is_chunked && !self.has("content-length") {
            line("Content-Length", self.body.len().to_string().as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The content as it goes on the wire.
    #[must_use]
    pub fn framed_body(&self) -> Vec<u8> {
        if !self.is_chunked {
            return self.body.clone();
        }
        let mut framed = Vec::with_capacity(self.body.len() + 64);
        for chunk in self.body.chunks(CHUNK_BYTES) {
            framed.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            framed.extend_from_slice(chunk);
            framed.extend_from_slice(b"\r\n");
        }
        framed.extend_from_slice(b"0\r\n");
        for (name, value) in &self.trailers {
            framed.extend_from_slice(format!("{name}: {}\r\n", String::from_utf8_lossy(value)).as_bytes());
        }
        framed.extend_from_slice(b"\r\n");
        framed
    }

    /// Sends it over a connection of its own and reads the answer.
    ///
    /// # Errors
    /// No connection, or no whole head.
    pub async fn try_send(&self, to: SocketAddr) -> io::Result<Answer> {
        Connection::open(to).await?.exchange(self).await
    }

    /// Sends it over a connection of its own and reads the answer.
    ///
    /// # Panics
    /// When no whole head came.
    pub async fn send(&self, to: SocketAddr) -> Answer {
        match self.try_send(to).await {
            Ok(answer) => answer,
            Err(error) => panic!("no answer to {} {}: {error}", self.method, self.target),
        }
    }
}
