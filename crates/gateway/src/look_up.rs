//! The way to the services that the gateway asks beside its upstream: GET, once answered, no redirect followed.
//!
//! What such a service says is only heard, so a request that a connection did not take is sent again.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::limits::{CONNECT_MAX, UNWRITTEN_TRIES};
use crate::upstream::{HttpClient, NoAnswer, client, no_answer, no_body};

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
        let asked = async {
            let mut tries = 1;
            loop {
                let mut request = Request::new(no_body());
                *request.method_mut() = Method::GET;
                *request.uri_mut() = url.clone();
                *request.headers_mut() = headers.clone();
                match self.0.request(request).await.map_err(|error| no_answer(&error)) {
                    Ok(response) => return Ok(response),
                    Err(NoAnswer::NotTaken(_)) if tries < UNWRITTEN_TRIES => tries += 1,
                    Err(NoAnswer::NotTaken(why) | NoAnswer::Unreachable(why) | NoAnswer::Lost(why)) => {
                        return Err(why);
                    }
                }
            }
        };
        let late = |_| format!("there was no answer within {} ms", within.as_millis());
        timeout(within, asked).await.map_err(late)?
    }
}

/// The whole body, if it comes within this time and is no longer than this.
pub(crate) async fn body(answer: Incoming, bytes_max: usize, within: Duration) -> Result<Bytes, String> {
    let late = |_| format!("the body did not end within {} ms", within.as_millis());
    let collected = timeout(within, Limited::new(answer, bytes_max).collect()).await.map_err(late)?;
    collected.map(|body| body.to_bytes()).map_err(|error| error.to_string())
}
