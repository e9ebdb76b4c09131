//! Atomic mode: one committed effect, whoever asks and how often.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onefold::postgres::{Options, PostgresTx};
use onefold::{BoxError, CallError, State, Verdict, WhileRunning};
use onefold_testkit::postgres::Isolation;
use onefold_testkit::wait;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::shop::{Runs, Shop, call, insert, operation, place};

#[tokio::test(flavor = "multi_thread")]
async fn b25_many_equal_calls_in_two_processes_are_one_order_with_one_number() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let Some(shop) = Shop::open_with(isolation, Options::default()).await else { return };
        let processes = [shop.onefold.clone(), shop.another_process().await];
        for round in 0..3 {
            let mut calls = JoinSet::new();
            for number in 0..50 {
                let onefold = processes[number % 2].clone();
                calls.spawn(async move { place(&onefold, &format!("round-{round}"), "lamp").await.unwrap() });
            }
            let done = calls.join_all().await;
            assert_eq!(done.iter().filter(|done| !done.replayed()).count(), 1);
            assert!(done.iter().all(|other| other.value() == done[0].value()));
        }
        assert_eq!(shop.orders_and_records().await, (3, 3), "{isolation:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b22_another_request_under_the_key_is_a_conflict_in_every_process() {
    let Some(shop) = Shop::open().await else { return };
    let first = shop.place("k", "lamp").await.unwrap();
    let other_process = shop.another_process().await;
    for onefold in [&shop.onefold, &other_process, &other_process] {
        let error = place(onefold, "k", "chair").await.unwrap_err();
        assert!(matches!(error, CallError::Conflict { original: State::Succeeded, .. }), "{error}");
        assert!(!error.new_key_is_safe());
        let again = place(onefold, "k", "lamp").await.unwrap();
        assert_eq!((again.value(), again.replayed(), again.id()), (first.value(), true, first.id()));
    }
    assert_eq!(shop.orders_and_records().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_winners_rollback_the_next_of_those_who_waited_goes_in() {
    let Some(shop) = Shop::open().await else { return };
    let processes = [shop.onefold.clone(), shop.another_process().await];
    let runs = Runs::default();
    let mut calls = JoinSet::new();
    for number in 0..16 {
        let (onefold, runs) = (processes[number % 2].clone(), runs.clone());
        calls.spawn(async move {
            let work = async move |tx: &mut PostgresTx| {
                let number = insert(tx, "lamp").await?;
                if runs.fetch_add(1, Ordering::SeqCst) < 3 {
                    Err("not yet".into())
                } else {
                    Ok(Verdict::succeeded(number))
                }
            };
            onefold.atomic(call("k", "lamp"), work).await
        });
    }
    let ended = calls.join_all().await;
    assert_eq!(ended.iter().filter(|ended| ended.is_err()).count(), 3);
    assert_eq!(runs.load(Ordering::SeqCst), 4);
    assert_eq!(shop.orders_and_records().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn duplicates_in_one_process_do_not_drain_its_pool() {
    let options = Options { connections_max: 4, ..Options::default() };
    let Some(shop) = Shop::open_with(Isolation::ReadCommitted, options).await else { return };
    let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let mut calls = JoinSet::new();
    for _ in 0..32 {
        let (onefold, begun, go) = (shop.onefold.clone(), begun.clone(), go.clone());
        let patient = operation().while_running(WhileRunning::Wait(Duration::from_secs(60)));
        let call = patient.call(onefold::Scope::shared(), "hot", "lamp").unwrap();
        calls.spawn(async move {
            let work = async move |tx: &mut PostgresTx| {
                begun.add_permits(1);
                go.acquire().await?.forget();
                Ok(Verdict::succeeded(insert(tx, "lamp").await?))
            };
            onefold.atomic(call, work).await.unwrap()
        });
    }
    let _one_runs = begun.acquire().await.unwrap();
    // Nothing is seen of those who wait, so the others pass by them many times.
    for number in 0..100 {
        shop.place(&format!("cold-{number}"), "lamp").await.unwrap();
    }
    go.add_permits(32);
    let done = calls.join_all().await;
    assert_eq!(done.iter().filter(|done| !done.replayed()).count(), 1);
    assert_eq!(shop.orders_and_records().await, (101, 101));
}

/// Each waits as its own operation says, not for a lock of the database, and the store is at no fault.
#[tokio::test(flavor = "multi_thread")]
async fn duplicates_in_another_process_are_told_that_it_is_in_progress_when_their_own_patience_ends() {
    let Some(shop) = Shop::open().await else { return };
    let other = shop.another_process().await;
    let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let call = |wait: WhileRunning| {
        operation().while_running(wait).call(onefold::Scope::shared(), "hot", "lamp").unwrap()
    };
    let (onefold, has_begun, may_go) = (shop.onefold.clone(), begun.clone(), go.clone());
    let first = call(WhileRunning::Busy);
    let first = tokio::spawn(async move {
        let work = async move |tx: &mut PostgresTx| {
            has_begun.add_permits(1);
            may_go.acquire().await?.forget();
            Ok(Verdict::succeeded(insert(tx, "lamp").await?))
        };
        onefold.atomic(first, work).await.unwrap()
    });
    begun.acquire().await.unwrap().forget();
    let duplicate = async |wait| {
        let work =
            async |_: &mut PostgresTx| -> Result<Verdict<i64>, BoxError> { unreachable!("it runs once") };
        other.atomic(call(wait), work).await
    };
    for wait in [WhileRunning::Busy, WhileRunning::Wait(Duration::from_millis(200))] {
        // Less than any wait for a lock.
        let told = tokio::time::timeout(Duration::from_secs(4), duplicate(wait)).await.expect("it is told");
        let error = told.unwrap_err();
        assert!(matches!(error, CallError::InProgress { .. }), "{wait:?}: {error}");
        assert!(!error.new_key_is_safe());
    }
    let (done, _) = tokio::join!(duplicate(WhileRunning::Wait(wait::DEADLINE)), async { go.add_permits(1) });
    let done = done.unwrap();
    assert!(done.replayed());
    assert_eq!(first.await.unwrap().value(), done.value());
    assert_eq!(shop.orders_and_records().await, (1, 1));
    let mut registry = Registry::default();
    other.engine().signals().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let errors = text.lines().find(|line| line.starts_with("onefold_store_errors_total{"));
    assert!(errors.is_none_or(|line| line.ends_with(" 0")), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_remembered_with_its_value_and_without_its_writes() {
    let Some(shop) = Shop::open().await else { return };
    for replayed in [false, true] {
        let work = async |tx: &mut PostgresTx| {
            insert(tx, "lamp").await?;
            Ok(Verdict::rejected("no such article".to_owned()))
        };
        let refused = shop.onefold.atomic(call("k", "lamp"), work).await.unwrap();
        assert_eq!((refused.rejected(), refused.replayed()), (true, replayed));
        assert_eq!(refused.value(), "no such article");
    }
    assert_eq!(shop.orders_and_records().await, (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_is_noted_once_whichever_operation_asks_for_it() {
    let Some(shop) = Shop::open().await else { return };
    let processes = [shop.onefold.clone(), shop.another_process().await];
    let mut calls = JoinSet::new();
    for number in 0..8 {
        let onefold = processes[number % 2].clone();
        calls.spawn(async move {
            let work = async |tx: &mut PostgresTx| {
                let first = tx.effect("order-5001/ORDER_CONFIRMED").await?;
                Ok(Verdict::succeeded(first))
            };
            *onefold.atomic(call(&format!("event-{number}"), "e"), work).await.unwrap().value()
        });
    }
    let first = calls.join_all().await;
    assert_eq!(first.iter().filter(|first| **first).count(), 1, "{first:?}");
    assert_eq!(shop.count("onefold.effects").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b38_a_caller_that_goes_away_cancels_nothing() {
    let Some(shop) = Shop::open().await else { return };
    let (begun, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (told, goes) = (begun.clone(), go.clone());
    let calling = shop.onefold.atomic(call("k", "lamp"), async move |tx: &mut PostgresTx| {
        told.add_permits(1);
        goes.acquire().await?.forget();
        Ok(Verdict::succeeded(insert(tx, "lamp").await?))
    });
    tokio::select! {
        _ = calling => panic!("it waits"),
        permit = begun.acquire() => permit.unwrap().forget(),
    }
    go.add_permits(1);
    wait::until_within(wait::DEADLINE, "the order is placed", async || shop.count("orders").await == 1).await;
    assert!(shop.place("k", "lamp").await.unwrap().replayed());
    assert_eq!(shop.orders_and_records().await, (1, 1));
}
