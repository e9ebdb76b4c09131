//! The listener: connections, TLS, HTTP/1.1 and HTTP/2, and the graceful end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use onefold_engine::{Engine, Reconciling};
use onefold_messages::Relay;
use onefold_messages::intake::IntakeKeeper;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::task::TaskTracker;

use crate::forward::{self, Caller};
use crate::limits::{BACKLOG, FORWARDING_GRACE_MIN, FULL_SAID_EVERY, HEAD_READ_MAX};
use crate::look_up::Services;
use crate::upstream::Upstream;
use crate::{Gateway, Options, Shared, Webhooks, handle, reconcile, webhook};

/// A gateway that is running.
pub struct Running {
    gateway: Shared,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<GracefulShutdown>,
    reconciling: Reconciling,
    forwarding: Option<(Relay, IntakeKeeper)>,
}

/// How a gateway ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Operations that the grace cut off: their outcome is unknown.
    pub operations_cut: usize,
    /// Whether anything was cut off: an operation, or a request that was only passed on.
    pub in_time: bool,
}

/// Starts a gateway: binds, then answers. Nothing is started when it fails.
pub async fn start(options: Options, engine: Engine) -> io::Result<Running> {
    let upstream = Upstream::new(&options.upstream, options.upstream_timeout).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the upstream's URL needs a scheme (http, https, h2c) and a host",
        )
    })?;
    let listener = bind(options.listen)?;
    let address = listener.local_addr()?;
    let services = Services::new();
    let reconciling = engine.reconcile(reconcile::registrations(&options, &services));
    let implicit = options.implicit.as_ref().map(|implicit| &implicit.route.label);
    for label in options.routes.iter().map(|route| &route.label).chain(implicit) {
        engine.signals().start_at_zero(label);
    }
    let listeners = Arc::default();
    let forwarding = match &options.webhooks {
        Some(webhooks) => {
            let relay = webhook::forward(webhooks, &services, &listeners);
            warn_of_orphans(webhooks).await;
            Some((relay, webhook::keep(webhooks)))
        }
        None => None,
    };
    let gateway = Arc::new(Gateway {
        end_to_end: {
            let implicit = options.implicit.as_ref().map(|implicit| &implicit.route.contract);
            let configured = options.routes.iter().map(|route| &route.contract);
            forward::end_to_end(&configured.chain(implicit).map(Arc::as_ref).collect::<Vec<_>>())
        },
        implicit: options.implicit.as_ref().map(crate::Implicit::routes),
        options,
        engine,
        upstream,
        services,
        listeners,
        webhook_memory: webhook::Memory::default(),
        operations: TaskTracker::new(),
        warned_of_expiring_tokens: std::sync::Once::new(),
    });
    let (stop, stopped) = watch::channel(false);
    let accepting = tokio::spawn(accept(gateway.clone(), listener, stopped));
    Ok(Running { gateway, address, stop, accepting, reconciling, forwarding })
}

/// Messages of a source that is not in the settings any more go nowhere.
async fn warn_of_orphans(webhooks: &Webhooks) {
    let sources: Vec<&str> = webhooks.sources.iter().map(|source| source.name.as_str()).collect();
    for destination in webhooks.intake.orphans(&sources).await {
        tracing::warn!(
            destination,
            "messages wait for a source of webhooks that no [[inbox]] names; they go on when one does"
        );
    }
}

/// With a queue long enough for a flood: who finds it full is heard again only after a second.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Running {
    /// Where callers connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets what runs end within the grace, and marks what does not as unknown.
    pub async fn stop(self, grace: Duration) -> Ended {
        let until = Instant::now() + grace;
        self.stop.send_replace(true);
        drop(self.reconciling);
        let connections = self.accepting.await.expect("the accepting task does not panic");
        self.gateway.operations.close();
        let operations = self.gateway.operations.wait();
        let in_time =
            timeout_at(until, async { tokio::join!(connections.shutdown(), operations) }).await.is_ok();
        if let Some((relay, keeper)) = self.forwarding {
            drop(keeper);
            // At least a moment, for what was accepted to be noted.
            let left = until.saturating_duration_since(Instant::now()).max(FORWARDING_GRACE_MIN);
            let held = relay.stop(left).await;
            if held > 0 {
                tracing::warn!(held, "webhooks were being forwarded; they go on again under the same keys");
            }
        }
        if let Some(webhooks) = &self.gateway.options.webhooks {
            webhooks.intake.flush_counters().await;
        }
        let operations_cut = if in_time { 0 } else { self.gateway.engine.abandon_running().await };
        self.gateway.engine.flush_counters().await;
        Ended { operations_cut, in_time }
    }
}

