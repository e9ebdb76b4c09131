//! gRPC between the services: the generated code, calls under a key, and where a service finds the key.
//!
//! A call is repeated under its key within bounds, and nothing is ever asked under a new one.

use anyhow::Context;
use bytes::Bytes;
use http_body_util::Full;
use onefold::client::{OperationKey, OperationLayer, OperationService, Profile};
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
