//! Attempts of several processes on one key, and closures that are slow: nobody waits with a connection in hand, and
//! nobody takes those of the lanes.

mod asking;

use std::sync::Arc;
use std::time::Duration;

use asking::{claim, open, open_with, settle};
use onefold_core::Kept;
use onefold_store::{Advanced, AtomicStore, Atomically, Claimed, Ended, Entry, Finish, OperationStore};
use onefold_store_postgres::{Options, PostgresStore, PostgresWork};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::wait::DEADLINE;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A closure that says when it runs and ends when it may.
struct Gate {
    running: Arc<Semaphore>,
    may_end: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Gate {
        Gate { running: Arc::new(Semaphore::new(0)), may_end: Arc::new(Semaphore::new(0)) }
    }

    fn work(&self) -> PostgresWork {
        let (running, may_end) = (self.running.clone(), self.may_end.clone());
        PostgresWork::new(move |_| {
            let (running, may_end) = (running.clone(), may_end.clone());
            Box::pin(async move {
                running.add_permits(1);
                may_end.acquire().await.expect("it is open").forget();
                Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None }
            })
        })
    }

    async fn runs(&self, closures: u32) {
        let running = timeout(DEADLINE, self.running.acquire_many(closures)).await;
        running.expect("they run").expect("it is open").forget();
    }
}

fn entry(store: &PostgresStore, key: &str) -> Entry {
    Entry::New(Box::new(claim(store, key)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_that_another_process_holds_is_busy_at_once_and_its_connection_is_free() {
    let what = "a key that another process holds, on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let url = database.url();
    let gate = Gate::new();
    let first = open(&url).await;
    let second =
        open_with(&url, Options { connections_max: 1, ..Options::default() }).await.expect("it opens");
    let (entered, mut work) = (entry(&first, "k"), gate.work());
    let running = tokio::spawn(async move { first.atomically(entered, &mut work).await });
    gate.runs(1).await;
    let mut duplicate = gate.work();
    for _ in 0..3 {
        let ended = second.atomically(entry(&second, "k"), &mut duplicate);
        // Less than any wait for a lock.
        let ended = timeout(Duration::from_secs(4), ended).await.expect("it is told at once");
        assert_eq!(ended, Ok(Atomically::Busy));
        assert_eq!(second.ready().await, Ok(()));
    }
    gate.may_end.add_permits(1);
    assert!(matches!(running.await.expect("it ends"), Ok(Atomically::Committed { .. })));
    let found = second.atomically(entry(&second, "k"), &mut duplicate).await;
    assert!(matches!(found, Ok(Atomically::Found(_))), "{found:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_closures_leave_connections_to_claims_and_outcomes() {
    let what = "slow closures on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let options = Options { connections_max: 10, ..Options::default() };
    let store = Arc::new(open_with(&database.url(), options).await.expect("it opens"));
    let gate = Gate::new();
    let mut closures = JoinSet::new();
    for n in 0..12 {
        let (store, mut work) = (store.clone(), gate.work());
        closures.spawn(async move { store.atomically(entry(&store, &format!("slow-{n}")), &mut work).await });
    }
    gate.runs(5).await;
    for n in 0..10 {
        let reserved = claim(&store, &format!("k-{n}"));
        let id = reserved.id;
        // Less than the wait for a connection.
        let claimed =
            timeout(Duration::from_secs(4), store.claim(reserved)).await.expect("it has a connection");
        assert!(matches!(claimed, Ok(Claimed::Won { .. })), "{claimed:?}");
        let settled = timeout(Duration::from_secs(4), store.advance(settle(id, b"x", None))).await;
        assert!(matches!(settled, Ok(Ok(Advanced::Done { .. }))), "{settled:?}");
    }
    gate.may_end.add_permits(12);
    let ended = closures.join_all().await;
    assert!(ended.iter().all(|ended| matches!(ended, Ok(Atomically::Committed { .. }))), "{ended:?}");
}
