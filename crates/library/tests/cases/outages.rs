//! B129: the store goes away and comes back under a running service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold::{CallError, Recorded, Verdict};
use onefold_testkit::{FragileStore, Gate, on_each_outage, wait};
use tokio::sync::Semaphore;

use crate::service::{Service, call, orders};

on_each_outage!(
    b129_store_out_of_reach_fails_closed_and_recovers_by_itself,
    b129_result_that_cannot_be_stored_still_reaches_the_caller_and_nothing_runs_again,
);

async fn b129_store_out_of_reach_fails_closed_and_recovers_by_itself(mut store: FragileStore) {
    let service = Service::first(store.url()).await;
    let before = service.place(call("before")).await.unwrap();
    store.go_away();
    let runs = Arc::new(AtomicUsize::new(0));
    let charge = || {
        let runs = runs.clone();
        move |_| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            Ok(Verdict::succeeded(7))
        }
    };
    for error in [
        service.place(call("placed")).await.unwrap_err(),
        service.reserved(call("charged"), charge()).await.unwrap_err(),
    ] {
        assert!(matches!(error, CallError::StoreUnavailable(_)), "{error}");
        assert!(error.retry_after().is_some() && !error.new_key_is_safe(), "{error}");
    }
    assert_eq!(runs.load(Ordering::SeqCst), 0, "nothing ran without a claim");
    store.come_back();
    let placed = wait::some(wait::DEADLINE, "orders are placed again", async || {
        service.place(call("placed")).await.ok()
    })
    .await;
    assert!(!placed.replayed(), "it was never executed");
    let charged = service.reserved(call("charged"), charge()).await.unwrap();
    assert_eq!((charged.replayed(), runs.load(Ordering::SeqCst)), (false, 1));
    let again = service.place(call("before")).await.unwrap();
    assert_eq!((again.value(), again.replayed()), (before.value(), true));
    assert_eq!(orders(store.url()).await, 2);
}

async fn b129_result_that_cannot_be_stored_still_reaches_the_caller_and_nothing_runs_again(
    mut store: FragileStore,
) {
    let service = Service::first(store.url()).await;
    let (begun, gate) = (Arc::new(Semaphore::new(0)), Gate::closed());
    let (told, goes, own) = (begun.clone(), gate.clone(), service.clone());
    let first = tokio::spawn(async move {
        let work = move |_| async move {
            told.add_permits(1);
            goes.passed().await;
            Ok(Verdict::succeeded(7))
        };
        own.reserved(call("k"), work).await
    });
    begun.acquire().await.unwrap().forget();
    store.go_away();
    gate.open();
    let first = first.await.unwrap().unwrap();
    assert_eq!((*first.value(), first.recorded()), (7, Recorded::NotYet));
    store.come_back();
    wait::until_within(wait::DEADLINE, "the key is settled", async || {
        match service.ask_again(call("k")).await {
            Ok(again) => *again.value() == 7 && again.replayed(),
            Err(CallError::OutcomeUnknown { .. }) => true,
            Err(CallError::InProgress { .. } | CallError::StoreUnavailable(_)) => false,
            Err(other) => panic!("{other}"),
        }
    })
    .await;
}
