//! A raw HTTP/1.1 client over TCP.
//!
//! Writes exactly the bytes that the test asks for and hands back exactly the bytes that came: nothing is
//! repaired, followed, retried or decoded but the framing. Dropping a [`Connection`] hangs up.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::answer::Answer;
use crate::request::Request;
use crate::wire::{Head, Wire};

/// How long one answer may take before the test gives up on it.
const ANSWER_DEADLINE: Duration = Duration::from_secs(90);

/// A connection that may carry several exchanges.
#[derive(Debug)]
pub struct Connection {
    /// The wire, for tests that read or write bytes themselves.
    pub wire: Wire,
    host: String,
    sent_at: Instant,
    method: String,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn open(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        Ok(Self {
            wire: Wire::new(stream),
            host: to.to_string(),
            sent_at: Instant::now(),
            method: "GET".to_owned(),
        })
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.wire.stream.write_all(bytes).await?;
        self.sent_at = Instant::now();
        Ok(())
    }

    /// Writes the head of `request` alone.
    ///
    /// # Errors
    /// Those of the connection.
    pub async fn send_head(&mut self, request: &Request) -> io::Result<()> {
        self.method.clone_from(&request.method);
        self.send_bytes(&request.head_bytes(&self.host.clone())).await
    }

    /// Writes `request` whole.
    ///
    /// # Errors
    /// Those of the connection. An answer that came before the body was written is still readable.
    pub async fn send(&mut self, request: &Request) -> io::Result<()> {
        self.method.clone_from(&request.method);
        let mut bytes = request.head_bytes(&self.host.clone());
        bytes.extend_from_slice(&request.framed_body());
        self.send_bytes(&bytes).await
    }

    /// Reads the head of an answer, 1xx answers passed over.
    ///
    /// # Errors
    /// When the peer closes before a whole head, or none comes in time.
    pub async fn read_head(&mut self) -> io::Result<(u16, Head)> {
        loop {
            let (status, head) = self.read_any_head().await?;
            if status >= 200 || status == 101 {
                return Ok((status, head));
            }
        }
    }

    /// Reads the next head, 1xx answers included.
    ///
    /// # Errors
    /// When the peer closes before a whole head, or none comes in time.
    pub async fn read_any_head(&mut self) -> io::Result<(u16, Head)> {
        let head = tokio::time::timeout(ANSWER_DEADLINE, self.wire.head()).await??;
        let head = head.ok_or_else(|| {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed without an answer")
        })?;
        let status = head.start.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, head.start.clone()))?;
        Ok((status, head))
    }

    /// Reads an answer; a body that was cut is handed back as incomplete.
    ///
    /// # Errors
    /// When no whole head comes.
    pub async fn read_answer(&mut self) -> io::Result<Answer> {
        let (status, head) = self.read_head().await?;
        let time_to_head = self.sent_at.elapsed();
        let has_body = self.method != "HEAD" && !matches!(status, 101 | 204 | 304);
        let body = match has_body {
            true => tokio::time::timeout(ANSWER_DEADLINE, self.wire.body(&head, true)).await?,
            false => crate::wire::Body { is_complete: true, ..Default::default() },
        };
        Ok(Answer {
            status,
            headers: head.lines,
            body: body.bytes,
            trailers: body.trailers,
            is_complete: body.is_complete,
            time_to_head,
            time_to_first_byte: body.first_byte_at.map(|at| at - self.sent_at),
            time_to_end: self.sent_at.elapsed(),
        })
    }

    /// One request, one answer. An answer that comes although the request could not be written whole (a
    /// refusal before the end of a big body) counts.
    ///
    /// # Errors
    /// When no whole head comes.
    pub async fn exchange(&mut self, request: &Request) -> io::Result<Answer> {
        let sent = self.send(request).await;
        match (self.read_answer().await, sent) {
            (Ok(answer), _) => Ok(answer),
            (Err(_), Err(error)) | (Err(error), Ok(())) => Err(error),
        }
    }

    /// Hangs up at once: whatever the peer still sends is answered with a reset.
    pub fn hang_up(self) {
        drop(self);
    }
}
