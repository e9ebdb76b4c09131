//! A counting upstream on loopback: a real HTTP server (HTTP/1.1 and HTTP/2) inside the test process.
//!
//! Every POST, PUT and PATCH adds 1 to the count of its (route, tag) and is answered `{"n":<count>}` unless
//! a [`Reply`] was ordered. The route is the path; the tag is the query parameter `tag` or the header
//! `X-Tag`, else empty. Once begun, an effect happens even when the caller hangs up, as it would in a real
//! service: that is what the product must live with. Everything received is kept and can be read back.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::{AbortHandle, JoinSet};

use crate::reply::Reply;
use crate::upstream_service;
use crate::wait;
use crate::wire::Line;

/// A request that the upstream received.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Path and query as they came.
    pub target: String,
    /// Header lines; those of one name stand together, in order.
    pub headers: Vec<Line>,
    /// Content, up to the first MiB.
    pub body: Bytes,
    /// Length of the whole content.
    pub body_bytes: usize,
    /// SHA-256 of the whole content.
    pub body_sha256: [u8; 32],
    /// Trailer lines.
    pub trailers: Vec<Line>,
    /// When it was read whole.
    pub at: Instant,
}

impl Seen {
    /// The first value of `name` as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(line, _)| line.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }
}

type Responder = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

#[derive(Default)]
pub(crate) struct Book {
    pub(crate) counts: BTreeMap<(String, String), u64>,
    pub(crate) reads: BTreeMap<String, u64>,
    scripts: HashMap<String, VecDeque<Reply>>,
    responders: HashMap<String, Responder>,
    pub(crate) seen: Vec<Seen>,
}

#[derive(Clone, Default)]
pub(crate) struct State {
    book: Arc<Mutex<Book>>,
}

impl State {
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reply ordered for this request: the script's next one, else the responder's.
    pub(crate) fn ordered(&self, seen: &Seen) -> Option<Reply> {
        let responder = {
            let mut book = self.book();
            if let Some(reply) = book.scripts.get_mut(&seen.path).and_then(VecDeque::pop_front) {
                return Some(reply);
            }
            book.responders.get(&seen.path).cloned()
        };
        responder.map(|respond| respond(seen))
    }
}

/// The handle of a running upstream; dropping it stops the server and cuts its connections.
pub struct Upstream {
    address: SocketAddr,
    state: State,
    accepting: AbortHandle,
}

impl Upstream {
    /// Starts on a free port.
    ///
    /// # Panics
    /// When loopback cannot be listened on.
    pub async fn start() -> Self {
        Self::serve(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port"))
    }

    /// Starts on an address that was kept back until now.
    #[must_use]
    pub fn start_on(reserved: ReservedAddress) -> Self {
        Self::serve(reserved.socket.listen(BACKLOG).expect("listens"))
    }

    fn serve(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("bound");
        let state = State::default();
        let accepting = tokio::spawn(accept(listener, state.clone())).abort_handle();
        Self { address, state, accepting }
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Orders one reply for the route's next request that has none yet.
    pub fn next(&self, route: &str, reply: Reply) {
        self.state.book().scripts.entry(route.to_owned()).or_default().push_back(reply);
    }

    /// Orders a reply for every request to the route that finds no other.
    pub fn always(&self, route: &str, reply: Reply) {
        self.responds(route, move |_| reply.clone());
    }

    /// Lets a function answer for the route, for peers with a mind of their own.
    pub fn responds(&self, route: &str, respond: impl Fn(&Seen) -> Reply + Send + Sync + 'static) {
        self.state.book().responders.insert(route.to_owned(), Arc::new(respond));
    }

    /// How many effects the route had, whatever the tag.
    #[must_use]
    pub fn count(&self, route: &str) -> u64 {
        let book = self.state.book();
        book.counts.iter().filter(|((path, _), _)| path == route).map(|(_, count)| count).sum()
    }

    /// How many effects the route had under this tag.
    #[must_use]
    pub fn count_tagged(&self, route: &str, tag: &str) -> u64 {
        self.state.book().counts.get(&(route.to_owned(), tag.to_owned())).copied().unwrap_or_default()
    }

    /// How many effects there were in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.state.book().counts.values().sum()
    }

    /// Everything received, in the order in which it was read whole.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.state.book().seen.clone()
    }

    /// What was received for one route.
    #[must_use]
    pub fn seen_at(&self, route: &str) -> Vec<Seen> {
        self.state.book().seen.iter().filter(|seen| seen.path == route).cloned().collect()
    }

    /// Waits until the route has had `count` effects.
    pub async fn reached(&self, route: &str, count: u64) {
        let what = format!("the upstream's {route} has had {count} effects");
        wait::until(&what, || self.count(route) >= count).await;
    }

    /// Waits until the route has received `requests` requests, effect or not.
    pub async fn received(&self, route: &str, requests: usize) {
        let what = format!("the upstream's {route} has received {requests} requests");
        wait::until(&what, || self.seen_at(route).len() >= requests).await;
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

const BACKLOG: u32 = 1024;

/// An address that is taken but not listened on: connections to it are refused.
pub struct ReservedAddress {
    socket: TcpSocket,
}

impl ReservedAddress {
    /// Takes a free port.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn take() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port");
        Self { socket }
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.socket.local_addr().expect("bound"))
    }
}

async fn accept(listener: TcpListener, state: State) {
    // Dropped with this task: stopping the upstream cuts what is connected.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let state = state.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| upstream_service::serve(state.clone(), request));
            let server = auto::Builder::new(TokioExecutor::new());
            // Errors here are peers that went away and replies that were cut on purpose.
            let _ = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}
