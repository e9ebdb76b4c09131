//! B132: what expires at once is swept by the replicas of a service together, each record once.

use std::time::Duration;

use onefold::CallError;
use onefold_testkit::expired;
use onefold_testkit::{Store, on_each_store, wait};
use tokio::task::JoinSet;

use crate::service::{Service, call, call_of, operation};

on_each_store!(b132_replicas_sweep_each_expired_record_once_and_no_other);

const CALLERS: usize = 10;
const EXPIRING_OF_EACH: usize = 50;
const EXPIRING: usize = CALLERS * EXPIRING_OF_EACH;

async fn b132_replicas_sweep_each_expired_record_once_and_no_other(store: &Store) {
    let service = Service::first(store.url()).await;
    for nth in 0..5 {
        service.place(call(&format!("live-{nth}"))).await.unwrap();
    }
    let short = operation().retention(Duration::from_secs(1));
    let mut callers = JoinSet::new();
    // No more at once than have a connection at once: a slow machine is no reason to fail.
    for caller in 0..CALLERS {
        let (service, short) = (service.clone(), short.clone());
        callers.spawn(async move {
            for nth in 0..EXPIRING_OF_EACH {
                let key = format!("short-{}", caller * EXPIRING_OF_EACH + nth);
                service.place(call_of(&short, &key)).await.unwrap();
            }
        });
    }
    callers.join_all().await;
    let mut replicas = vec![service];
    for _ in 1..4 {
        replicas.push(Service::open(store.url()).await);
    }
    let keepers: Vec<_> = replicas.iter().map(|replica| replica.keep(Duration::from_secs(1))).collect();
    wait::until_within(Duration::from_secs(60), "everything is swept", async || {
        expired::count(store.url()).await.tombstones == EXPIRING as u64
    })
    .await;
    drop(keepers);
    assert_eq!(expired::count(store.url()).await.live, 5);
    for replica in &replicas {
        for nth in [0, EXPIRING - 1] {
            let gone = replica.place(call_of(&short, &format!("short-{nth}"))).await;
            assert!(matches!(gone, Err(CallError::Expired { .. })), "{gone:?}");
        }
        for nth in 0..5 {
            assert!(replica.place(call(&format!("live-{nth}"))).await.unwrap().replayed());
        }
    }
}
