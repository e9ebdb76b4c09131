//! A process that stops marks what still runs in it, and nothing else.

use onefold_core::{Decision, EventKind, State};
use tokio::time::{Instant, sleep};

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn what_runs_when_the_process_stops_is_marked_unknown() {
    let world = World::new();
    let engine = world.engine();
    let [running, finished] = ["k-1", "k-2"].map(|key| keyed(contract(), key, "3 apples"));
    let _attempt = begin(&engine, &running).await;
    recorded(begin(&engine, &finished).await.settle(placed("order 5001")).await);
    let waiting = duplicate(&engine, &running).await;
    assert_eq!(engine.abandon_running().await, 1);
    let now = record(&engine, &running).await;
    assert_eq!(now.state, State::OutcomeUnknown);
    let [event] = &events(&engine, &running).await[..] else { panic!("one event") };
    assert_eq!((event.kind, event.attempt), (EventKind::Unknown, 1));
    assert_eq!(record(&engine, &finished).await.state, State::Succeeded);
    assert_eq!(decision(&world.engine(), &running).await, Decision::Unknown);
    assert_eq!(waiting.await.unwrap().decision, Decision::Unknown);
}

#[tokio::test(start_paused = true)]
async fn resumable_attempt_of_a_stopped_process_is_followed_at_once() {
    let world = World::new();
    let engine = world.engine();
    let order = call(resumable(), "3 apples");
    let _attempt = begin(&engine, &order).await;
    let stopped = Instant::now();
    assert_eq!(engine.abandon_running().await, 1);
    assert_eq!(begin(&world.engine(), &order).await.number(), 2);
    assert_eq!(stopped.elapsed(), secs(0));
}

#[tokio::test(start_paused = true)]
async fn pause_between_two_attempts_is_not_cut_off() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let pausing = tokio::spawn(begin(&engine, &order).await.again(secs(10)));
    sleep(secs(1)).await;
    assert_eq!(engine.abandon_running().await, 0);
    assert_eq!(record(&engine, &order).await.state, State::Failed);
    pausing.abort();
}

#[tokio::test(start_paused = true)]
async fn attempts_of_other_processes_are_left_alone() {
    let world = World::new();
    let order = call(contract(), "3 apples");
    let attempt = begin(&world.engine(), &order).await;
    let stopping = world.engine();
    let _looking = duplicate(&stopping, &order).await;
    assert_eq!(stopping.abandon_running().await, 0);
    assert_eq!(record(&stopping, &order).await.state, State::Processing);
    recorded(attempt.settle(placed("order 5001")).await);
}

#[tokio::test(start_paused = true)]
async fn result_that_is_still_to_be_stored_is_marked_unknown_with_the_rest() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    store.next_times(1000, Asked::Settle, Fault::Unavailable);
    let _ = attempt.settle(placed("order 5001")).await;
    assert_eq!(engine.abandon_running().await, 1);
    assert_eq!(record(&engine, &order).await.state, State::OutcomeUnknown);
}
