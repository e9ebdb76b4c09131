//! Places to wait are bounded for each key and in all; who hangs up gives his place back and changes nothing.

use onefold_core::Decision;
use onefold_engine::{Known, Limits};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::world::*;

fn limits(waiters_per_key: usize, waiters: usize) -> Limits {
    Limits { waiters_per_key, waiters, ..Limits::default() }
}

async fn was_told_busy(task: JoinHandle<Known>) {
    assert!(task.is_finished(), "without a place one is told at once");
    assert!(matches!(task.await.unwrap().decision, Decision::Busy { .. }));
}

#[tokio::test(start_paused = true)]
async fn waiters_of_one_key_are_bounded_and_the_rest_are_told_at_once() {
    let engine = World::new().limited(limits(2, 100));
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let waiting = [duplicate(&engine, &order).await, duplicate(&engine, &order).await];
    was_told_busy(duplicate(&engine, &order).await).await;
    recorded(attempt.settle(placed("order 5001")).await);
    for task in waiting {
        assert_eq!(task.await.unwrap().decision, Decision::Replay);
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_of_all_keys_are_bounded_and_the_rest_are_told_at_once() {
    let engine = World::new().limited(limits(100, 2));
    let [one, two] = ["k-1", "k-2"].map(|key| keyed(contract(), key, "3 apples"));
    let _attempts = [begin(&engine, &one).await, begin(&engine, &two).await];
    let waiting = [duplicate(&engine, &one).await, duplicate(&engine, &two).await];
    was_told_busy(duplicate(&engine, &one).await).await;
    was_told_busy(duplicate(&engine, &two).await).await;
    assert!(waiting.iter().all(|task| !task.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn those_who_look_at_another_process_are_bounded_too() {
    let world = World::new();
    let order = call(contract(), "3 apples");
    let _attempt = begin(&world.engine(), &order).await;
    let engine = world.limited(limits(2, 100));
    let waiting = [duplicate(&engine, &order).await, duplicate(&engine, &order).await];
    was_told_busy(duplicate(&engine, &order).await).await;
    assert!(waiting.iter().all(|task| !task.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn caller_that_hangs_up_leaves_and_frees_its_place() {
    let engine = World::new().limited(limits(1, 100));
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let (hang_up, gone) = oneshot::channel::<()>();
    let leaving = duplicate_until(&engine, &order, async { drop(gone.await) }).await;
    was_told_busy(duplicate(&engine, &order).await).await;
    drop(hang_up);
    assert!(matches!(leaving.await.unwrap().decision, Decision::Busy { .. }));

    let staying = duplicate(&engine, &order).await;
    assert!(!staying.is_finished(), "the place is free again");
    recorded(attempt.settle(placed("order 5001")).await);
    assert_eq!(staying.await.unwrap().decision, Decision::Replay);
}

#[tokio::test(start_paused = true)]
async fn waiter_that_is_cancelled_frees_its_place() {
    let engine = World::new().limited(limits(1, 1));
    let order = call(contract(), "3 apples");
    let _attempt = begin(&engine, &order).await;
    let cancelled = duplicate(&engine, &order).await;
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    assert!(!duplicate(&engine, &order).await.is_finished());
}

#[tokio::test(start_paused = true)]
async fn when_the_one_who_asks_the_store_hangs_up_the_others_go_on() {
    let world = World::new();
    let order = call(contract(), "3 apples");
    let attempt = begin(&world.engine(), &order).await;
    let engine = world.engine();
    let (hang_up, gone) = oneshot::channel::<()>();
    let asking = duplicate_until(&engine, &order, async { drop(gone.await) }).await;
    let following = duplicate(&engine, &order).await;
    drop(hang_up);
    assert!(matches!(asking.await.unwrap().decision, Decision::Busy { .. }));
    recorded(attempt.settle(placed("order 5001")).await);
    assert_eq!(following.await.unwrap().decision, Decision::Replay);
}

#[tokio::test(start_paused = true)]
async fn places_stay_bounded_when_the_one_who_asks_the_store_changes() {
    let world = World::new();
    let order = call(contract(), "3 apples");
    let _attempt = begin(&world.engine(), &order).await;
    let engine = world.limited(limits(2, 100));
    let (hang_up, gone) = oneshot::channel::<()>();
    let asking = duplicate_until(&engine, &order, async { drop(gone.await) }).await;
    let follower = duplicate(&engine, &order).await;
    drop(hang_up);
    asking.await.unwrap();
    sleep(secs(1)).await;
    let second = duplicate(&engine, &order).await;
    assert!(!follower.is_finished() && !second.is_finished());
    was_told_busy(duplicate(&engine, &order).await).await;
}
