//! The upstream: one pooled client, and what an error says about whether the request was written.
//!
//! Every attempt is ours to count, so the client repeats nothing by itself. Only what was provably not written is
//! tried again, on another connection.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::body::AnyBody;
use crate::limits::{ANSWER_LINES_MAX, CONNECT_MAX, UPSTREAM_IDLE_MAX};

pub(crate) type HttpClient = Client<HttpsConnector<HttpConnector>, AnyBody>;

/// A pooled client that repeats nothing and follows nothing. `set_host`: the `Host` field is that of the URL.
pub(crate) fn client(connect_max: Duration, set_host: bool, http2_only: bool) -> HttpClient {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect_max));
    let https = HttpsConnectorBuilder::new()
        .with_webpki_roots()
        .https_or_http()
        .enable_all_versions()
        .wrap_connector(tcp);
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(UPSTREAM_IDLE_MAX)
        .retry_canceled_requests(false)
        .set_host(set_host)
        .http1_max_headers(ANSWER_LINES_MAX)
        .http2_only(http2_only)
        .build(https)
}

/// The way to one upstream.
pub(crate) struct Upstream {
    client: HttpClient,
    scheme: Scheme,
    authority: Authority,
    base_path: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// No connection came about: nothing was written.
    Unreachable(String),
    /// The connection ended before the request was taken, or the upstream says that it did not look at it: nothing
    /// happened, and another connection may do.
    NotTaken(String),
    /// The request was, or may have been, written.
    Lost(String),
}

impl NoAnswer {
    /// In words.
    pub(crate) fn why(self) -> String {
        match self {
            NoAnswer::Unreachable(why) | NoAnswer::NotTaken(why) | NoAnswer::Lost(why) => why,
        }
    }
}

impl Upstream {
    /// `base` has a scheme (`http`, `https`, or `h2c` for HTTP/2 without TLS) and a host.
    pub(crate) fn new(base: &Uri, timeout: Duration) -> Option<Upstream> {
        let authority = base.authority()?.clone();
        let (scheme, prior_knowledge) = match base.scheme_str()? {
            "http" => (Scheme::HTTP, false),
            "h2c" => (Scheme::HTTP, true),
            "https" => (Scheme::HTTPS, false),
            _ => return None,
        };
        let client = client(CONNECT_MAX.min(timeout), false, prior_knowledge);
        let base_path = base.path().trim_end_matches('/').to_owned();
        Some(Upstream { client, scheme, authority, base_path })
    }

    /// The upstream's URL for a path and query as the caller sent them.
    pub(crate) fn url(&self, path_and_query: &str) -> Result<Uri, http::Error> {
        let path: PathAndQuery = match self.base_path.as_str() {
            "" => path_and_query.parse()?,
            base => format!("{base}{path_and_query}").parse()?,
        };
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(self.authority.clone())
            .path_and_query(path)
            .build()
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Sends one request once.
    pub(crate) async fn send(&self, request: Request<AnyBody>) -> Result<Response<Incoming>, NoAnswer> {
        self.client.request(request).await.map_err(|error| no_answer(&error))
    }

    /// As [`Upstream::send`], for a request that asks for no upgrade: a 101 to it is no answer (RFC 9110, 15.2.2).
    pub(crate) async fn ask(&self, request: Request<AnyBody>) -> Result<Response<Incoming>, NoAnswer> {
        not_switched(self.send(request).await?)
    }
}

pub(crate) fn not_switched(response: Response<Incoming>) -> Result<Response<Incoming>, NoAnswer> {
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => {
            Err(NoAnswer::Lost("the upstream switched to a protocol that nobody asked for".into()))
        }
        _ => Ok(response),
    }
}

pub(crate) fn no_answer(error: &Error) -> NoAnswer {
    let why = describe(error);
    if error.is_connect() {
        NoAnswer::Unreachable(why)
    } else if never_taken(error) {
        NoAnswer::NotTaken(why)
    } else {
        NoAnswer::Lost(why)
    }
}

/// Whether hyper says that the request was never taken from its queue, or the peer that it never looked at it.
fn never_taken(error: &Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        if cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled) {
            return true;
        }
        if cause.downcast_ref::<h2::Error>().is_some_and(|e| e.reason() == Some(h2::Reason::REFUSED_STREAM)) {
            return true;
        }
        source = cause.source();
    }
    false
}

fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// An empty body.
pub(crate) fn no_body() -> AnyBody {
    crate::body::whole(Bytes::new(), None)
}
