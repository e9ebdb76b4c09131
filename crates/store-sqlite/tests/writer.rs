//! The one writer: groups, failures and recovery.

mod asking;

use std::sync::Arc;
use std::time::Duration;

use asking::{LEASE, ask, claim, settle};
use onefold_core::EventKind;
use onefold_store::{Claimed, NewEvent, OperationStore, Step, StoreError};
use onefold_store_sqlite::{Options, SqliteStore};
use rusqlite::Connection;

struct Opened {
    store: Arc<SqliteStore>,
    directory: tempfile::TempDir,
}

fn open(options: Options) -> Opened {
    let directory = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(directory.path().join("onefold.db"), options).unwrap());
    Opened { store, directory }
}

impl Opened {
    fn beside(&self) -> Connection {
        let connection = Connection::open(self.directory.path().join("onefold.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection
    }
}

/// Asks while nobody can write, so that all jobs are in one batch when the lock is let go.
async fn in_one_batch<T: Send + 'static>(
    opened: &Opened,
    asks: Vec<impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let blocker = opened.beside();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The first one takes the writer to the lock; the others wait behind it.
    let (store, first) = (opened.store.clone(), claim("the-one-that-waits-for-the-lock"));
    let first = tokio::spawn(async move { store.claim(first).await });
    let asked: Vec<_> = asks.into_iter().map(|ask| tokio::spawn(ask)).collect();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(1);
    while opened.store.stats().waiting < asked.len() as u64 + 1 {
        assert!(tokio::time::Instant::now() < deadline, "every job is on its way");
        tokio::task::yield_now().await;
    }
    blocker.execute_batch("ROLLBACK").unwrap();
    first.await.unwrap().unwrap();
    let mut answers = Vec::new();
    for one in asked {
        answers.push(one.await.unwrap());
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_wait_together_share_a_commit() {
    let opened = open(Options::default());
    let claims = (0..200).map(|key| {
        let (store, claim) = (opened.store.clone(), claim(&format!("k-{key}")));
        async move { store.claim(claim).await }
    });
    let answers = in_one_batch(&opened, claims.collect()).await;
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Claimed::Won { .. }))));
    let stats = opened.store.stats();
    assert_eq!(stats.jobs, 201);
    assert!(stats.commits <= 3, "{stats:?}");
}

#[tokio::test]
async fn nothing_is_acknowledged_before_it_is_committed() {
    let opened = open(Options::default());
    let beside = opened.beside();
    for key in 0..100 {
        let claim = claim(&format!("k-{key}"));
        let id = claim.id;
        opened.store.claim(claim).await.unwrap();
        let found = "SELECT count(*) FROM onefold_operations WHERE id = ?1";
        let found: i64 = beside.query_row(found, [id.as_bytes()], |row| row.get(0)).unwrap();
        assert_eq!(found, 1, "claim {key} was acknowledged");
    }
}

