//! The way to the services that the gateway asks beside its upstream; no redirect is followed.
//!
//! A request that a connection did not take was not seen by anybody, so it is sent again.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::body::AnyBody;
use crate::limits::{CONNECT_MAX, UNWRITTEN_TRIES};
use crate::upstream::{HttpClient, NoAnswer, client, no_answer, no_body, not_switched};

/// A client for services.
#[derive(Clone)]
pub(crate) struct Services(HttpClient);

impl Services {
    pub(crate) fn new() -> Services {
        Services(client(CONNECT_MAX, true, false))
    }

    /// The head of an answer within this time; why there is none otherwise.
    pub(crate) async fn get(
        &self,
        url: &Uri,
        headers: HeaderMap,
        within: Duration,
    ) -> Result<Response<Incoming>, String> {
        let asked = self.ask(|| {
            let mut request = Request::new(no_body());
            *request.method_mut() = Method::GET;
            *request.uri_mut() = url.clone();
            *request.headers_mut() = headers.clone();
            request
        });
        let late = |_| format!("there was no answer within {} ms", within.as_millis());
        timeout(within, asked).await.map_err(late)?.map_err(NoAnswer::why)
    }

    /// The head of an answer to a request, which is made anew where a connection did not take it.
    pub(crate) async fn ask(
        &self,
        request: impl Fn() -> Request<AnyBody>,
    ) -> Result<Response<Incoming>, NoAnswer> {
        let mut tries = 1;
        loop {
            match self.0.request(request()).await.map_err(|error| no_answer(&error)) {
                Err(NoAnswer::NotTaken(_)) if tries < UNWRITTEN_TRIES => tries += 1,
                answer => return answer.and_then(not_switched),
            }
        }
    }
}

/// The whole body, if it comes within this time and is no longer than this.
pub(crate) async fn body(answer: Incoming, bytes_max: usize, within: Duration) -> Result<Bytes, String> {
    let late = |_| format!("the body did not end within {} ms", within.as_millis());
    let collected = timeout(within, Limited::new(answer, bytes_max).collect()).await.map_err(late)?;
    collected.map(|body| body.to_bytes()).map_err(|error| error.to_string())
}
