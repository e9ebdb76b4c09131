//! B128: a replica is no store, and what was acknowledged survives the loss of a primary whose replica is synchronous.
//! SQLite has no replicas.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onefold::CallError;
use onefold_testkit::postgres::PostgresServer;
use onefold_testkit::{TestDirectory, sql, wait};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::service::{Service, call};

const CALLERS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b128_replica_is_refused_as_a_store() {
    let directory = TestDirectory::create();
    let Some(primary) = PostgresServer::start("a replica under the library", &directory, "") else { return };
    let replica = primary.synchronous_replica_in(&directory.file("replica")).await;
    drop(Service::first(&format!("{}/postgres", primary.url())).await);
    let refused = Service::try_open(&format!("{}/postgres", replica.url())).await;
    let why = refused.err().expect("it cannot be written").to_string();
    assert!(why.contains("read-only") || why.contains("does not allow writes"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b128_acknowledged_calls_replay_on_a_promoted_synchronous_replica() {
    let directory = TestDirectory::create();
    let what = "the failover of PostgreSQL under the library";
    let Some(mut primary) = PostgresServer::start(what, &directory, "") else { return };
    let replica = primary.synchronous_replica_in(&directory.file("replica")).await;
    drop(Service::first(&format!("{}/postgres", primary.url())).await);
    let both =
        format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", primary.port(), replica.port());
    let service = Service::open(&both).await;
    let (told, is_over) = (Arc::new(Mutex::new(BTreeMap::new())), Arc::new(AtomicBool::new(false)));
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let (service, told, is_over) = (service.clone(), told.clone(), is_over.clone());
        callers.spawn(async move {
            let mut serial = 0;
            while !is_over.load(Ordering::Relaxed) {
                serial += 1;
                let key = format!("c{caller}-{serial}");
                let number = placed_in_the_end(&service, &key).await;
                told.lock().insert(key, number);
            }
        });
    }
    wait::pass_time(Duration::from_secs(2), "callers are to be at work when the primary is lost").await;
    let before = told.lock().len();
    primary.kill();
    replica.promote().await;
    // The new primary waits for no replica: it has none.
    replica.forget_replicas().await;
    wait::until("orders are placed on the new primary", || told.lock().len() > before + CALLERS).await;
    is_over.store(true, Ordering::Relaxed);
    wait::within(Duration::from_secs(90), "every caller has its last answer", callers.join_all()).await;
    assert!(before > 0, "nothing was placed before the failover");
    let told = told.lock().clone();
    let fresh = Service::open(&format!("{}/postgres", replica.url())).await;
    for (key, number) in &told {
        let again = fresh.place(call(key)).await.unwrap();
        assert_eq!((again.value(), again.replayed()), (number, true), "{key}");
    }
    let orders = sql::ask(&format!("{}/postgres", replica.url()), "SELECT count(*) FROM orders").await;
    assert_eq!(orders, told.len().to_string(), "one order for each key");
}

/// Makes the same call until it has a result.
async fn placed_in_the_end(service: &Service, key: &str) -> i64 {
    loop {
        match service.place(call(key)).await {
            Ok(done) => return done.into_value(),
            Err(CallError::StoreUnavailable(_) | CallError::InProgress { .. }) => {}
            // The transaction was rolled back, or its session ended before the end of it.
            Err(CallError::NotDone { .. }) => {}
            Err(other) => panic!("{key}: {other}"),
        }
        wait::pass_time(Duration::from_millis(20), "a caller does not ask without a pause").await;
    }
}
