//! A tower layer for tonic and every other service of `http::Request`: repeats a request under the key that stands in
//! its extensions.
//!
//! The request is read into memory first (bounded), so that every attempt sends the same bytes; its answer is read
//! whole, trailers included, since for gRPC they say how it ended. That suits unary calls and not streams: leave those
//! outside of the layer. A request without an [`OperationKey`] in its extensions is sent again only when its method is
//! idempotent, or when nothing of it was sent.
//!
//! A key that is kept over a crash comes from [`Intentions::begin`](crate::Intentions::begin); finish the intention
//! when [`Told::verdict`] is final.
//!
//! An operation that ends without an answer is an error of the service: [`NotSettled`], or why it could not be sent.
//! With an answer, how it ended stands in the response's extensions as [`Told`].

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, request};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tower_layer::Layer;
use tower_service::Service;

use crate::OperationKey;
use crate::answer::{Answer, NotSettled};
use crate::call::{Call, Past, Stopped, Verdict};
use crate::destination::{Destinations, origin};
use crate::drive::{NoAnswer, Transport, drive};
use crate::limits::{ANSWER_BYTES_MAX, REQUEST_BYTES_MAX};
use crate::policy::{Policy, Repeat};
use crate::profile::{Carrier, Profile};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes [`OperationService`]s. `F` makes the inner service's request body of bytes.
#[derive(Clone)]
pub struct OperationLayer<F> {
    settings: Arc<Settings>,
    body: F,
}

#[derive(Clone)]
struct Settings {
    profile: Profile,
    policy: Policy,
    destinations: Arc<Destinations>,
    destination: Option<String>,
}

/// Sends each request until it is settled.
#[derive(Clone)]
pub struct OperationService<S, F> {
    inner: S,
    settings: Arc<Settings>,
    body: F,
}

/// How an operation ended, in the extensions of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// What is known about it.
    pub verdict: Verdict,
    /// Why nothing more was tried.
    pub stopped: Stopped,
    /// The answer is that of an earlier attempt.
    pub replayed: bool,
    /// How often the request was sent.
    pub attempts: u32,
    /// Whether the same intention may be tried under a new key.
    pub safe_to_use_new_key: bool,
}

impl<F> OperationLayer<F> {
    /// A layer for this provider. `body` makes the inner service's request body of bytes; for tonic
    /// `|bytes| tonic::body::Body::new(http_body_util::Full::new(bytes))`.
    pub fn new(profile: Profile, body: F) -> OperationLayer<F> {
        let settings = Settings {
            profile,
            policy: Policy::default(),
            destinations: Destinations::process(),
            destination: None,
        };
        OperationLayer { settings: Arc::new(settings), body }
    }

    /// The bounds of each operation. None goes on for longer than the provider of the profile remembers its key: the
    /// deadline ends there.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> OperationLayer<F> {
        Arc::make_mut(&mut self.settings).policy = policy;
        self
    }

    /// Budgets and circuits. Default: those of the process.
    #[must_use]
    pub fn destinations(mut self, destinations: Arc<Destinations>) -> OperationLayer<F> {
        Arc::make_mut(&mut self.settings).destinations = destinations;
        self
    }

    /// The destination's name, where requests do not carry their origin: those of tonic do not.
    #[must_use]
    pub fn destination(mut self, origin: impl Into<String>) -> OperationLayer<F> {
        Arc::make_mut(&mut self.settings).destination = Some(origin.into());
        self
    }
}

impl<S, F: Clone> Layer<S> for OperationLayer<F> {
    type Service = OperationService<S, F>;

    fn layer(&self, inner: S) -> OperationService<S, F> {
        let mut settings = self.settings.clone();
        if let Some(window) = settings.profile.outlasted_by(settings.policy.deadline) {
            Arc::make_mut(&mut settings).policy.deadline = window;
        }
        OperationService { inner, settings, body: self.body.clone() }
    }
}

impl<S, F, In, Out, Back> Service<Request<In>> for OperationService<S, F>
where
    S: Service<Request<Out>, Response = Response<Back>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    F: Fn(Bytes) -> Out + Clone + Send + 'static,
    In: Body + Send + 'static,
    In::Data: Send,
    In::Error: Into<BoxError>,
    Out: Send + 'static,
    Back: Body + Send + 'static,
    Back::Data: Send,
    Back::Error: Into<BoxError>,
{
    type Response = Response<OperationBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Asked before each attempt, of the clone that sends it.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<In>) -> Self::Future {
        let (inner, settings, body) = (self.inner.clone(), self.settings.clone(), self.body.clone());
        Box::pin(perform(inner, settings, body, request))
    }
}

