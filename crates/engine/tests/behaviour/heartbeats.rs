//! A live attempt renews its lease and keeps the operation for as long as it lives; one that learns that it was
//! superseded says so to those who wait for it.

use onefold_core::{Contract, Decision, State};
use onefold_engine::Settled;
use tokio::time::sleep;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn attempt_outlives_its_lease_by_renewing_it() {
    for one in [busy(), resumable()] {
        let world = World::new();
        let order = call(Contract { lease: secs(1), ..one }, "3 apples");
        let attempt = begin(&world.engine(), &order).await;
        let other = world.engine();
        for _ in 0..5 {
            sleep(millis(500)).await;
            assert!(matches!(decision(&other, &order).await, Decision::Busy { .. }));
        }
        assert_eq!(recorded(attempt.settle(placed("order 5001")).await).attempt, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn one_failed_renewal_loses_nothing() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(resumable(), "3 apples");
    store.next(Asked::Renew, Fault::Unavailable);
    let attempt = begin(&engine, &order).await;
    sleep(secs(10)).await;
    assert!(matches!(decision(&world.engine(), &order).await, Decision::Busy { .. }));
    recorded(attempt.settle(placed("order 5001")).await);
}

#[tokio::test(start_paused = true)]
async fn settled_attempt_renews_nothing_any_more() {
    let (engine, store) = World::new().flaky();
    let order = call(resumable(), "3 apples");
    let attempt = begin(&engine, &order).await;
    sleep(secs(5)).await;
    recorded(attempt.settle(placed("order 5001")).await);
    let renewed = store.seen(Asked::Renew);
    assert!(renewed >= 4);
    sleep(secs(60)).await;
    assert_eq!(store.seen(Asked::Renew), renewed);
    assert_eq!(metric(&engine, "fenced_writes_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn duplicates_of_an_attempt_that_cannot_renew_are_told_to_come_back() {
    let (engine, store) = World::new().flaky();
    let order = call(resumable(), "3 apples");
    store.next_times(1000, Asked::Renew, Fault::Unavailable);
    let attempt = begin(&engine, &order).await;
    sleep(secs(60)).await;
    assert_eq!(decision(&engine, &order).await, Decision::Busy { retry_after: secs(1) });
    assert!(metric(&engine, "store_errors_total") > 10);
    recorded(attempt.settle(placed("order 5001")).await);
}

#[tokio::test(start_paused = true)]
async fn duplicates_learn_from_the_heartbeat_what_another_process_did() {
    let world = World::new();
    let engine = world.engine();
    let order = call(Contract { lease: secs(3), ..contract() }, "3 apples");
    let attempt = begin(&engine, &order).await;
    let waiting = duplicate(&engine, &order).await;
    let release = crate::acts::release(true);
    world.engine().release(attempt.id(), release).await.unwrap();
    assert_eq!(waiting.await.unwrap().decision, Decision::Unknown);
    assert_eq!(metric(&engine, "fenced_writes_total"), 1);
    let Settled::Recorded(record) = attempt.settle(placed("order 5001")).await else {
        panic!("nobody else has begun or settled it")
    };
    assert_eq!(record.state, State::Succeeded);
}