async fn accept(
    gateway: Shared,
    listener: TcpListener,
    mut stopped: watch::Receiver<bool>,
) -> GracefulShutdown {
    let connections = GracefulShutdown::new();
    let tls = gateway.options.tls.clone().map(TlsAcceptor::from);
    let places = Arc::new(Semaphore::new(gateway.options.connections_max));
    let mut warned: Option<Instant> = None;
    loop {
        if places.available_permits() == 0 && warned.is_none_or(|at| at.elapsed() > FULL_SAID_EVERY) {
            warned = Some(Instant::now());
            tracing::warn!(
                connections = gateway.options.connections_max,
                "every place for a connection is taken; callers wait to be accepted (the limit of open files says how many)",
            );
        }
        let accepted = tokio::select! {
            accepted = take(&places, &listener) => accepted,
            _ = stopped.changed() => return connections,
        };
        let (place, stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let watcher = connections.watcher();
        let gateway = gateway.clone();
        let tls = tls.clone();
        tokio::spawn(async move {
            connection(gateway, stream, peer, tls, watcher).await;
            drop(place);
        });
    }
}

async fn take(
    places: &Arc<Semaphore>,
    listener: &TcpListener,
) -> io::Result<(OwnedSemaphorePermit, TcpStream, SocketAddr)> {
    let place = places.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((place, stream, peer))
}

async fn connection(
    gateway: Shared,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let ip = peer.ip().to_canonical();
    let caller = Caller { ip, tls: tls.is_some(), trusted: (gateway.options.trusted)(ip) };
    let begun = timeout(HEAD_READ_MAX, async {
        match tls {
            None => Ok(Transport::Plain(preface(&stream).await?, stream)),
            Some(tls) => {
                let stream = tls.accept(stream).await?;
                let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                Ok(Transport::Tls(if h2 { Version::Two } else { Version::One }, Box::new(stream)))
            }
        }
    });
    match begun.await {
        Ok(Ok(Transport::Plain(version, stream))) => serve(gateway, stream, version, caller, watcher).await,
        Ok(Ok(Transport::Tls(version, stream))) => serve(gateway, stream, version, caller, watcher).await,
        Ok(Err::<_, io::Error>(error)) => tracing::debug!(%error, "a connection did not begin"),
        Err(_) => tracing::debug!("a connection stayed silent"),
    }
}

enum Transport {
    Plain(Version, TcpStream),
    Tls(Version, Box<TlsStream<TcpStream>>),
}

#[derive(Clone, Copy)]
enum Version {
    One,
    Two,
}

/// The version that a caller without TLS speaks, read from its first bytes, which stay where they are.
async fn preface(stream: &TcpStream) -> io::Result<Version> {
    const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut first = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut first).await?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first[..length] != PREFACE[..length] {
            return Ok(Version::One);
        }
        if length == PREFACE.len() {
            return Ok(Version::Two);
        }
        // The rest is on its way, and the socket stays readable until it is read.
        sleep(Duration::from_millis(5)).await;
    }
}

async fn serve<S>(
    gateway: Shared,
    stream: S,
    version: Version,
    caller: Caller,
    watcher: hyper_util::server::graceful::Watcher,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let gateway = gateway.clone();
        // On the heap from the start: it is large, and what moves it on its way is hyper.
        let handling = Box::pin(handle::handle(gateway, request, caller));
        async move { Ok::<_, Infallible>(handling.await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_READ_MAX);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(HEAD_READ_MAX));
    let builder = match version {
        Version::One => builder.http1_only(),
        Version::Two => builder.http2_only(),
    };
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "a connection ended");
    }
}
