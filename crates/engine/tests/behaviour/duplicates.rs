//! The first request gets the attempt; its equals wait for it, or are told at once, as the contract says.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use onefold_core::contract::WhileRunning;
use onefold_core::{Contract, Decision, Kept, Outcome, State};
use onefold_engine::{Entered, Verdict};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn first_request_gets_an_attempt_and_waiting_equals_get_its_result() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    assert_eq!(attempt.number(), 1);
    let waiting = [duplicate(&engine, &order).await, duplicate(&engine, &order).await];
    sleep(secs(7)).await;
    assert!(waiting.iter().all(|task| !task.is_finished()), "duplicates wait");
    recorded(attempt.settle(placed("order 5001")).await);
    for task in waiting {
        let known = task.await.unwrap();
        assert_eq!(known.decision, Decision::Replay);
        assert_eq!(known.record.unwrap().kept, answered(201, "order 5001"));
    }
}

#[tokio::test(start_paused = true)]
async fn fifty_concurrent_duplicates_make_one_attempt() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let attempts = std::sync::Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let (engine, order, attempts) = (engine.clone(), order.clone(), attempts.clone());
        tasks.spawn(async move {
            match enter(&engine, &order).await.unwrap() {
                Entered::Attempt(attempt) => {
                    attempts.fetch_add(1, Relaxed);
                    sleep(secs(1)).await;
                    recorded(attempt.settle(placed("order 5001")).await);
                }
                Entered::Known(known) => {
                    assert_eq!(known.decision, Decision::Replay);
                    assert_eq!(known.record.unwrap().kept, answered(201, "order 5001"));
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(attempts.load(Relaxed), 1);
    assert_eq!(metric(&engine, "attempts_begun_total"), 1);
    assert_eq!(metric(&engine, "replays_total"), 49);
}

#[tokio::test(start_paused = true)]
async fn duplicates_that_do_not_wait_are_told_at_once_with_the_rest_of_the_lease() {
    for policy in [WhileRunning::Busy, WhileRunning::Accepted, WhileRunning::Wait(secs(0))] {
        let engine = World::new().engine();
        let order = call(Contract { while_running: policy, lease: secs(20), ..contract() }, "3 apples");
        let _attempt = begin(&engine, &order).await;
        sleep(secs(4)).await;
        let asked = Instant::now();
        assert_eq!(
            decision(&engine, &order).await,
            Decision::Busy { retry_after: secs(16) },
            "under {policy:?}"
        );
        assert_eq!(asked.elapsed(), secs(0), "under {policy:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn duplicate_waits_no_longer_than_its_contract_says() {
    let engine = World::new().engine();
    let order = call(Contract { while_running: WhileRunning::Wait(secs(5)), ..contract() }, "3 apples");
    let _attempt = begin(&engine, &order).await;
    let asked = Instant::now();
    let known = known(&engine, &order).await;
    assert!(matches!(known.decision, Decision::Busy { .. }));
    assert!(known.retry_after() > Some(secs(0)));
    assert_eq!(asked.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn waiting_duplicate_is_woken_by_the_end_of_the_attempt() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let waiting = duplicate(&engine, &order).await;
    sleep(secs(3)).await;
    let ended = Instant::now();
    recorded(attempt.settle(placed("order 5001")).await);
    assert_eq!(waiting.await.unwrap().decision, Decision::Replay);
    assert_eq!(ended.elapsed(), secs(0));
    assert_eq!(
        (store.seen(Asked::Claim), store.seen(Asked::Read)),
        (1, 0),
        "who waits asks the store nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn rejection_is_replayed_like_a_success() {
    let world = World::new();
    let engine = world.engine();
    let order = call(contract(), "0 apples");
    let rejected = Verdict::known(Outcome::Rejected, answered(422, "too few"), None);
    recorded(begin(&engine, &order).await.settle(rejected).await);
    for process in [engine, world.engine()] {
        let known = known(&process, &order).await;
        assert_eq!(known.decision, Decision::Replay);
        let record = known.record.unwrap();
        assert_eq!((record.state, &record.kept), (State::Rejected, &answered(422, "too few")));
    }
}

#[tokio::test(start_paused = true)]
async fn empty_result_is_a_result() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    recorded(begin(&engine, &order).await.settle(placed("")).await);
    let known = known(&engine, &order).await;
    assert_eq!(known.decision, Decision::Replay);
    assert!(matches!(&known.record.unwrap().kept, Kept::Full(answer) if answer.body.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn replay_shortly_after_the_end_asks_the_store_nothing() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    recorded(begin(&engine, &order).await.settle(placed("order 5001")).await);
    let asked = store.seen(Asked::Claim);
    assert_eq!(decision(&engine, &order).await, Decision::Replay);
    assert_eq!(store.seen(Asked::Claim), asked);
    sleep(secs(6)).await;
    assert_eq!(decision(&engine, &order).await, Decision::Replay);
    assert_eq!(store.seen(Asked::Claim), asked + 1, "what is remembered is looked at again");
}
