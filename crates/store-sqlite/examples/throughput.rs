//! Prints how many claim-and-settle pairs a second the store does with 1, 16 and 64 tasks, beside a raw log of equal
//! bytes that syncs for groups the same way. On a file in the current directory.
//!
//! `cargo run --release -p onefold-store-sqlite --example throughput [SECONDS] [uuid|random]`

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use onefold_core::contract::{OnStale, Retention};
use onefold_core::key::KeyTime;
use onefold_core::{Answer, Fingerprint, Identity, IdentityKey, Kept, Key, OperationId, Scope, State};
use onefold_store::{
    Advance, Advanced, Also, Claim, Claimed, Clock, OperationStore, Promise, Start, Step, SystemClock,
};
use onefold_store_sqlite::{Options, SqliteStore};
use tokio::sync::oneshot;

/// What a pair writes to a raw log: a claim and a result, with their fields and an answer of 300 bytes.
const CLAIM_BYTES: usize = 330;
const SETTLE_BYTES: usize = 480;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let random = arguments.next().is_some_and(|keys| keys == "random");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for tasks in [1, 16, 64] {
        let raw = runtime.block_on(raw_log(tasks, seconds))?;
        let directory = tempfile::tempdir_in(".")?;
        let store = SqliteStore::open(directory.path().join("bench.db"), Options::default())?;
        let store: Arc<SqliteStore> = Arc::new(store);
        let pairs = runtime.block_on(pairs(store.clone(), tasks, seconds, random));
        let stats = store.stats();
        println!(
            "{tasks:>3} tasks: {pairs:>8.0} pairs/s, {:>5.1} jobs a commit; raw log {raw:>8.0} pairs/s; ratio {:.2}",
            stats.jobs as f64 / stats.commits as f64,
            pairs / raw
        );
        drop(store);
    }
    Ok(())
}

async fn pairs(store: Arc<SqliteStore>, tasks: u64, seconds: u64, random: bool) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let clock = Arc::new(SystemClock::new());
    let end = clock.monotonic() + Duration::from_secs(seconds);
    let start = clock.monotonic();
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..tasks {
        let (store, done, clock) = (store.clone(), done.clone(), clock.clone());
        running.spawn(async move {
            while clock.monotonic() < end {
                pair(&store, random).await;
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    running.join_all().await;
    done.load(Ordering::Relaxed) as f64 / (clock.monotonic() - start).as_secs_f64()
}

async fn pair(store: &SqliteStore, random: bool) {
    let key = if random {
        uuid::Builder::from_random_bytes(random_bytes()).into_uuid()
    } else {
        uuid::Uuid::now_v7()
    };
    let identity = Identity {
        scope: Scope::new([(
            "credential",
            "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9",
        )]),
        operation: "CreateOrder".into(),
        key: Key::new(key.to_string()).expect("a UUID is a key"),
    };
    let id: OperationId = identity.id(&IdentityKey::none(), KeyTime::Uuidv7);
    let claim = Claim {
        id,
        scope: identity.scope,
        operation: identity.operation,
        key: identity.key,
        correlation_id: None,
        fingerprint: Fingerprint { version: 1, digest: *id.as_bytes() },
        ignored: Vec::new(),
        owner: "gateway-1".into(),
        lease: Duration::from_secs(30),
        promise: Promise {
            on_stale: OnStale::Unknown,
            retention: Retention::For(Duration::from_secs(7 * 86_400)),
            tombstone: Duration::from_secs(30 * 86_400),
        },
        live_keys_max: Some(u64::MAX),
        key_expires_at: None,
    };
    assert!(matches!(store.claim(claim).await, Ok(Claimed::Won { .. })));
    let answer = Answer {
        status: 201,
        headers: vec![("content-type".into(), b"application/json".to_vec())],
        body: vec![b'x'; 300],
        trailers: Vec::new(),
    };
    let settle = Advance {
        id,
        start: Start { states: &[State::Processing], attempt: 1, also: Also::Nothing },
        step: Step::Settle { state: State::Succeeded, kept: Kept::Full(answer), resource: None },
        event: None,
        if_superseded: None,
    };
    assert!(matches!(store.advance(settle).await, Ok(Advanced::Done { .. })));
}

fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes);
    bytes
}

type Entry = (usize, oneshot::Sender<()>);

/// A log of the same bytes: append what waits, sync once, answer everybody. The file is allocated before.
async fn raw_log(tasks: u64, seconds: u64) -> std::io::Result<f64> {
    let directory = tempfile::tempdir_in(".")?;
    let path = directory.path().join("log");
    let mut file = File::create(&path)?;
    let block = vec![0; 1 << 20];
    for _ in 0..256 {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let (entries, waiting) = sync_channel::<Entry>(8192);
    let writer = std::thread::spawn(move || write_log(&path, &waiting));
    let clock = Arc::new(SystemClock::new());
    let (start, end) = (clock.monotonic(), clock.monotonic() + Duration::from_secs(seconds));
    let done = Arc::new(AtomicU64::new(0));
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..tasks {
        let (entries, done, clock) = (entries.clone(), done.clone(), clock.clone());
        running.spawn(async move {
            while clock.monotonic() < end {
                for bytes in [CLAIM_BYTES, SETTLE_BYTES] {
                    let (reply, answer) = oneshot::channel();
                    entries.try_send((bytes, reply)).expect("the queue is longer than the tasks are many");
                    answer.await.expect("the log answers");
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    running.join_all().await;
    drop(entries);
    writer.join().expect("the log does not panic")?;
    Ok(done.load(Ordering::Relaxed) as f64 / (clock.monotonic() - start).as_secs_f64())
}

fn write_log(path: &std::path::Path, waiting: &Receiver<Entry>) -> std::io::Result<()> {
    use std::io::{Seek, SeekFrom};
    let mut file = File::options().write(true).open(path)?;
    let mut written = 0;
    while let Ok(first) = waiting.recv() {
        let mut batch = vec![first];
        while let Ok(entry) = waiting.try_recv() {
            batch.push(entry);
        }
        let bytes: usize = batch.iter().map(|(bytes, _)| bytes).sum();
        if written + bytes > 256 << 20 {
            file.seek(SeekFrom::Start(0))?;
            written = 0;
        }
        file.write_all(&vec![b'x'; bytes])?;
        file.sync_data()?;
        written += bytes;
        for (_, reply) in batch {
            let _ = reply.send(());
        }
    }
    Ok(())
}
