//! What stands behind the proxies: the order service of the demo, or a service that does nothing.
//!
//! Each runs in a process of its own, so that its work is not counted as the generator's.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::process::Process;

/// As long as the order service's answer.
const ANSWER: &[u8] = br#"{"item":"tea-250","order":1729,"quantity":2}"#;

/// A service to be put behind a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    /// One durable insert for each order.
    Orders,
    /// Nothing.
    Nothing,
}

impl Service {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Service::Orders => "orders",
            Service::Nothing => "nothing",
        }
    }
}

/// A running upstream.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    _process: Process,
}

impl Upstream {
    /// Starts a service with its files in `dir`; the order service is in the binary `onefold`.
    pub(crate) fn start(service: Service, onefold: &Path, dir: &Path) -> Result<Upstream> {
        let mut command = match service {
            Service::Nothing => Command::new(std::env::current_exe()?),
            Service::Orders => Command::new(onefold),
        };
        match service {
            Service::Nothing => command.arg("nothing"),
            Service::Orders => {
                command.args(["demo-orders", "--listen", "127.0.0.1:0", "--db"]).arg(dir.join("orders.db"))
            }
        };
        let mut process = Process::start(service.name(), &mut command, dir)?;
        Ok(Upstream { address: process.announced()?, _process: process })
    }
}

/// Answers 201 with a small JSON to everything, until standard input ends: the process that started this one holds its
/// other end.
pub(crate) fn serve_nothing() -> Result<()> {
    let (gone, starter_is_gone) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        drop(gone);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            done = accept() => done,
            _ = starter_is_gone => Ok(()),
        }
    })
}

async fn accept() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await.context("accept a connection")?;
        stream.set_nodelay(true)?;
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}

/// A request that is cut ends the connection, and with it the measurement.
async fn answer(request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
    request.into_body().collect().await?;
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}
