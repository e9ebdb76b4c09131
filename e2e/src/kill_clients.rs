//! Clients that keep ordering while the gateway is killed under them, and the ledger of what they were told.
//!
//! Each client makes one key after another and repeats a request until its outcome is known: a whole 2xx, or
//! the word that it is unknown. The ledger is the test's own memory; it is compared with the order service
//! and the gateway afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onefold_testkit::{Answer, Connection};
use tokio::task::JoinHandle;

use crate::orders::order;

/// What clients were told.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Whole 2xx answers by key.
    pub acknowledged: BTreeMap<String, Answer>,
    /// Operations by key of which it was said that the outcome is unknown.
    pub unknown: BTreeMap<String, String>,
    /// Keys of which an attempt was sent and not answered whole: in flight at a kill.
    pub lost: BTreeSet<String>,
    /// Answers that should not have been given, with their keys.
    pub unexpected: Vec<String>,
}

/// Clients at work.
pub struct Clients {
    ledger: Arc<Mutex<Ledger>>,
    is_over: Arc<AtomicBool>,
    running: Vec<JoinHandle<()>>,
}

/// What an answer means for the client.
enum Told {
    Again,
    Known,
}

const PAUSE: Duration = Duration::from_millis(20);

impl Clients {
    /// Sends this many to work.
    #[must_use]
    pub fn start(clients: usize, gateway: SocketAddr) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let is_over = Arc::new(AtomicBool::new(false));
        let running = (0..clients)
            .map(|client| tokio::spawn(work(client, gateway, ledger.clone(), is_over.clone())))
            .collect();
        Self { ledger, is_over, running }
    }

    /// Lets each client bring its last key to an end, and hands back the ledger.
    ///
    /// # Panics
    /// When a client is still without a word after `deadline`.
    pub async fn finish(self, deadline: Duration) -> Ledger {
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.running {
            let ended = tokio::time::timeout(deadline, client).await;
            ended.expect("every client learns the outcome of its last key").expect("no client panics");
        }
        lock(&self.ledger).clone()
    }
}

fn lock(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn work(client: usize, gateway: SocketAddr, ledger: Arc<Mutex<Ledger>>, is_over: Arc<AtomicBool>) {
    let mut connection = None;
    let mut serial = 0;
    while !is_over.load(Ordering::Relaxed) {
        serial += 1;
        let key = format!("c{client}-{serial}");
        while let Told::Again = attempt(&key, gateway, &mut connection, &ledger).await {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// One attempt, over the kept connection or a new one.
async fn attempt(
    key: &str,
    gateway: SocketAddr,
    kept: &mut Option<Connection>,
    ledger: &Mutex<Ledger>,
) -> Told {
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => match Connection::open(gateway).await {
            Ok(connection) => connection,
            // Nobody listens: the gateway is being started again.
            Err(_) => return Told::Again,
        },
    };
    match connection.exchange(&order(key)).await {
        Ok(answer) if answer.is_complete => {
            if answer.header("connection") != Some("close") {
                *kept = Some(connection);
            }
            note(key, answer, &mut lock(ledger))
        }
        _ => {
            lock(ledger).lost.insert(key.to_owned());
            Told::Again
        }
    }
}

fn note(key: &str, answer: Answer, ledger: &mut Ledger) -> Told {
    if (200..300).contains(&answer.status) {
        ledger.acknowledged.insert(key.to_owned(), answer);
        return Told::Known;
    }
    match answer.problem().as_deref() {
        Some("in-progress" | "store-unavailable") => Told::Again,
        Some("outcome-unknown") => {
            let operation = answer.operation().unwrap_or_default();
            ledger.unknown.insert(key.to_owned(), operation);
            Told::Known
        }
        _ => {
            ledger.unexpected.push(format!("{key}: {answer}"));
            Told::Known
        }
    }
}
