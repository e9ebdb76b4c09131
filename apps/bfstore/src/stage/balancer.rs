//! A balancer in front of a service: it takes in each request and each answer whole, and a [`Balance`] says what becomes
//! of them. So an answer can be lost after everything that it tells of is done, and a request can be delivered twice.
//!
//! What it does for a caller goes on when the caller goes away.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::{Service, ServiceExt};

use super::carrier::Queue;

/// Says what becomes of requests.
#[async_trait]
pub trait Balance: Send + Sync + 'static {
    /// Carries one request. `None`: the caller gets no answer.
    async fn carry(&self, service: &Backend, delivery: Delivery) -> Option<Answer>;
}

/// A request, whole.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Of HTTP.
    pub method: Method,
    /// With its query.
    pub path: String,
    /// Header lines.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// An answer, whole.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Of HTTP.
    pub status: StatusCode,
    /// Header lines.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// What comes behind it: for gRPC, how the call has ended.
    pub trailers: HeaderMap,
}

/// A service behind a balancer, or behind a carrier of events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Backend {
    name: &'static str,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Requests(Channel),
    Events(Arc<Queue>),
}

/// A balancer. It ends when it is dropped.
pub(super) struct Balancer {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Balancer {
    pub(super) async fn before(
        name: &'static str,
        service: SocketAddr,
        balance: Arc<dyn Balance>,
    ) -> anyhow::Result<Balancer> {
        let channel = Channel::from_shared(format!("http://{service}"))?.connect_lazy();
        let backend = Backend { name, way: Way::Requests(channel) };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let (backend, balance) = (backend.clone(), balance.clone());
                let serving = service_fn(move |request| carry(backend.clone(), balance.clone(), request));
                tokio::spawn(async move {
                    let serving = auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(caller), serving)
                        .await;
                    if let Err(error) = serving {
                        tracing::debug!(%error, "a caller's connection has ended");
                    }
                });
            }
        });
        Ok(Balancer { address, accepting })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

type CallerBody = BoxBody<Bytes, std::convert::Infallible>;

/// An error ends the caller's request without an answer.
async fn carry(
    backend: Backend,
    balance: Arc<dyn Balance>,
    request: Request<Incoming>,
) -> anyhow::Result<Response<CallerBody>> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let body = body.collect().await?.to_bytes();
    let delivery = Delivery { method: head.method, path, headers: head.headers, body };
    let carried = tokio::spawn(async move { balance.carry(&backend, delivery).await }).await?;
    let Some(Answer { status, headers, body, trailers }) = carried else {
        anyhow::bail!("the answer is lost");
    };
    let mut response = Response::new(match trailers.is_empty() {
        true => Full::new(body).boxed(),
        false => Full::new(body).with_trailers(std::future::ready(Some(Ok(trailers)))).boxed(),
    });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

impl Backend {
    /// The service's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn behind_broker(name: &'static str, queue: Arc<Queue>) -> Backend {
        Backend { name, way: Way::Events(queue) }
    }

    /// Whether what is delivered goes over a broker.
    pub fn is_behind_broker(&self) -> bool {
        matches!(self.way, Way::Events(_))
    }

    /// Delivers a request. An error: there was no answer, and whether it was handled is not known.
    pub async fn deliver(&self, delivery: &Delivery) -> anyhow::Result<Answer> {
        let channel = match &self.way {
            Way::Requests(channel) => channel,
            Way::Events(queue) => return queue.deliver(delivery).await,
        };
        let mut request = Request::new(Body::new(Full::new(delivery.body.clone())));
        *request.method_mut() = delivery.method.clone();
        *request.uri_mut() = delivery.path.parse()?;
        *request.headers_mut() = delivery.headers.clone();
        let mut channel = channel.clone();
        let (head, body) = channel.ready().await?.call(request).await?.into_parts();
        let body = body.collect().await?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        Ok(Answer { status: head.status, headers: head.headers, body: body.to_bytes(), trailers })
    }
}

impl Answer {
    /// An answer of this status and nothing else.
    pub fn status(status: StatusCode) -> Answer {
        Answer { status, ..Answer::default() }
    }

    /// An answer of gRPC that is an error.
    pub fn grpc(code: tonic::Code, message: &str) -> Answer {
        let (head, _) = tonic::Status::new(code, message).into_http::<Body>().into_parts();
        Answer { status: head.status, headers: head.headers, ..Answer::default() }
    }

    /// Whether it says that what was asked for is done.
    pub fn is_success(&self) -> bool {
        let said = self.trailers.get("grpc-status").or_else(|| self.headers.get("grpc-status"));
        self.status.is_success() && said.is_none_or(|status| status.as_bytes() == b"0")
    }
}
