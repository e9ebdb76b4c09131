//! Many calls, one effect.

use std::time::Duration;

use onefold::WhileRunning;
use tokio::task::JoinSet;
use tonic::{Code, Request};

use crate::world::{World, by_principal, checkout, is_problem, keyed, payment, replayed};

#[tokio::test(flavor = "multi_thread")]
async fn b51_a_replay_is_marked_and_the_same_and_a_handler_cannot_fake_it() {
    let world = World::open().await;
    for again in [false, true, true] {
        let placed = world.place("k", "lamp").await.unwrap();
        assert_eq!(
            (replayed(&placed), placed.get_ref().number, placed.get_ref().sku.as_str()),
            (again, 1, "lamp")
        );
        assert!(placed.metadata().get("onefold-operation").is_some());
    }
    for again in [None, Some("true")] {
        let refused = world.place("other", "sold out").await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.message(), refused.details()),
            (Code::NotFound, "none", &[7, 8][..])
        );
        let mark = refused.metadata().get("idempotent-replayed").map(|mark| mark.to_str().unwrap());
        assert_eq!(mark, again, "the handler has set it");
    }
    assert_eq!(world.order_rows(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b52_an_empty_message_is_an_answer_like_any_other() {
    let world = World::open().await;
    for again in [false, true] {
        let placed = world.place("k", "nothing").await.unwrap();
        assert_eq!(
            (replayed(&placed), placed.get_ref().number, placed.get_ref().sku.as_str()),
            (again, 0, "")
        );
    }
    assert_eq!(world.order_rows(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b25_many_equal_calls_at_once_are_one_effect_with_one_answer() {
    let world = World::open().await;
    for round in 0..10 {
        let mut calls = JoinSet::new();
        for caller in 0..50 {
            let (mut orders, key) = (world.orders.clone(), format!("round-{round}"));
            calls.spawn(async move {
                match caller % 2 {
                    0 => orders
                        .place(keyed(&key, checkout("lamp")))
                        .await
                        .map(|order| (replayed(&order), order.get_ref().number.to_string())),
                    _ => orders
                        .charge(keyed(&key, payment("well")))
                        .await
                        .map(|receipt| (replayed(&receipt), receipt.get_ref().charge.clone())),
                }
            });
        }
        let answers: Vec<_> = calls.join_all().await.into_iter().map(|answer| answer.unwrap()).collect();
        assert_eq!(answers.iter().filter(|(replayed, _)| !replayed).count(), 2);
        let mut different: Vec<_> = answers.iter().map(|(_, answer)| answer).collect();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), 2, "one order and one charge");
    }
    assert_eq!((world.order_rows(), world.charges()), (10, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_another_message_is_a_conflict_at_once_while_the_first_runs() {
    let world = World::with(WhileRunning::Busy, by_principal()).await;
    let mut orders = world.orders.clone();
    let first = tokio::spawn(async move { orders.charge(keyed("k", payment("waits"))).await });
    world.provider.begun.acquire().await.unwrap().forget();

    let conflict = world.charge("k", "well").await.unwrap_err();
    let details = is_problem(&conflict, Code::FailedPrecondition, "key-conflict");
    assert_eq!(details.error_info().unwrap().metadata["safe_to_use_new_key"], "false");
    assert!(details.retry_info().is_none());

    let twin = world.charge("k", "waits").await.unwrap_err();
    let details = is_problem(&twin, Code::Unavailable, "in-progress");
    let wait = details.retry_info().and_then(|info| info.retry_delay).unwrap();
    assert!(wait >= Duration::from_secs(1) && wait <= Duration::from_secs(30), "{wait:?}");
    let pushback = twin.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap();
    assert_eq!(pushback, wait.as_millis().to_string());

    world.provider.gate.add_permits(1);
    let charged = first.await.unwrap().unwrap();
    assert!(!replayed(&charged));
    assert!(replayed(&world.charge("k", "waits").await.unwrap()));
    is_problem(&world.charge("k", "well").await.unwrap_err(), Code::FailedPrecondition, "key-conflict");
    assert_eq!(world.charges(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b38_neither_a_hang_up_nor_a_deadline_cancels_the_operation() {
    let world = World::open().await;
    for deadline in [false, true] {
        let key = format!("deadline-{deadline}");
        let mut request = keyed(&key, payment("waits"));
        if deadline {
            request.set_timeout(Duration::from_millis(50));
        }
        let mut orders = world.orders.clone();
        let call = tokio::spawn(async move { orders.charge(request).await });
        world.provider.begun.acquire().await.unwrap().forget();
        if deadline {
            let late = call.await.unwrap().unwrap_err();
            assert!(matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled), "{late:?}");
        } else {
            call.abort();
            let _ = call.await;
        }
        world.provider.gate.add_permits(1);
        let charged = world.charge(&key, "waits").await.unwrap();
        assert!(replayed(&charged));
    }
    assert_eq!(world.charges(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn b34_an_answer_lost_after_the_commit_is_replayed_and_a_panic_before_it_leaves_nothing() {
    let world = World::open().await;
    let lost = world.place("panics", "panic").await.unwrap_err();
    is_problem(&lost, Code::Internal, "not-done");
    assert_eq!(world.order_rows(), 0);
    assert!(!replayed(&world.place("panics", "lamp").await.unwrap()), "the key is free");

    world.answers.forget_permits(1000);
    let mut orders = world.orders.clone();
    let call = tokio::spawn(async move { orders.place(keyed("k", checkout("lamp"))).await });
    let committed = async {
        while world.order_rows() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), committed).await.expect("the order is committed");
    call.abort();
    let world = world.restart().await;
    let placed = world.place("k", "lamp").await.unwrap();
    assert_eq!((replayed(&placed), placed.get_ref().number, world.order_rows()), (true, 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn b05_calls_without_a_key_never_share_a_record() {
    let world = World::open().await;
    let mut charges = Vec::new();
    for _ in 0..3 {
        let mut request = Request::new(payment("well"));
        request.metadata_mut().insert("key-is-optional", "yes".parse().unwrap());
        let charged = world.orders.clone().charge(request).await.unwrap();
        assert!(!replayed(&charged));
        charges.push(charged.into_inner().charge);
    }
    assert_eq!(charges, ["charge 1", "charge 2", "charge 3"]);
    let missing = world.orders.clone().charge(Request::new(payment("well"))).await.unwrap_err();
    is_problem(&missing, Code::InvalidArgument, "key-missing");
    assert_eq!((world.charges(), world.records()), (3, 0));
}
