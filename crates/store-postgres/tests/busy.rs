//! Attempts of several processes on one key, and closures that are slow: nobody waits with a connection in hand, and
//! nobody takes those of the lanes.

mod asking;

use std::sync::Arc;
use std::time::Duration;

use asking::{claim, open, open_with, settle};
use onefold_core::{Kept, State};
use onefold_store::{
    Advance, Advanced, Also, AtomicStore, Atomically, Claimed, Ended, Entry, Finish, OperationStore, Start,
    Step, StoreError,
};
use onefold_store_postgres::{Options, PostgresStore, PostgresWork};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::wait::{DEADLINE, until_within};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::NoTls;

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
        self.ends(Finish::Succeeded)
    }

    fn rejects(&self) -> PostgresWork {
        self.ends(Finish::Rejected)
    }

    fn ends(&self, finish: Finish) -> PostgresWork {
        let (running, may_end) = (self.running.clone(), self.may_end.clone());
        PostgresWork::new(move |_| {
            let (running, may_end) = (running.clone(), may_end.clone());
            Box::pin(async move {
                running.add_permits(1);
                may_end.acquire().await.expect("it is open").forget();
                Ended::Finished { finish, kept: Kept::Nothing, resource: None }
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

/// A key that a failed attempt has left free, and the entry of the next one.
async fn free(store: &PostgresStore, key: &str) -> Entry {
    let first = claim(store, key);
    let id = first.id;
    assert!(matches!(store.claim(first).await, Ok(Claimed::Won { .. })));
    let failed = Step::Settle { state: State::Failed, kept: Kept::Nothing, resource: None };
    let settled = store.advance(Advance { step: failed, ..settle(id, b"", None) }).await;
    assert!(matches!(settled, Ok(Advanced::Done { .. })), "{settled:?}");
    let again = claim(store, key);
    Entry::Next(Box::new(Advance {
        id,
        start: Start { states: &[State::Failed], attempt: 1, also: Also::Nothing },
        step: Step::Begin {
            scope: again.scope,
            key: again.key,
            owner: again.owner,
            lease: again.lease,
            fingerprint: again.fingerprint,
            ignored: again.ignored,
            promise: again.promise,
        },
        event: None,
        if_superseded: None,
    }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn next_attempt_that_another_process_makes_is_busy_at_once_and_its_connection_is_free() {
    let what = "a next attempt of another process, on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let url = database.url();
    let gate = Gate::new();
    let first = open(&url).await;
    let second =
        open_with(&url, Options { connections_max: 1, ..Options::default() }).await.expect("it opens");
    let next = free(&first, "k").await;
    let (entered, mut work) = (next.clone(), gate.work());
    let running = tokio::spawn(async move { first.atomically(entered, &mut work).await });
    gate.runs(1).await;
    let mut duplicate = gate.work();
    for _ in 0..3 {
        let ended = second.atomically(next.clone(), &mut duplicate);
        let ended = timeout(Duration::from_secs(4), ended).await.expect("it is told at once");
        assert_eq!(ended, Ok(Atomically::Busy));
        assert_eq!(second.ready().await, Ok(()));
    }
    gate.may_end.add_permits(1);
    let committed = running.await.expect("it ends");
    assert!(matches!(committed, Ok(Atomically::Committed { attempt: 2, .. })), "{committed:?}");
    let found = second.atomically(next, &mut duplicate).await;
    assert!(matches!(found, Ok(Atomically::Found(_))), "{found:?}");
    assert_eq!(gate.running.available_permits(), 0, "no other closure ran");
}

/// The writes of a rejection are rolled back before its record is made, and its key is free in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejection_whose_key_another_takes_in_between_is_busy_and_leaves_nothing() {
    let what = "a rejection whose key another takes, on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    let gate = Gate::new();
    let mut work = gate.rejects();
    let id = claim(&store, "k").id;
    let mut number = [0; 8];
    number.copy_from_slice(&id.as_bytes()[24..]);
    let lock = format!("SELECT pg_advisory_xact_lock({})", i64::from_be_bytes(number));
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let (ended, mut work) = {
        let taking = async {
            gate.runs(1).await;
            client.batch_execute("BEGIN").await.expect("it begins");
            let locked = client.batch_execute(&lock);
            let waits = async {
                let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
                until_within(DEADLINE, "the other waits for the key", async || {
                    database.ask(waiting).await == "1"
                })
                .await;
                gate.may_end.add_permits(1);
            };
            tokio::join!(locked, waits).0.expect("it gets the key");
        };
        let entry = entry(&store, "k");
        let (ended, ()) = tokio::join!(store.atomically(entry, &mut work), taking);
        (ended, work)
    };
    assert_eq!(ended, Ok(Atomically::Busy));
    assert_eq!(database.ask("SELECT count(*) FROM onefold.operations").await, "0");
    client.batch_execute("ROLLBACK").await.expect("it ends");
    gate.may_end.add_permits(1);
    let again = store.atomically(entry(&store, "k"), &mut work).await;
    let rejected = matches!(again, Ok(Atomically::Committed { finish: Finish::Rejected, .. }));
    assert!(rejected, "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_closures_over_one_connection_wait_for_their_turn() {
    let what = "a thousand closures on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    // Longer than this takes on a slow machine, and far longer than the wait for a connection.
    let closure_wait_max = Duration::from_secs(300);
    let options = Options { connections_max: 2, closure_wait_max, ..Options::default() };
    let store = Arc::new(open_with(&database.url(), options).await.expect("it opens"));
    let mut closures = JoinSet::new();
    for n in 0..1000 {
        let store = store.clone();
        closures.spawn(async move {
            let mut work = PostgresWork::new(|tx| {
                Box::pin(async move {
                    // So that all of them take longer than anybody waits for a connection.
                    tx.execute("SELECT pg_sleep(0.006)", &[]).await.expect("it sleeps");
                    Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None }
                })
            });
            store.atomically(entry(&store, &format!("k-{n}")), &mut work).await
        });
    }
    let ended = closures.join_all().await;
    let lost = ended.iter().find(|ended| !matches!(ended, Ok(Atomically::Committed { .. })));
    assert_eq!(lost, None);
    assert_eq!(database.ask("SELECT count(*) FROM onefold.operations").await, "1000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closure_whose_turn_does_not_come_is_told_so_when_its_wait_is_over() {
    let what = "a closure whose turn does not come, on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let closure_wait_max = Duration::from_millis(100);
    let options = Options { connections_max: 2, closure_wait_max, ..Options::default() };
    let store = Arc::new(open_with(&database.url(), options).await.expect("it opens"));
    let gate = Gate::new();
    let (first, mut work) = (store.clone(), gate.work());
    let running = tokio::spawn(async move { first.atomically(entry(&first, "slow"), &mut work).await });
    gate.runs(1).await;
    let mut second = gate.work();
    let told = store.atomically(entry(&store, "k"), &mut second);
    // Less than the wait where nothing is set.
    let told = timeout(Duration::from_secs(4), told).await.expect("it is told");
    assert!(matches!(&told, Err(StoreError::Unavailable(why)) if why.contains("100ms")), "{told:?}");
    gate.may_end.add_permits(1);
    assert!(matches!(running.await.expect("it ends"), Ok(Atomically::Committed { .. })));
}