async fn perform<S, F, In, Out, Back>(
    inner: S,
    settings: Arc<Settings>,
    body: F,
    request: Request<In>,
) -> Result<Response<OperationBody>, BoxError>
where
    S: Service<Request<Out>, Response = Response<Back>> + Send,
    S::Future: Send,
    S::Error: Into<BoxError>,
    F: Fn(Bytes) -> Out + Send,
    In: Body + Send,
    In::Data: Send,
    In::Error: Into<BoxError>,
    Out: Send,
    Back: Body + Send,
    Back::Data: Send,
    Back::Error: Into<BoxError>,
{
    let (mut head, given) = request.into_parts();
    let key = head.extensions.get::<OperationKey>().cloned();
    if let Some(key) = &key {
        carry(&mut head, key, &settings.profile)?;
    }
    let has_key = key.is_some();
    let bytes = Limited::new(given, REQUEST_BYTES_MAX).collect().await?.to_bytes();
    let past = if key.is_some_and(|key| key.was_used()) { Past::Perhaps } else { Past::Fresh };
    let call = Call::new(settings.policy, Repeat::of(&head.method, has_key)).after(past);
    let name = settings.destination.clone().unwrap_or_else(|| origin(&head.uri));
    let destination = settings.destinations.of(&name);
    let mut attempt = Attempt { inner, head, bytes, body };
    let ended = drive(call, &destination, &settings.profile, &mut attempt, &|_| {}).await;
    let told = Told {
        verdict: ended.verdict,
        stopped: ended.stopped,
        replayed: ended.replayed,
        attempts: ended.attempts,
        safe_to_use_new_key: ended.safe_to_use_new_key,
    };
    let Some(answer) = ended.answer else {
        let Told { verdict, stopped, attempts, .. } = told;
        return Err(NotSettled { verdict, stopped, attempts }.into());
    };
    let mut response = Response::new(OperationBody::new(answer.body, answer.trailers));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response.extensions_mut().insert(told);
    Ok(response)
}

/// Puts the key into its header.
fn carry(head: &mut request::Parts, key: &OperationKey, profile: &Profile) -> Result<(), BoxError> {
    let Some(Carrier::Header { name, .. }) = &profile.carrier else {
        return Err(format!("{} takes no key in a header", profile.name).into());
    };
    if head.headers.contains_key(name) {
        return Err(format!("the request has a header {name} already").into());
    }
    let mut value = HeaderValue::try_from(profile.fit(key)?)?;
    value.set_sensitive(true);
    head.headers.insert(name, value);
    Ok(())
}

/// One request, and the service.
struct Attempt<S, F> {
    inner: S,
    head: request::Parts,
    bytes: Bytes,
    body: F,
}

impl<S, F, Out, Back> Attempt<S, F>
where
    S: Service<Request<Out>, Response = Response<Back>> + Send,
    S::Future: Send,
    S::Error: Into<BoxError>,
    F: Fn(Bytes) -> Out + Send,
    Out: Send,
    Back: Body + Send,
    Back::Data: Send,
    Back::Error: Into<BoxError>,
{
    async fn exchange(&mut self, head: request::Parts, bytes: Bytes) -> Result<Answer, NoAnswer> {
        // A service that is not ready has not been given the request.
        let ready = poll_fn(|context| self.inner.poll_ready(context)).await;
        ready.map_err(|error| NoAnswer::NotSent(described(&*error.into())))?;
        let request = Request::from_parts(head, (self.body)(bytes));
        let sent = self.inner.call(request).await;
        let (head, body) = sent.map_err(|error| no_answer(error.into()))?.into_parts();
        let (body, is_cut) = match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(body) => (body, false),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(NoAnswer::Lost("the answer is too large for this layer".into()));
            }
            Err(error) => return Err(NoAnswer::Lost(described(&*error))),
        };
        let trailers = body.trailers().cloned().unwrap_or_default();
        Ok(Answer { status: head.status, headers: head.headers, trailers, body: body.to_bytes(), is_cut })
    }
}

impl<S, F, Out, Back> Transport for Attempt<S, F>
where
    S: Service<Request<Out>, Response = Response<Back>> + Send,
    S::Future: Send,
    S::Error: Into<BoxError>,
    F: Fn(Bytes) -> Out + Send,
    Out: Send,
    Back: Body + Send,
    Back::Data: Send,
    Back::Error: Into<BoxError>,
{
    async fn send(&mut self) -> Result<Answer, NoAnswer> {
        self.exchange(self.head.clone(), self.bytes.clone()).await
    }

    async fn page(&mut self, path: &str) -> Option<Answer> {
        let mut head = self.head.clone();
        let mut uri = std::mem::take(&mut head.uri).into_parts();
        uri.path_and_query = Some(path.parse().ok()?);
        head.uri = http::Uri::from_parts(uri).ok()?;
        head.method = http::Method::GET;
        head.headers.remove(http::header::CONTENT_TYPE);
        head.headers.remove(http::header::CONTENT_LENGTH);
        self.exchange(head, Bytes::new()).await.ok()
    }
}

/// A refused connection is one that was never made; of every other error it is not known.
fn no_answer(error: BoxError) -> NoAnswer {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
    while let Some(at) = cause {
        let refused = |io: &std::io::Error| io.kind() == std::io::ErrorKind::ConnectionRefused;
        if at.downcast_ref::<std::io::Error>().is_some_and(refused) {
            return NoAnswer::NotSent(described(&*error));
        }
        cause = at.source();
    }
    NoAnswer::Lost(described(&*error))
}

fn described(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The body of an answer that was read whole: its bytes, then its trailers.
#[derive(Debug, Default)]
pub struct OperationBody {
    bytes: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl OperationBody {
    fn new(bytes: Bytes, trailers: HeaderMap) -> OperationBody {
        OperationBody {
            bytes: Some(bytes).filter(|bytes| !bytes.is_empty()),
            trailers: Some(trailers).filter(|trailers| !trailers.is_empty()),
        }
    }
}

impl Body for OperationBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.bytes.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
