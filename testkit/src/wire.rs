//! HTTP/1.1 as bytes: heads and bodies read without a library between test and wire.
//!
//! Reads what the raw client and the raw upstream need: heads with their lines in order and byte for byte,
//! bodies by length, in chunks or to the end, trailers. A body that ends early is handed back as what came,
//! marked incomplete; it is never an error here, since a cut body is what many tests are about.

use std::io;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A header or trailer line: name as it came, value byte for byte (blanks around it removed).
pub type Line = (String, Vec<u8>);

/// The head of a message.
#[derive(Clone, Debug)]
pub struct Head {
    /// Request line or status line.
    pub start: String,
    /// Header lines in order.
    pub lines: Vec<Line>,
    /// All bytes up to and including the blank line.
    pub raw: Bytes,
}

impl Head {
    /// The first value of `name` as text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.lines.iter().find(|(line, _)| line.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    fn is_chunked(&self) -> bool {
        self.text("transfer-encoding").is_some_and(|coding| coding.to_ascii_lowercase().contains("chunked"))
    }

    fn length(&self) -> Option<usize> {
        self.text("content-length").and_then(|length| length.trim().parse().ok())
    }
}

/// A body as far as it came.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// The content, without chunk framing.
    pub bytes: Vec<u8>,
    /// Trailer lines.
    pub trailers: Vec<Line>,
    /// Whether the body came to its proper end.
    pub is_complete: bool,
    /// When the first byte of content was there.
    pub first_byte_at: Option<Instant>,
}

impl Body {
    fn push(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.first_byte_at.get_or_insert_with(Instant::now);
            self.bytes.extend_from_slice(bytes);
        }
    }
}

/// A TCP stream with what was read ahead.
#[derive(Debug)]
pub struct Wire {
    /// The stream; writing to it directly is fine.
    pub stream: TcpStream,
    ahead: BytesMut,
}

impl Wire {
    /// Wraps a connected stream.
    #[must_use]
    pub fn new(stream: TcpStream) -> Self {
        // A test that measures first bytes must not wait for Nagle.
        let _ = stream.set_nodelay(true);
        Self { stream, ahead: BytesMut::with_capacity(8 * 1024) }
    }

    /// Reads more; 0 at the end of the stream.
    async fn fill(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.ahead).await
    }

    /// Reads a head; `None` when the peer closed before its first byte.
    ///
    /// # Errors
    /// A reset, an end in the middle of the head, or a head that is none.
    pub async fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(end) = find(&self.ahead, b"\r\n\r\n") {
                let raw = self.ahead.split_to(end + 4).freeze();
                return parse_head(raw).map(Some);
            }
            if self.fill().await? == 0 {
                return match self.ahead.is_empty() {
                    true => Ok(None),
                    false => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed within a head")),
                };
            }
        }
    }

    /// Reads the body that `head` announces; without an announcement nothing (requests) or, with
    /// `reads_to_end`, everything up to the end of the stream (answers).
    pub async fn body(&mut self, head: &Head, reads_to_end: bool) -> Body {
        if head.is_chunked() {
            return self.chunks().await;
        }
        match head.length() {
            Some(length) => self.exactly(length).await,
            None if reads_to_end => self.rest().await,
            None => Body { is_complete: true, ..Body::default() },
        }
    }

    async fn exactly(&mut self, length: usize) -> Body {
        let mut body = Body::default();
        while body.bytes.len() < length {
            if self.ahead.is_empty() && !matches!(self.fill().await, Ok(1..)) {
                return body;
            }
            let wanted = (length - body.bytes.len()).min(self.ahead.len());
            body.push(&self.ahead.split_to(wanted));
        }
        body.is_complete = true;
        body
    }

    async fn rest(&mut self) -> Body {
        let mut body = Body::default();
        loop {
            let ahead = self.ahead.split();
            body.push(&ahead);
            match self.fill().await {
                Ok(0) => {
                    body.is_complete = true;
                    return body;
                }
                Ok(_) => {}
                Err(_) => return body,
            }
        }
    }

    async fn chunks(&mut self) -> Body {
        let mut body = Body::default();
        loop {
            let Some(size) = self.line().await.and_then(|line| chunk_size(&line)) else { return body };
            if size == 0 {
                return self.trailers(body).await;
            }
            let chunk = self.exactly(size).await;
            if body.first_byte_at.is_none() {
                body.first_byte_at = chunk.first_byte_at;
            }
            body.bytes.extend_from_slice(&chunk.bytes);
            if !chunk.is_complete || self.line().await.is_none() {
                return body;
            }
        }
    }

    async fn trailers(&mut self, mut body: Body) -> Body {
        while let Some(line) = self.line().await {
            if line.is_empty() {
                body.is_complete = true;
                break;
            }
            body.trailers.extend(parse_line(&line));
        }
        body
    }

    async fn line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = find(&self.ahead, b"\r\n") {
                let line = self.ahead.split_to(end + 2).freeze();
                return Some(line.slice(..end));
            }
            if !matches!(self.fill().await, Ok(1..)) {
                return None;
            }
        }
    }

    /// Reads until `mark` has been seen; hands back everything up to and including it, or what came before
    /// the stream ended.
    pub async fn until_bytes(&mut self, mark: &[u8]) -> Bytes {
        loop {
            if let Some(at) = find(&self.ahead, mark) {
                return self.ahead.split_to(at + mark.len()).freeze();
            }
            if !matches!(self.fill().await, Ok(1..)) {
                return self.ahead.split().freeze();
            }
        }
    }
}

/// Where `needle` begins in `hay`.
#[must_use]
pub fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}

fn parse_head(raw: Bytes) -> io::Result<Head> {
    let mut lines = raw[..raw.len() - 4].split(|byte| *byte == b'\n').map(|line| line.trim_ascii_end());
    let start = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    if !start.contains("HTTP/1.") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("not HTTP/1: {start}")));
    }
    let lines = lines.filter_map(parse_line).collect();
    Ok(Head { start, lines, raw })
}

fn parse_line(line: &[u8]) -> Option<Line> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = String::from_utf8_lossy(&line[..colon]).into_owned();
    Some((name, line[colon + 1..].trim_ascii().to_vec()))
}

fn chunk_size(line: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(line).ok()?;
    usize::from_str_radix(text.split(';').next()?.trim(), 16).ok()
}
