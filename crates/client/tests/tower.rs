//! The layer around tower services: tonic's channel over a real connection, and services that fail as told.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http_body_util::{BodyExt, Full};
use onefold_client::{
    BudgetSettings, CircuitSettings, Destinations, NotSettled, OperationKey, OperationLayer, Policy, Profile,
    Told, Verdict,
};
use onefold_testkit::{Reply, Upstream};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower_layer::Layer;
use tower_service::Service;

const METHOD: &str = "/orders.Orders/Place";

fn layer<F>(profile: &str, body: F) -> OperationLayer<F> {
    let mut policy = Policy::default();
    policy.backoff.first = Duration::from_millis(5);
    let destinations = Destinations::new(BudgetSettings::default(), CircuitSettings::default());
    OperationLayer::new(Profile::shipped(profile).unwrap(), body).policy(policy).destinations(destinations)
}

fn key() -> OperationKey {
    OperationKey::business("checkout-7f82").unwrap()
}

/// Messages as they are.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;
    fn encoder(&mut self) -> Raw {
        Raw
    }
    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;
    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// One unary call through tonic, the layer and a real connection.
async fn place(server: &Upstream, key: Option<OperationKey>) -> Result<tonic::Response<Bytes>, Status> {
    let channel = Channel::from_shared(server.url()).unwrap().connect_lazy();
    let body = |bytes: Bytes| tonic::body::Body::new(Full::new(bytes));
    let service = layer("grpc", body).destination(server.url()).layer(channel);
    let mut client = tonic::client::Grpc::new(service);
    client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let mut request = tonic::Request::new(Bytes::from_static(b"book"));
    if let Some(key) = key {
        request.extensions_mut().insert(key);
    }
    client.unary(request, METHOD.parse().unwrap(), Raw).await
}

/// A message in gRPC's frame.
fn message(text: &str) -> Reply {
    let mut frame = vec![0];
    frame.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
    frame.extend(text.as_bytes());
    Reply::status(200).header("content-type", "application/grpc").chunked(frame)
}

fn grpc(status: &str) -> Reply {
    Reply::status(200).header("content-type", "application/grpc").header("grpc-status", status).body("")
}

#[tokio::test]
async fn unary_call_of_tonic_is_repeated_under_its_key_with_the_same_bytes() {
    let server = Upstream::start().await;
    server.next(METHOD, grpc("14"));
    server.next(METHOD, message("half").trailer("grpc-status", "13"));
    server.next(METHOD, message("order 1").trailer("grpc-status", "0"));
    let answer = place(&server, Some(key())).await.unwrap();
    assert_eq!(answer.get_ref(), "order 1");
    let told = answer.extensions().get::<Told>().unwrap();
    assert_eq!((told.verdict, told.attempts), (Verdict::Succeeded, 3));
    let seen = server.seen_at(METHOD);
    assert!(seen.iter().all(|seen| seen.header("idempotency-key") == Some("checkout-7f82")));
    assert!(seen.iter().all(|seen| seen.body == b"\0\0\0\0\x04book"[..]));
    assert_eq!(seen.len(), 3);
}

#[tokio::test]
async fn unary_call_without_a_key_is_sent_once() {
    let server = Upstream::start().await;
    server.always(METHOD, grpc("14"));
    let status = place(&server, None).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(server.seen_at(METHOD).len(), 1);
}

#[tokio::test]
async fn definite_no_of_a_grpc_service_is_handed_on() {
    let server = Upstream::start().await;
    server.always(METHOD, grpc("9"));
    assert_eq!(place(&server, Some(key())).await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(server.seen_at(METHOD).len(), 1);
}

type Outcome = Result<u16, std::io::ErrorKind>;

/// The key and the body of a request.
type Asked = (Option<String>, Bytes);

/// A service that answers as told, and keeps what it was asked.
#[derive(Clone, Default)]
struct Scripted {
    outcomes: Arc<Mutex<Vec<Outcome>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Scripted {
    fn new(outcomes: &[Outcome]) -> Scripted {
        let outcomes = outcomes.iter().rev().copied().collect();
        Scripted { outcomes: Arc::new(Mutex::new(outcomes)), ..Scripted::default() }
    }
}

impl Service<http::Request<Bytes>> for Scripted {
    type Response = http::Response<Full<Bytes>>;
    type Error = std::io::Error;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Bytes>) -> Self::Future {
        let key = request.headers().get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
        self.asked.lock().unwrap().push((key, request.into_body()));
        ready(match self.outcomes.lock().unwrap().pop().expect("asked too often") {
            Ok(status) => Ok(http::Response::builder().status(status).body(Full::from("answer")).unwrap()),
            Err(kind) => Err(kind.into()),
        })
    }
}

async fn through(
    service: &Scripted,
    key: Option<OperationKey>,
) -> Result<http::Response<onefold_client::OperationBody>, Box<dyn std::error::Error + Send + Sync>> {
    let mut request =
        http::Request::post("http://api.example/orders").body(Full::<Bytes>::from("book")).unwrap();
    if let Some(key) = key {
        request.extensions_mut().insert(key);
    }
    layer("onefold", |bytes| bytes).layer(service.clone()).call(request).await
}

#[tokio::test]
async fn any_service_is_repeated_under_the_key_in_the_extensions() {
    use std::io::ErrorKind::{BrokenPipe, ConnectionRefused};
    let service = Scripted::new(&[Err(ConnectionRefused), Err(BrokenPipe), Ok(201)]);
    let answer = through(&service, Some(key())).await.unwrap();
    assert_eq!(answer.extensions().get::<Told>().unwrap().attempts, 3);
    let body: Result<_, Infallible> = answer.into_body().collect().await;
    assert_eq!(body.unwrap().to_bytes(), "answer");
    let asked = service.asked.lock().unwrap();
    let expected = (Some("\"checkout-7f82\"".to_owned()), Bytes::from("book"));
    assert!(asked.iter().all(|asked| *asked == expected), "{asked:?}");
}

#[tokio::test]
async fn without_a_key_only_a_refused_connection_is_tried_again() {
    use std::io::ErrorKind::{BrokenPipe, ConnectionRefused};
    let service = Scripted::new(&[Err(ConnectionRefused), Err(BrokenPipe)]);
    let error = through(&service, None).await.unwrap_err();
    let ended = error.downcast_ref::<NotSettled>().unwrap();
    assert_eq!((ended.verdict, ended.attempts), (Verdict::OutcomeUnknown, 2));
}
