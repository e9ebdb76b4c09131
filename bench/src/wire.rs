//! One connection of the load generator: HTTP/1.1 as bytes.
//!
//! The request is made once and only its key is written over, and of an answer no more is read than where it ends:
//! generator, proxy and upstream share the processors, so what the generator costs is taken from the others. It does
//! not follow what no server here sends: 1xx answers, trailers, an answer that ends with its connection.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::keys::{KEY_BYTES, KeyText};

const BODY: &str =
    r#"{"item":"tea-250","quantity":2,"customer":"c-1729","total":{"amount":"42.50","currency":"EUR"}}"#;

/// What was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) status: u16,
    pub(crate) replayed: bool,
}

/// A connection that asks one question at a time.
pub(crate) struct Wire {
    stream: TcpStream,
    request: Vec<u8>,
    key_at: usize,
    buffer: Vec<u8>,
    filled: usize,
}

impl Wire {
    /// Connects.
    pub(crate) async fn connect(address: SocketAddr) -> Result<Wire> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        let head = format!(
            "POST /orders HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer bench\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nIdempotency-Key: \"",
            BODY.len()
        );
        let (key_at, key) = (head.len(), "k".repeat(KEY_BYTES));
        let request = format!("{head}{key}\"\r\n\r\n{BODY}").into_bytes();
        Ok(Wire { stream, request, key_at, buffer: vec![0; 16 << 10], filled: 0 })
    }

    /// Places the order under this key and hears the answer out.
    pub(crate) async fn ask(&mut self, key: &KeyText) -> Result<Heard> {
        self.request[self.key_at..self.key_at + KEY_BYTES].copy_from_slice(key);
        self.stream.write_all(&self.request).await.context("send a request")?;
        loop {
            self.more().await?;
            if let Some(head) = Head::read(&self.buffer[..self.filled])? {
                self.finish(&head).await?;
                return Ok(head.heard);
            }
        }
    }

    /// Reads to the end of the body and forgets the answer.
    async fn finish(&mut self, head: &Head) -> Result<()> {
        loop {
            let body = &self.buffer[head.length..self.filled];
            let end = match head.framing {
                Framing::Length(length) => (body.len() >= length).then_some(length),
                Framing::Chunked => chunks_end(body)?,
            };
            match end {
                Some(end) if head.length + end == self.filled => break,
                Some(_) => bail!("more came than was asked for"),
                None => self.more().await?,
            }
        }
        self.filled = 0;
        Ok(())
    }

    async fn more(&mut self) -> Result<()> {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.filled * 2, 0);
        }
        match self.stream.read(&mut self.buffer[self.filled..]).await.context("read an answer")? {
            0 => bail!("the connection was closed in an answer"),
            length => self.filled += length,
        }
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    heard: Heard,
    framing: Framing,
    /// Bytes of the head, its empty line included.
    length: usize,
}

impl Head {
    /// `None`: it has not come whole.
    fn read(bytes: &[u8]) -> Result<Option<Head>> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
        let digits = bytes.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        let status = digits.and_then(|digits| digits.parse().ok()).context("an answer without a status")?;
        let mut head =
            Head { heard: Heard { status, replayed: false }, framing: Framing::Length(0), length: end + 4 };
        for line in bytes[..end].split(|byte| *byte == b'\n').skip(1) {
            match line.first() {
                Some(b'c' | b'C') if starts(line, b"content-length:") => {
                    let length = std::str::from_utf8(&line[15..])?.trim();
                    head.framing = Framing::Length(length.parse().context("a content-length")?);
                }
                Some(b't' | b'T') if starts(line, b"transfer-encoding:") => head.framing = Framing::Chunked,
                Some(b'i' | b'I') if starts(line, b"idempotent-replayed:") => head.heard.replayed = true,
                _ => {}
            }
        }
        Ok(Some(head))
    }
}

fn starts(line: &[u8], name: &[u8]) -> bool {
    line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
}

/// Where the chunks end, once the last one is there.
fn chunks_end(mut body: &[u8]) -> Result<Option<usize>> {
    let whole = body.len();
    loop {
        let Some(line) = body.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let size = std::str::from_utf8(&body[..line])?.trim();
        let size = usize::from_str_radix(size, 16).context("the size of a chunk")?;
        let next = line + 1 + size + 2;
        if body.len() < next {
            return Ok(None);
        }
        body = &body[next..];
        if size == 0 {
            return Ok(Some(whole - body.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_where_its_body_ends() {
        let bytes = b"HTTP/1.1 201 Created\r\nContent-Length: 12\r\nIdempotent-Replayed: true\r\n\r\n{}";
        let head = Head::read(bytes).unwrap().unwrap();
        assert_eq!(head.heard, Heard { status: 201, replayed: true });
        assert_eq!((head.framing, head.length), (Framing::Length(12), bytes.len() - 2));
        assert_eq!(Head::read(&bytes[..40]).unwrap(), None);
        let chunked = Head::read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").unwrap().unwrap();
        assert_eq!(chunked.framing, Framing::Chunked);
        assert!(Head::read(b"nonsense\r\n\r\n").is_err());
    }

    #[test]
    fn chunks_end_after_the_empty_one() {
        let body = b"5\r\nhello\r\n0\r\n\r\n";
        assert_eq!(chunks_end(body).unwrap(), Some(body.len()));
        for cut in 0..body.len() {
            assert_eq!(chunks_end(&body[..cut]).unwrap(), None, "{cut}");
        }
    }
}
