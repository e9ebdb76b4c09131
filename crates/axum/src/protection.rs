//! What one route is protected by, and the layer that does it.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Request};
use onefold_core::IdentityKey;
use onefold_core::contract::{KeyRule, ScopeSource};
use onefold_http::{Missing, OPERATION, TokenRule, Trust, scope};
use onefold_library::{AtomicStore, Onefold, Operation, Scope};
use tower::{Layer, Service};

use crate::OPERATIONS;
use crate::guard::{self, Admitted};

/// The longest protected request, in bytes, unless told otherwise: it is held in memory until it is compared.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Whether the peer of a request is a proxy that may set tenant headers.
type TrustsPeer = Arc<dyn Fn(&Request<Body>) -> bool + Send + Sync>;

/// The protection of one route: a layer. Cheap to clone.
#[derive(Clone)]
pub struct Protection(pub(crate) Arc<Shared>);

#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) operation: Operation,
    pub(crate) scope: Vec<ScopeSource>,
    pub(crate) key: KeyRule,
    pub(crate) secret: IdentityKey,
    pub(crate) request_bytes_max: usize,
    tokens: TokenRule,
    trusts_peer: TrustsPeer,
    now: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Protection").field(&self.0.operation.contract().operation).finish()
    }
}

impl Protection {
    /// Protects a route by this operation. `scope` says whose key it is: at least one part, or
    /// [`ScopeSource::Shared`] alone, by explicit choice.
    ///
    /// # Panics
    /// Without a scope, or with one that this layer cannot read (segments of the path).
    pub fn new<S: AtomicStore>(
        onefold: &Onefold<S>,
        operation: Operation,
        scope: impl IntoIterator<Item = ScopeSource>,
    ) -> Protection {
        let scope: Vec<ScopeSource> = scope.into_iter().collect();
        assert!(!scope.is_empty(), "a protected route says whose key it is");
        let shared = scope.contains(&ScopeSource::Shared);
        assert!(!shared || scope.len() == 1, "\"shared\" stands alone: it means everybody");
        let by_path = scope.iter().any(|source| matches!(source, ScopeSource::Path(_)));
        assert!(!by_path, "a segment of the path is no scope that this layer can read");
        let engine = onefold.engine().clone();
        let secret = engine.identity_key().clone();
        Protection(Arc::new(Shared {
            key: operation.contract().key.clone(),
            operation,
            scope,
            secret,
            request_bytes_max: REQUEST_BYTES_MAX,
            tokens: TokenRule::default(),
            trusts_peer: Arc::new(|_| false),
            now: Arc::new(move || engine.unix_time()),
        }))
    }

    fn with(mut self, set: impl FnOnce(&mut Shared)) -> Protection {
        set(Arc::make_mut(&mut self.0));
        self
    }

    /// A request without a key goes to the handler, which finds no [`Protected`](crate::Protected) and shares a record
    /// with nobody.
    pub fn key_optional(self) -> Protection {
        self.with(|shared| shared.key.required = false)
    }

    /// The headers that may carry the key, instead of `Idempotency-Key`. Those that are there must agree.
    pub fn key_headers(self, names: impl IntoIterator<Item = impl Into<String>>) -> Protection {
        self.with(|shared| shared.key.headers = names.into_iter().map(Into::into).collect())
    }

    /// The longest protected request, in bytes; a longer one is refused with 413. 1 MiB by default.
    pub fn request_bytes_max(self, bytes: usize) -> Protection {
        self.with(|shared| shared.request_bytes_max = bytes)
    }

    /// Which tokens are believed, for [`ScopeSource::Claim`]. None by default.
    pub fn tokens(self, tokens: TokenRule) -> Protection {
        self.with(|shared| shared.tokens = tokens)
    }

    /// Which peers may set tenant headers, for [`ScopeSource::Header`]. Nobody by default.
    pub fn trust_peers(self, trusts: impl Fn(&Request<Body>) -> bool + Send + Sync + 'static) -> Protection {
        self.with(|shared| shared.trusts_peer = Arc::new(trusts))
    }
}

impl Shared {
    pub(crate) fn trusts(&self, request: &Request<Body>) -> bool {
        (self.trusts_peer)(request)
    }

    /// Whose key it is.
    pub(crate) fn scope_of(&self, headers: &HeaderMap, trusted: bool) -> Result<Scope, Missing> {
        let trust = Trust { proxy: trusted, tokens: &self.tokens, now: (self.now)() };
        scope(&self.scope, headers, &[], trust, &self.secret)
    }
}

impl<S> Layer<S> for Protection {
    type Service = Protect<S>;

    fn layer(&self, inner: S) -> Protect<S> {
        Protect { shared: self.0.clone(), inner }
    }
}

/// A protected service.
#[derive(Clone)]
pub struct Protect<S> {
    shared: Arc<Shared>,
    inner: S,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl<S> Service<Request<Body>> for Protect<S>
where
    S: Service<Request<Body>, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        let shared = self.shared.clone();
        // The one that was asked whether it is ready is the one that is called.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        Box::pin(async move {
            match guard::admit(&shared, request).await {
                Ok(Admitted { request, operation }) => {
                    let mut response = inner.call(request).await?;
                    let url =
                        operation.and_then(|id| HeaderValue::try_from(format!("{OPERATIONS}/{id}")).ok());
                    if let Some(url) = url {
                        response.headers_mut().insert(OPERATION, url);
                    }
                    Ok(response)
                }
                Err(problem) => Ok(problem.into_response(crate::POLICY).map(Body::from)),
            }
        })
    }
}
