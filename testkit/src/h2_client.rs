//! A client for HTTP/2 over cleartext with prior knowledge.
//!
//! Used for what HTTP/1.1 cannot show: many exchanges on one connection, and hanging up on one of them with
//! RST_STREAM while the connection lives on.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::answer::Answer;
use crate::request::Request;
use crate::wait;

/// An HTTP/2 connection; clones share it.
#[derive(Clone, Debug)]
pub struct H2Connection {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
}

impl H2Connection {
    /// Connects and shakes hands.
    ///
    /// # Panics
    /// When the peer speaks no HTTP/2.
    pub async fn open(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).await.expect("connects");
        let io = TokioIo::new(stream);
        let (sender, connection) = handshake(TokioExecutor::new(), io).await.expect("speaks HTTP/2");
        tokio::spawn(connection);
        Self { sender, authority: to.to_string() }
    }

    /// One exchange.
    ///
    /// # Errors
    /// A reset stream or a lost connection before the head.
    pub async fn exchange(&self, request: &Request) -> Result<Answer, hyper::Error> {
        let begun = Instant::now();
        let mut sender = self.sender.clone();
        let sent = sender.send_request(self.translate(request));
        let answer = wait::within(wait::DEADLINE * 3, "an answer over HTTP/2", sent).await?;
        let time_to_head = begun.elapsed();
        let (head, body) = answer.into_parts();
        let headers = lines(&head.headers);
        let (bytes, trailers, is_complete) = match body.collect().await {
            Ok(all) => {
                let trailers = all.trailers().map(lines).unwrap_or_default();
                (all.to_bytes().to_vec(), trailers, true)
            }
            Err(_) => (Vec::new(), Vec::new(), false),
        };
        Ok(Answer {
            status: head.status.as_u16(),
            headers,
            body: bytes,
            trailers,
            is_complete,
            time_to_head,
            time_to_first_byte: None,
            time_to_end: begun.elapsed(),
        })
    }

    /// Sends `request` and resets its stream as soon as `is_time` is done.
    pub async fn reset_when(&self, request: &Request, is_time: impl Future<Output = ()>) {
        let mut sender = self.sender.clone();
        let exchange = sender.send_request(self.translate(request));
        tokio::select! {
            // Polled first, so that the request is on its way before the reset.
            biased;
            answer = exchange => panic!("answered before the reset: {answer:?}"),
            () = is_time => {}
        }
    }

    fn translate(&self, request: &Request) -> http::Request<Full<Bytes>> {
        let uri = format!("http://{}{}", self.authority, request.target);
        let mut builder = http::Request::builder().method(request.method.as_str()).uri(uri);
        for (name, value) in &request.headers {
            builder = builder.header(name.as_str(), value.as_slice());
        }
        builder.body(Full::new(Bytes::from(request.body.clone()))).expect("a valid request")
    }
}

fn lines(headers: &http::HeaderMap) -> Vec<crate::wire::Line> {
    headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}