#[tokio::test]
async fn a_batch_that_writes_nothing_commits_nothing() {
    let opened = open(Options::default());
    opened.store.claim(claim("k")).await.unwrap();
    let before = opened.store.stats().commits;
    opened.store.claim(claim("k")).await.unwrap();
    opened.store.advance(ask(claim("k").id, 7, Step::Lapse)).await.unwrap();
    opened.store.sweep(100).await.unwrap();
    opened.store.lose_stale(100).await.unwrap();
    assert_eq!(opened.store.stats().commits, before);
    opened.store.ready().await.unwrap();
    assert_eq!(opened.store.stats().commits, before + 1, "readiness is shown by writing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_fails_fails_alone() {
    let opened = open(Options { record_bytes_max: 100_000, ..Options::default() });
    for key in ["good", "big", "eventful"] {
        opened.store.claim(claim(key)).await.unwrap();
    }
    let big = vec![b'x'; 200_000];
    let mut eventful = settle(claim("eventful").id, 1, b"fine");
    // The transition goes well and its event does not: neither happens.
    eventful.event = Some(NewEvent {
        kind: EventKind::Resolved,
        who: "ada".into(),
        reason: "x".repeat(200_000),
        evidence: String::new(),
    });
    let asks = [settle(claim("big").id, 1, &big), eventful, settle(claim("good").id, 1, b"fine")];
    let asks = asks.map(|advance| {
        let store = opened.store.clone();
        async move { store.advance(advance).await }
    });
    let answers = in_one_batch(&opened, asks.into()).await;
    assert!(matches!(answers[0], Err(StoreError::Refused(_))), "{:?}", answers[0]);
    assert!(matches!(answers[1], Err(StoreError::Refused(_))), "{:?}", answers[1]);
    assert!(answers[2].is_ok(), "{:?}", answers[2]);
    for (key, terminal) in [("good", true), ("big", false), ("eventful", false)] {
        let record = opened.store.read(claim(key).id).await.unwrap().record.unwrap();
        assert_eq!(record.state.is_terminal(), terminal, "{key}");
    }
    assert_eq!(opened.store.stats().failures, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_lock_makes_the_store_unavailable_for_as_long_as_it_lasts() {
    let opened = open(Options::default());
    opened.store.claim(claim("before")).await.unwrap();
    let blocker = opened.beside();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let many = (0..20).map(|key| {
        let store = opened.store.clone();
        tokio::spawn(async move { store.claim(claim(&format!("k-{key}"))).await })
    });
    for refused in many.collect::<Vec<_>>() {
        let refused =
            tokio::time::timeout(Duration::from_secs(20), refused).await.expect("nobody is held long");
        assert!(matches!(refused.unwrap(), Err(StoreError::Unavailable(_))));
    }
    assert!(opened.store.read(claim("before").id).await.unwrap().record.is_some(), "reading goes on");
    assert!(opened.store.ready().await.is_err());
    blocker.execute_batch("ROLLBACK").unwrap();
    let again = opened.store.claim(claim("k-0")).await;
    assert!(matches!(again, Ok(Claimed::Won { .. })), "nothing was written: {again:?}");
    opened.store.ready().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_stores_on_one_file_have_one_winner_for_each_key() {
    let opened = open(Options::default());
    let other =
        Arc::new(SqliteStore::open(opened.directory.path().join("onefold.db"), Options::default()).unwrap());
    let mut claims = tokio::task::JoinSet::new();
    for key in 0..50 {
        for store in [opened.store.clone(), other.clone()] {
            claims.spawn(async move { (key, store.claim(claim(&format!("k-{key}"))).await.unwrap()) });
        }
    }
    let mut winners = vec![0; 50];
    for (key, claimed) in claims.join_all().await {
        winners[key] += usize::from(matches!(claimed, Claimed::Won { .. }));
    }
    assert_eq!(winners, vec![1; 50]);
    opened.store.advance(ask(claim("k-1").id, 1, Step::Lapse)).await.unwrap();
    let seen = other.read(claim("k-1").id).await.unwrap().record.unwrap();
    assert!(!seen.lease.is_alive(), "what one did the other sees");
}

#[tokio::test]
async fn the_log_does_not_grow_without_bound_and_is_cut_when_the_store_is_idle() {
    let opened = open(Options::default());
    let log = opened.directory.path().join("onefold.db-wal");
    let body = vec![b'x'; 1 << 20];
    let mut longest = 0;
    for key in 0..150 {
        let key = format!("k-{key}");
        opened.store.claim(claim(&key)).await.unwrap();
        opened.store.advance(settle(claim(&key).id, 1, &body)).await.unwrap();
        longest = longest.max(std::fs::metadata(&log).unwrap().len());
    }
    assert!(longest < 100 << 20, "150 MiB were written; the log was {longest} bytes long");
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while std::fs::metadata(&log).unwrap().len() > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the log of an idle store was not cut");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    opened.store.advance(ask(claim("k-1").id, 1, Step::Renew { lease: LEASE })).await.unwrap();
}

#[tokio::test]
async fn a_payload_that_was_dropped_is_in_no_file_once_the_store_was_closed() {
    let clock = Arc::new(onefold_store::clock::ManualClock::at(onefold_core::StoreTime(1_000_000)));
    let opened = open(Options { clock: clock.clone(), ..Options::default() });
    let body = b"a-secret-of-the-customer".repeat(1000);
    opened.store.claim(claim("k")).await.unwrap();
    opened.store.advance(settle(claim("k").id, 1, &body)).await.unwrap();
    clock.pass(asking::RETENTION);
    assert_eq!(opened.store.sweep(10).await.unwrap().tombstones, 1);
    let Opened { store, directory } = opened;
    drop(store);
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(!bytes.windows(24).any(|window| window == b"a-secret-of-the-customer"), "{}", path.display());
    }
}
