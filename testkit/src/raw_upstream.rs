//! An upstream made of bytes: a TCP server that follows a script for each connection.
//!
//! For what an HTTP server does not do: close before reading, close an idle connection just as the next
//! request arrives, answer with broken or unusual bytes, send 1xx heads. The n-th connection follows the
//! n-th script; when they have run out, the last one is followed again. When a script ends, the connection
//! is closed. A connection on which nothing comes (a probe) counts for nothing and uses up no script.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::gate::Gate;
use crate::wait;
use crate::wire::Wire;

/// One step of a script.
#[derive(Clone, Debug)]
pub enum Step {
    /// Reads a whole request (and counts it as an effect).
    Request,
    /// Reads a head only.
    Head,
    /// Writes bytes.
    Send(Bytes),
    /// Stands before a gate.
    Hold(Gate),
    /// Waits.
    Pause(Duration),
    /// Closes with a reset, unsent and unread bytes thrown away.
    Reset,
    /// Begins the script again on the same connection.
    Again,
}

impl Step {
    /// Writes text.
    #[must_use]
    pub fn send(text: &str) -> Self {
        Self::Send(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// A request as bytes.
#[derive(Clone, Debug)]
pub struct RawSeen {
    /// Request line and header lines with their line ends.
    pub head: Bytes,
    /// Content without framing.
    pub body: Vec<u8>,
}

#[derive(Default)]
struct Record {
    connections: usize,
    requests: Vec<RawSeen>,
}

/// The handle of a running raw upstream; dropping it stops it.
pub struct RawUpstream {
    address: SocketAddr,
    record: Arc<Mutex<Record>>,
    accepting: AbortHandle,
}

impl RawUpstream {
    /// Starts on a free port with one script for each connection.
    ///
    /// # Panics
    /// Without any script, or when loopback cannot be listened on.
    pub async fn start(scripts: Vec<Vec<Step>>) -> Self {
        assert!(!scripts.is_empty(), "a raw upstream needs a script");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let record = Arc::new(Mutex::new(Record::default()));
        let accepting = tokio::spawn(accept(listener, scripts, record.clone())).abort_handle();
        Self { address, record, accepting }
    }

    /// `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How many connections brought at least one byte.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.record).connections
    }

    /// The requests that were read whole.
    #[must_use]
    pub fn requests(&self) -> Vec<RawSeen> {
        lock(&self.record).requests.clone()
    }

    /// How many requests were read whole.
    #[must_use]
    pub fn count(&self) -> usize {
        lock(&self.record).requests.len()
    }

    /// Waits until `count` requests were read whole.
    pub async fn reached(&self, count: usize) {
        let what = format!("the raw upstream has read {count} requests");
        wait::until(&what, || self.count() >= count).await;
    }
}

impl Drop for RawUpstream {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn lock(record: &Mutex<Record>) -> std::sync::MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, scripts: Vec<Vec<Step>>, record: Arc<Mutex<Record>>) {
    let scripts = Arc::new(scripts);
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, scripts.clone(), record.clone()));
    }
}

async fn serve(stream: TcpStream, scripts: Arc<Vec<Vec<Step>>>, record: Arc<Mutex<Record>>) {
    // Looked at and left unread: a script may want to close before reading.
    if !matches!(stream.peek(&mut [0]).await, Ok(1..)) {
        return;
    }
    let nth = {
        let mut record = lock(&record);
        record.connections += 1;
        record.connections - 1
    };
    let script = scripts[nth.min(scripts.len() - 1)].clone();
    follow(stream, script, record).await;
}

async fn follow(stream: TcpStream, script: Vec<Step>, record: Arc<Mutex<Record>>) {
    let mut wire = Wire::new(stream);
    let mut at = 0;
    while let Some(step) = script.get(at) {
        at += 1;
        match step {
            Step::Request => {
                let Ok(Some(head)) = wire.head().await else { return };
                let body = wire.body(&head, false).await;
                if !body.is_complete {
                    return;
                }
                lock(&record).requests.push(RawSeen { head: head.raw, body: body.bytes });
            }
            Step::Head => {
                let Ok(Some(_)) = wire.head().await else { return };
            }
            Step::Send(bytes) => {
                if wire.stream.write_all(bytes).await.is_err() {
                    return;
                }
            }
            Step::Hold(gate) => gate.passed().await,
            Step::Pause(time) => tokio::time::sleep(*time).await,
            Step::Reset => {
                let _ = wire.stream.set_zero_linger();
                return;
            }
            Step::Again => at = 0,
        }
    }
    let _ = wire.stream.shutdown().await;
}
