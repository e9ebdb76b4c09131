//! A line to a service that can lose an answer: the request goes through, and the connection is cut at the first byte of
//! the answer, so whatever the service does before it answers is done.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A line. It ends when it is dropped.
pub struct Line {
    address: SocketAddr,
    answers: Arc<Answers>,
    accepting: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Answers {
    to_lose: AtomicUsize,
    lost: AtomicUsize,
}

impl Line {
    /// To the service at this address.
    pub async fn to(service: SocketAddr) -> anyhow::Result<Line> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let answers = Arc::new(Answers::default());
        let own = answers.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let answers = own.clone();
                tokio::spawn(async move { carry(caller, service, &answers).await });
            }
        });
        Ok(Line { address, answers, accepting })
    }

    /// Where it begins.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next answer will not arrive.
    pub fn lose_an_answer(&self) {
        self.answers.to_lose.fetch_add(1, Ordering::SeqCst);
    }

    /// How many have not arrived.
    pub fn lost(&self) -> usize {
        self.answers.lost.load(Ordering::SeqCst)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Ends with the connection of either side, which both ends notice.
async fn carry(caller: TcpStream, service: SocketAddr, answers: &Answers) -> std::io::Result<()> {
    let service = TcpStream::connect(service).await?;
    let (mut from_caller, mut to_caller) = caller.into_split();
    let (mut from_service, mut to_service) = service.into_split();
    let back = async {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = from_service.read(&mut buffer).await?;
            if read == 0 || answers.loses_one() {
                return Ok(());
            }
            to_caller.write_all(&buffer[..read]).await?;
        }
    };
    tokio::select! {
        ended = back => ended,
        ended = copy(&mut from_caller, &mut to_service) => ended.map(drop),
    }
}

impl Answers {
    fn loses_one(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        let loses = self.to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
        if loses {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
        loses
    }
}
