//! What is true after a restart, orderly or not.

mod asking;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use asking::{LEASE, RETENTION, RUNNING, claim, options, settle};
use onefold_core::contract::OnStale;
use onefold_core::{Kept, Lease, State, StoreTime};
use onefold_store::clock::ManualClock;
use onefold_store::{Advanced, Claimed, OperationStore, Query, Swept};
use onefold_store_sqlite::{Options, SqliteStore};

const CHILD: &str = "ONEFOLD_TEST_STORE";

/// Not a test by itself: the process that is killed. It prints each key once it is acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn claims_and_settles_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let store = Arc::new(SqliteStore::open(path, options()).unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16 {
        let store = store.clone();
        tasks.spawn(async move {
            for number in 0.. {
                let key = format!("{task}-{number}");
                let id = claim(&key).id;
                assert!(matches!(store.claim(claim(&key)).await.unwrap(), Claimed::Won { .. }));
                println!("CLAIMED {key}");
                assert!(matches!(
                    store.advance(settle(id, 1, key.as_bytes())).await.unwrap(),
                    Advanced::Done { .. }
                ));
                println!("SETTLED {key}");
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn everything_acknowledged_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    for round in 1..=3 {
        let path = directory.path().join(format!("{round}.db"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "claims_and_settles_until_it_is_killed", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut told: Vec<String> = lines.by_ref().filter(|line| is_told(line)).take(round * 150).collect();
        child.kill().unwrap();
        told.extend(lines.filter(|line| is_told(line)));
        child.wait().unwrap();

        let store = SqliteStore::open(&path, options()).unwrap();
        for line in &told {
            let Some((what, key)) = line.split_once(' ') else { continue };
            let record =
                store.read(claim(key).id).await.unwrap().record.unwrap_or_else(|| panic!("{line} is lost"));
            if what == "SETTLED" {
                assert_eq!(record.state, State::Succeeded, "{line}");
                assert!(
                    matches!(&record.kept, Kept::Full(answer) if answer.body == key.as_bytes()),
                    "{line}"
                );
            }
        }
        assert!(told.len() >= round * 150);
    }
    assert!(!path.exists());
}

/// The last line may have been cut by the kill: it is complete when it names a task and a number.
fn is_told(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(what, key)| matches!(what, "CLAIMED" | "SETTLED") && key.contains('-'))
}

#[tokio::test]
async fn time_does_not_run_back_over_a_restart_or_between_processes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    let at = |wall| Options { clock: Arc::new(ManualClock::at(StoreTime(wall))), ..options() };
    let ahead = SqliteStore::open(&path, at(9_000_000)).unwrap();
    let [behind, reader, lister] = [(); 3].map(|()| SqliteStore::open(&path, at(1_000_000)).unwrap());
    ahead.claim(claim("ahead")).await.unwrap();
    let read = reader.read(claim("none").id).await.unwrap();
    assert!(read.now >= StoreTime(9_000_000), "a reader sees the other's time: {}", read.now);
    let Claimed::Won { now } = behind.claim(claim("behind")).await.unwrap() else { panic!("the key is new") };
    assert!(now >= StoreTime(9_000_000), "{now}");
    let page = lister.list(Query { limit: 9, ..Query::default() }).await.unwrap();
    assert!(page.now >= StoreTime(9_000_000), "a list does too: {}", page.now);
    drop((ahead, behind, reader, lister));
    let later = SqliteStore::open(&path, at(1_000_000)).unwrap();
    assert!(later.read(claim("none").id).await.unwrap().now >= StoreTime(9_000_000));
}

#[tokio::test]
async fn a_leap_that_this_process_saw_ends_no_live_lease_of_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    let clock = Arc::new(ManualClock::at(StoreTime(1_000_000)));
    let open = || SqliteStore::open(&path, Options { clock: clock.clone(), ..options() }).unwrap();
    let (one, two) = (open(), open());
    let mut stale = claim("k");
    stale.promise.on_stale = OnStale::Unknown;
    one.claim(stale).await.unwrap();
    clock.set_wall(StoreTime(9_000_000_000));
    let seen = two.read(claim("k").id).await.unwrap().record.unwrap();
    assert_eq!(seen.lease, Lease::Alive(LEASE));
    assert_eq!(two.lose_stale(10).await.unwrap(), 0);
    clock.pass(LEASE);
    assert_eq!(two.lose_stale(10).await.unwrap(), 1);
    assert_eq!(RUNNING, [State::Processing]);
}

#[tokio::test]
async fn of_several_processes_one_sweeps_until_it_stops_or_dies() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    let clock = Arc::new(ManualClock::at(StoreTime(1_000_000)));
    let open = || SqliteStore::open(&path, Options { clock: clock.clone(), ..options() }).unwrap();
    let (one, two) = (open(), open());
    for key in 0..30 {
        let id = claim(&format!("k-{key}")).id;
        one.claim(claim(&format!("k-{key}"))).await.unwrap();
        one.advance(settle(id, 1, b"done")).await.unwrap();
    }
    let nothing = Swept::default();
    assert_eq!(one.sweep(10).await.unwrap(), nothing, "what finds nothing takes no turn");
    clock.pass(RETENTION);
    assert_eq!(two.sweep(10).await.unwrap().tombstones, 10);
    assert_eq!(one.sweep(10).await.unwrap(), nothing, "it is the other's turn");
    clock.pass(Duration::from_millis(4999));
    assert_eq!(two.sweep(10).await.unwrap().tombstones, 10);
    clock.pass(Duration::from_millis(4999));
    assert_eq!(one.sweep(10).await.unwrap(), nothing, "each step prolongs it");
    drop(two);
    clock.pass(Duration::from_millis(1));
    assert_eq!(one.sweep(10).await.unwrap().tombstones, 10);
}

#[tokio::test]
async fn a_lease_of_a_process_that_died_ends_by_the_stored_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    let clock = Arc::new(ManualClock::at(StoreTime(1_000_000)));
    let open = || SqliteStore::open(&path, Options { clock: clock.clone(), ..options() }).unwrap();
    open().claim(claim("k")).await.unwrap();
    let next = open();
    clock.pass(LEASE - Duration::from_millis(1));
    assert!(next.read(claim("k").id).await.unwrap().record.unwrap().lease.is_alive());
    clock.pass(Duration::from_millis(1));
    assert_eq!(next.read(claim("k").id).await.unwrap().record.unwrap().lease, Lease::Over);
}
