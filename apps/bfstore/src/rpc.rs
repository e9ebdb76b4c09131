//! gRPC between the services: the generated code, calls under a key, and where a service finds the key.
//!
//! A call is repeated under its key within bounds, and nothing is ever asked under a new one. What a process knows of those
//! it calls, its budget of retries and whether it leaves them alone for a while, is at `GET /destinations`.

use anyhow::Context;
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use http_body_util::Full;
use onefold::client::{CircuitState, Destinations, OperationKey, OperationLayer, OperationService, Profile};
use serde::{Deserialize, Serialize};
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tower::Layer;

pub use generated::*;

#[path = "../proto/bfstore.rs"]
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, reason = "generated")]
mod generated;

/// Where the key is in metadata.
const KEY: &str = "idempotency-key";

/// A connection to another service that repeats calls under their keys.
pub type Peer = OperationService<Channel, fn(Bytes) -> Body>;

/// The service at this URL, which need not run yet.
pub fn peer(url: &str) -> anyhow::Result<Peer> {
    let channel = Channel::from_shared(url.to_owned()).context("the URL of a service")?.connect_lazy();
    let profile = Profile::shipped("grpc").context("the profile of gRPC is shipped")?;
    let body: fn(Bytes) -> Body = |bytes| Body::new(Full::new(bytes));
    Ok(OperationLayer::new(profile, body).destination(url).layer(channel))
}

/// What a process knows of one that it calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    /// Its URL.
    pub url: String,
    /// Attempts that were sent to it, retries included.
    pub attempts: u64,
    /// Of these, retries.
    pub retries: u64,
    /// Retries that the budget has refused.
    pub refused: u64,
    /// Calls that ended with a definite answer.
    pub successes: u64,
    /// After many failures in a row it is left alone for a while.
    pub left_alone: bool,
}

/// The page with what this process knows of those that it calls.
pub fn destinations() -> Router {
    let known = || async {
        let known = Destinations::process().snapshot().into_iter().map(|of| Known {
            url: of.origin,
            attempts: of.attempts,
            retries: of.retries,
            refused: of.refused,
            successes: of.successes,
            left_alone: of.circuit != CircuitState::Closed,
        });
        Json(known.collect::<Vec<_>>())
    };
    Router::new().route("/destinations", get(known))
}

/// A message that is sent under this key.
pub fn under<M>(key: &str, message: M) -> Result<Request<M>, Status> {
    let key = OperationKey::business(key).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let mut request = Request::new(message);
    request.extensions_mut().insert(key);
    Ok(request)
}

/// The request with the key that its message names. Metadata that says another key is refused.
pub fn keyed<M>(mut request: Request<M>, key: impl Fn(&M) -> &str) -> Result<Request<M>, Status> {
    let named = key(request.get_ref()).parse().map_err(|_| Status::invalid_argument("no key"))?;
    match request.metadata_mut().insert(KEY, named) {
        Some(said) if Some(&said) != request.metadata().get(KEY) => {
            Err(Status::invalid_argument("the message and its metadata name different keys"))
        }
        _ => Ok(request),
    }
}
