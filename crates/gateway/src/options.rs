//! What a gateway is made of.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Uri};
use onefold_canon::Pointer;
use onefold_core::Contract;
use onefold_core::contract::{Retention, ScopeSource};
use onefold_http::TokenRule;
use onefold_messages::Intake;
use onefold_webhooks::Source;
use tokio_rustls::rustls;

/// The named segments of a matched path.
pub type Named = Vec<(String, String)>;

/// Whether a route takes a method and a path in its normal form.
pub type Matcher = Arc<dyn Fn(&Method, &str) -> Option<Named> + Send + Sync>;

/// One protected route.
#[derive(Clone)]
pub struct Route {
    /// What it promises.
    pub contract: Arc<Contract>,
    /// Its name in metrics.
    pub label: Arc<str>,
    /// Its method, for the published policy.
    pub method: String,
    /// Its path, for the published policy.
    pub path: String,
    /// Whether it takes a request.
    pub matches: Matcher,
    /// The pointers that the fingerprint leaves out.
    pub ignore: Vec<Pointer>,
    /// The pointers that are not kept.
    pub redact: Vec<Pointer>,
    /// The pointer to a key in the body.
    pub body_key: Option<Pointer>,
}

impl Route {
    /// The name of the operation that a request is an attempt at: the contract's, else its method and path.
    pub(crate) fn operation(&self, method: &Method, path: &str) -> String {
        match self.contract.operation.as_str() {
            "" => format!("{} {path}", method.as_str().to_ascii_uppercase()),
            name => name.to_owned(),
        }
    }
}

impl Implicit {
    /// The routes of requests with and without credentials.
    pub(crate) fn routes(&self) -> ImplicitRoutes {
        let mut without = self.route.clone();
        if self.anonymous {
            let shared = Contract { scope: vec![ScopeSource::Shared], ..(*self.route.contract).clone() };
            without.contract = shared.into();
        }
        ImplicitRoutes { with_credentials: self.route.clone().into(), without_credentials: without.into() }
    }
}

/// The routes of an unconfigured gateway.
pub(crate) struct ImplicitRoutes {
    pub(crate) with_credentials: Arc<Route>,
    pub(crate) without_credentials: Arc<Route>,
}

impl ImplicitRoutes {
    pub(crate) fn of(&self, headers: &HeaderMap) -> &Arc<Route> {
        if headers.contains_key(AUTHORIZATION) { &self.with_credentials } else { &self.without_credentials }
    }
}

/// Without configuration: every POST and PATCH that carries a key is an operation of its own method and path.
#[derive(Clone)]
pub struct Implicit {
    /// The route that all of them take. Its contract names no operation.
    pub route: Route,
    /// Whether requests without credentials share one scope. Only on loopback, or by choice.
    pub anonymous: bool,
}

/// What a gateway is made of.
pub struct Options {
    /// Where callers connect. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// TLS for callers.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The upstream's base URL.
    pub upstream: Uri,
    /// Longest wait for the head of an answer, and for each part of its body.
    pub upstream_timeout: Duration,
    /// Longest protected request, in bytes.
    pub request_bytes_max: u64,
    /// Who may set forwarded and tenant headers.
    pub trusted: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
    /// Which tokens of callers are believed.
    pub tokens: TokenRule,
    /// The protected routes; the first match wins.
    pub routes: Vec<Arc<Route>>,
    /// What holds where no route matches.
    pub implicit: Option<Implicit>,
    /// Where callers ask for their operations: `/operations`.
    pub operations_path: String,
    /// Where the policy is published: `/.well-known/idempotency`.
    pub policy_path: String,
    /// Callers' connections at once; further ones wait to be accepted, so that operators can still connect.
    pub connections_max: usize,
    /// Whether the beginning of a look-up's answer may be kept as evidence, in clear.
    pub keep_excerpts: bool,
    /// Where large requests are spooled.
    pub spool_dir: PathBuf,
    /// What is taken in at `/inbox/{source}`.
    pub webhooks: Option<Webhooks>,
}

/// The sources of webhooks and where they are kept.
pub struct Webhooks {
    /// Takes them in.
    pub intake: Intake,
    /// Who sends.
    pub sources: Arc<[WebhookSource]>,
}

/// One source of webhooks.
pub struct WebhookSource {
    /// What follows `/inbox/` in the path.
    pub name: String,
    /// How its deliveries are verified and read.
    pub verify: Source,
    /// How long an id is known.
    pub retention: Retention,
    /// How many messages may wait for the handler; beyond that nothing is taken in.
    pub max_waiting: u64,
    /// The handler.
    pub handler: Uri,
    /// How long it may take.
    pub timeout: Duration,
    /// Failed tries after which a message is a dead letter.
    pub attempts: u32,
    /// What the sender gets.
    pub reply: Reply,
}

/// What the sender of a webhook gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// 202, once the message is durable.
    Accepted,
    /// The handler's answer.
    Forwarded,
}
