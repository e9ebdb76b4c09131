//! Automatic attempts: each frees the operation before its pause and begins it anew after it, if nobody was faster
//! and the contract allows one more.

use onefold_core::{Contract, Decision, State};
use onefold_engine::Settled;
use tokio::time::{Instant, sleep};

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn automatic_attempt_follows_after_its_pause_with_the_next_number() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let first = begin(&engine, &order).await;
    let waiting = duplicate(&engine, &order).await;
    let asked = Instant::now();
    let Ok(second) = first.again(secs(2)).await else { panic!("nobody else was there") };
    assert_eq!(asked.elapsed().as_secs(), 2);
    assert_eq!(second.number(), 2);
    let now = record(&engine, &order).await;
    assert_eq!((now.state, now.attempt), (State::Processing, 2));
    assert!(!waiting.is_finished(), "who waits for the operation waits on");
    recorded(second.settle(placed("order 5001")).await);
    assert_eq!(waiting.await.unwrap().decision, Decision::Replay);
    assert_eq!(metric(&engine, "attempts_begun_total"), 2);
}

#[tokio::test(start_paused = true)]
async fn automatic_attempt_is_kept_alive_by_its_own_heartbeat() {
    let world = World::new();
    let engine = world.engine();
    let order = call(resumable(), "3 apples");
    let Ok(second) = begin(&engine, &order).await.again(secs(1)).await else { panic!("nobody was faster") };
    sleep(secs(20)).await;
    assert!(matches!(decision(&world.engine(), &order).await, Decision::Busy { .. }));
    recorded(second.settle(placed("order 5001")).await);
}

#[tokio::test(start_paused = true)]
async fn pausing_attempt_gives_way_to_another_process() {
    let world = World::new();
    let engine = world.engine();
    let order = call(contract(), "3 apples");
    let first = begin(&engine, &order).await;
    let pausing = tokio::spawn(first.again(secs(10)));
    sleep(secs(1)).await;
    let other = begin(&world.engine(), &order).await;
    assert_eq!(other.number(), 2);
    let Err(Settled::Superseded(read)) = pausing.await.unwrap() else {
        panic!("the pausing attempt was overtaken")
    };
    assert_eq!(read.record.unwrap().attempt, 2);
    recorded(other.settle(placed("order 5001")).await);
    assert_eq!(decision(&engine, &order).await, Decision::Replay);
}

#[tokio::test(start_paused = true)]
async fn no_automatic_attempt_begins_beyond_the_maximum() {
    let world = World::new();
    let engine = world.engine();
    let order = call(Contract { max_attempts: 2, ..contract() }, "3 apples");
    let Ok(second) = begin(&engine, &order).await.again(secs(1)).await else { panic!("one more is allowed") };
    let Err(Settled::Recorded(record)) = second.again(secs(1)).await else {
        panic!("two attempts are allowed in all")
    };
    assert_eq!((record.state, record.attempt), (State::Failed, 2));
    assert_eq!(decision(&engine, &order).await, Decision::Exhausted);
    assert_eq!(metric(&engine, "attempts_begun_total"), 2);
}

#[tokio::test(start_paused = true)]
async fn when_the_store_does_not_take_the_free_key_no_attempt_follows() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    let first = begin(&engine, &order).await;
    store.next(Asked::Settle, Fault::Unavailable);
    assert!(matches!(first.again(secs(1)).await, Err(Settled::NotStored(_))));
    assert_eq!(store.seen(Asked::Begin), 0);
    sleep(secs(1)).await;
    assert_eq!(record(&engine, &order).await.state, State::Failed, "it was offered again");
    assert_eq!(begin(&engine, &order).await.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn when_the_store_is_away_at_the_next_attempt_none_begins() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    let first = begin(&engine, &order).await;
    store.next(Asked::Begin, Fault::Unavailable);
    assert!(matches!(first.again(secs(1)).await, Err(Settled::NotStored(_))));
    assert_eq!(record(&engine, &order).await.state, State::Failed);
    assert_eq!(begin(&engine, &order).await.number(), 2);
}
