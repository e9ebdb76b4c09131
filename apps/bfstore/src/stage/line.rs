//! A line to a service, or from one to its broker, that can lose what is said on it.
//!
//! An answer of a service: the request goes through, and the connection is cut at the first byte of the answer, so
//! whatever the service does before it answers is done. An acknowledgement to a broker: behind a certain message the
//! line carries nothing more to the broker, for as long as the consumer lives.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
    loses_all: AtomicBool,
    lost: AtomicUsize,
    silent_behind: Mutex<Option<&'static [u8]>>,
    silent: AtomicBool,
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

    /// No answer will arrive until the line is mended.
    pub fn lose_answers(&self) {
        self.answers.loses_all.store(true, Ordering::SeqCst);
    }

    /// Behind the next message that holds `what`, nothing is carried to the broker any more.
    pub fn fall_silent_behind(&self, what: &'static [u8]) {
        *self.answers.silent_behind.lock() = Some(what);
    }

    /// Carries everything again.
    pub fn mend(&self) {
        self.answers.silent.store(false, Ordering::SeqCst);
        self.answers.loses_all.store(false, Ordering::SeqCst);
    }

    /// One more has not arrived, though it came through here.
    pub(super) fn has_lost(&self) {
        self.answers.lost.fetch_add(1, Ordering::SeqCst);
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
            answers.falls_silent(&buffer[..read]);
            to_caller.write_all(&buffer[..read]).await?;
        }
    };
    let forth = async {
        let (mut buffer, mut carries) = (vec![0; 16 * 1024], true);
        loop {
            let read = from_caller.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            if carries && answers.silent.load(Ordering::SeqCst) {
                carries = false;
                answers.lost.fetch_add(1, Ordering::SeqCst);
            }
            if carries {
                to_service.write_all(&buffer[..read]).await?;
            }
        }
    };
    tokio::select! {
        ended = back => ended,
        ended = forth => ended,
    }
}

impl Answers {
    fn falls_silent(&self, said: &[u8]) {
        let mut behind = self.silent_behind.lock();
        if behind.is_some_and(|what| said.windows(what.len()).any(|part| part == what)) {
            *behind = None;
            self.silent.store(true, Ordering::SeqCst);
        }
    }

    fn loses_one(&self) -> bool {
        let one_less = |left: usize| left.checked_sub(1);
        let loses = self.loses_all.load(Ordering::SeqCst)
            || self.to_lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok();
        if loses {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
        loses
    }
}
