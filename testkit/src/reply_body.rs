//! Bodies of the counting upstream: whole, streamed, echoed, cut.
//!
//! A cut body ends in an error, at which the server drops the connection after what was already sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::sync::mpsc;

use crate::gate::Gate;

type Piece = Result<Frame<Bytes>, io::Error>;

/// A body made of pieces that a task hands over, or the request's own.
pub(crate) enum ReplyBody {
    Whole(Option<Bytes>),
    Pieces(mpsc::Receiver<Piece>),
    Echo(Incoming),
}

impl ReplyBody {
    /// Pieces written by `write`, which runs as a task of its own.
    pub(crate) fn written<F>(write: impl FnOnce(PieceWriter) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(write(PieceWriter { sender }));
        Self::Pieces(receiver)
    }

    pub(crate) fn events(every: Duration, events: usize, last: Option<Gate>) -> Self {
        Self::written(async move |writer: PieceWriter| {
            for event in 1..=events {
                tokio::time::sleep(every).await;
                if let (true, Some(gate)) = (event == events, &last) {
                    gate.passed().await;
                }
                writer.data(Bytes::from(format!("data: {{\"event\":{event}}}\n\n"))).await;
            }
        })
    }

    pub(crate) fn cut(sent: Bytes) -> Self {
        Self::written(async move |writer: PieceWriter| {
            writer.data(sent).await;
            // What was handed over must reach the wire before the connection falls.
            tokio::time::sleep(Duration::from_millis(50)).await;
            writer.fail().await;
        })
    }

    pub(crate) fn chunks(all: Bytes, trailers: HeaderMap) -> Self {
        Self::written(async move |writer: PieceWriter| {
            for start in (0..all.len()).step_by(CHUNK_BYTES) {
                writer.data(all.slice(start..all.len().min(start + CHUNK_BYTES))).await;
            }
            if !trailers.is_empty() {
                writer.trailers(trailers).await;
            }
        })
    }
}

const CHUNK_BYTES: usize = 16 * 1024;

/// The writing end of a body.
pub(crate) struct PieceWriter {
    sender: mpsc::Sender<Piece>,
}

// A reader that went away is no failure of the upstream: it goes on and nobody hears it.
impl PieceWriter {
    async fn data(&self, bytes: Bytes) {
        let _ = self.sender.send(Ok(Frame::data(bytes))).await;
    }

    async fn trailers(&self, trailers: HeaderMap) {
        let _ = self.sender.send(Ok(Frame::trailers(trailers))).await;
    }

    async fn fail(&self) {
        let _ = self.sender.send(Err(io::Error::other("cut on purpose"))).await;
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Pieces(pieces) => pieces.poll_recv(cx),
            Self::Echo(incoming) => Pin::new(incoming).poll_frame(cx).map_err(io::Error::other),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Pieces(_) => false,
            Self::Echo(incoming) => incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Self::Whole(bytes) => {
                http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Pieces(_) => http_body::SizeHint::default(),
            Self::Echo(incoming) => incoming.size_hint(),
        }
    }
}
