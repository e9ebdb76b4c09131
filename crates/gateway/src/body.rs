//! Bodies as the gateway hands them on.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use tokio::sync::mpsc;

pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type AnyBody = UnsyncBoxBody<Bytes, Fault>;
pub(crate) type Part = Result<Frame<Bytes>, Fault>;

/// A body that somebody else fills, frame by frame. It ends when the sender is dropped.
pub(crate) struct Filled {
    parts: mpsc::Receiver<Part>,
    left: Option<u64>,
}

impl Filled {
    /// `length`: the exact length, where it is known.
    pub(crate) fn new(parts: mpsc::Receiver<Part>, length: Option<u64>) -> Filled {
        Filled { parts, left: length }
    }
}

impl Body for Filled {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        let part = std::task::ready!(self.parts.poll_recv(cx));
        if let (Some(left), Some(Ok(frame))) = (self.left.as_mut(), part.as_ref()) {
            *left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        Poll::Ready(part)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// A body of bytes that are there, with trailers if there are any.
pub(crate) fn whole(bytes: Bytes, trailers: Option<HeaderMap>) -> AnyBody {
    match trailers {
        None => Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
        Some(trailers) => {
            let (parts, body) = mpsc::channel(2);
            // Two places for two frames: neither send can fail.
            let _ = parts.try_send(Ok(Frame::data(bytes)));
            let _ = parts.try_send(Ok(Frame::trailers(trailers)));
            Filled::new(body, None).boxed_unsync()
        }
    }
}

/// A whole answer.
pub(crate) fn answer(response: Response<Bytes>) -> Response<AnyBody> {
    response.map(|bytes| whole(bytes, None))
}
