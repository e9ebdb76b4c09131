//! The outbox on SQLite beside its conformance suite: its clock, and what stands in its files.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{Key, Message, StoreTime};
use onefold_store::clock::ManualClock;
use onefold_store::{IfLost, OutboxStore, Take, Taken};
use onefold_store_sqlite::{Options, SqliteStore};

const LEASE: Duration = Duration::from_secs(30);

struct Outbox {
    store: SqliteStore,
    clock: Arc<ManualClock>,
    directory: tempfile::TempDir,
}

fn outbox() -> Outbox {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let options = Options { clock: clock.clone(), seal_keys: vec![[7; 32]], ..Options::default() };
    let store = SqliteStore::open(directory.path().join("onefold.db"), options).unwrap();
    Outbox { store, clock, directory }
}

fn message() -> Message {
    Message {
        id: Key::new("m-1").unwrap(),
        destination: "shop".into(),
        address: "orders".into(),
        ordering_key: None,
        headers: Vec::new(),
        body: b"a body that nobody may read".to_vec(),
    }
}

impl Outbox {
    async fn take(&self) -> Vec<Taken> {
        let take = Take {
            destination: "shop".into(),
            limit: 10,
            bytes: u64::MAX,
            lease: LEASE,
            if_lost: IfLost::SendAgain,
        };
        self.store.take(take).await.unwrap()
    }
}

#[tokio::test]
async fn leap_of_the_clock_ends_no_lease() {
    let o = outbox();
    o.store.enqueue(vec![message()]).await.unwrap();
    o.take().await;
    o.clock.set_wall(StoreTime(1_800_000_000_000));
    assert!(o.take().await.is_empty());
    o.clock.pass(LEASE);
    assert_eq!(o.take().await.len(), 1);
}

#[tokio::test]
async fn content_never_stands_plain_in_the_files() {
    let o = outbox();
    o.store.enqueue(vec![message()]).await.unwrap();
    for entry in std::fs::read_dir(o.directory.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(11).any(|part| part == b"nobody may "));
    }
    assert_eq!(o.take().await[0].message.body, message().body);
}
