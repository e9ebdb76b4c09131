//! Connections to other services (feature `client`): calls are repeated under their keys, within bounds, and never
//! under a new one.
//!
//! ```no_run
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # struct Checkout { #[prost(string, tag = "1")] checkout_id: String }
//! # struct OrdersClient<C>(C);
//! # impl<C> OrdersClient<C> {
//! #     fn new(connection: C) -> Self { OrdersClient(connection) }
//! #     async fn place(&mut self, _: tonic::Request<Checkout>) -> Result<tonic::Response<Checkout>, tonic::Status> { Err(tonic::Status::cancelled("")) }
//! # }
//! use onefold::grpc::client::{Connection, Correlate, channel, under};
//!
//! # async fn example(checkout: Checkout) -> Result<(), onefold::BoxError> {
//! let mut orders: OrdersClient<Connection> = OrdersClient::new(channel("http://orders:50051")?);
//! let key = checkout.checkout_id.clone();
//! orders.place(under(&key, checkout)?.correlated(&key)).await?;
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use onefold_client::{OperationKey, OperationLayer, OperationService, Profile};
use onefold_core::{CORRELATION_ID, TRACEPARENT, header_id, traceparent};
use tonic::body::Body;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint, Error};
use tonic::{Request, Status};
use tower_layer::Layer;

/// How long a connection may take to be made: shorter than an attempt, so that the attempt learns of it.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How often a connection with calls on it is asked whether it is alive.
const PING_EVERY: Duration = Duration::from_secs(20);
/// How long the answer to that may take.
const PING_MAX: Duration = Duration::from_secs(10);

/// A connection that repeats calls under their keys. It is a service for every client that tonic generates.
pub type Connection = OperationService<Channel, fn(Bytes) -> Body>;

/// The service at this URL (`http://…`), which need not run yet: it is connected to when it is called, within 5 s, and
/// one that says nothing for 30 s of a call is connected to anew. One attempt takes 20 s at most, a call with its
/// repetitions 60 s ([`Policy`](onefold_client::Policy)).
pub fn channel(url: &str) -> Result<Connection, Error> {
    let endpoint = Endpoint::from_shared(url.to_owned())?
        .connect_timeout(CONNECT_MAX)
        .http2_keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_MAX);
    Ok(over(endpoint.connect_lazy(), url))
}

/// The same over a channel with settings of its own, such as TLS. `destination` is its name where budgets and circuits
/// are counted.
pub fn over(channel: Channel, destination: &str) -> Connection {
    let profile = Profile::shipped("grpc").expect("the profile of gRPC is shipped");
    let body: fn(Bytes) -> Body = |bytes| Body::new(Full::new(bytes));
    OperationLayer::new(profile, body).destination(destination).layer(channel)
}

/// A call under a key of the business: the same in every attempt, whoever makes it.
///
/// # Errors
/// `INVALID_ARGUMENT`: the key is empty, blank or longer than 255 bytes.
pub fn under<M>(key: &str, message: M) -> Result<Request<M>, Status> {
    let key = OperationKey::business(key).map_err(|error| Status::invalid_argument(error.to_string()))?;
    let mut request = Request::new(message);
    request.extensions_mut().insert(key);
    Ok(request)
}

/// Ties calls to the other operations of one workflow, and to its trace.
pub trait Correlate {
    /// With this correlation id. One that is no visible ASCII, or over 255 bytes long, is left out.
    #[must_use]
    fn correlated(self, id: &str) -> Self;

    /// In this trace, by the `traceparent` of whoever asked. One that is malformed is left out.
    #[must_use]
    fn traced(self, traceparent: &str) -> Self;
}

impl<M> Correlate for Request<M> {
    fn correlated(mut self, id: &str) -> Request<M> {
        if let Some(id) = header_id(id).and_then(|id| MetadataValue::try_from(id).ok()) {
            self.metadata_mut().insert(CORRELATION_ID, id);
        }
        self
    }

    fn traced(mut self, said: &str) -> Request<M> {
        if let Some(said) = traceparent(said).and_then(|said| MetadataValue::try_from(said).ok()) {
            self.metadata_mut().insert(TRACEPARENT, said);
        }
        self
    }
}
