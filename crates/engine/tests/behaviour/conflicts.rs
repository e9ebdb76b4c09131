//! Another request under a used key is a conflict at once, in every state in which something runs or may have
//! happened, from whatever memory it is answered.

use onefold_core::{Decision, State};
use onefold_engine::Verdict;
use tokio::time::{Instant, sleep};

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn other_request_is_a_conflict_at_once_while_the_attempt_runs() {
    let world = World::new();
    let engine = world.engine();
    let _attempt = begin(&engine, &call(contract(), "3 apples")).await;
    let asked = Instant::now();
    for process in [engine.clone(), world.engine()] {
        let other = decision(&process, &call(contract(), "4 apples")).await;
        assert_eq!(other, Decision::Conflict { original: State::Processing });
    }
    assert_eq!(asked.elapsed(), secs(0), "nobody waits to be told of a conflict");
}

#[tokio::test(start_paused = true)]
async fn other_request_is_a_conflict_from_the_memory_of_finished_records() {
    let (engine, store) = World::new().flaky();
    let attempt = begin(&engine, &call(contract(), "3 apples")).await;
    recorded(attempt.settle(placed("order 5001")).await);
    let asked = store.seen(Asked::Read);
    let other = decision(&engine, &call(contract(), "4 apples")).await;
    assert_eq!(other, Decision::Conflict { original: State::Succeeded });
    assert_eq!(store.seen(Asked::Read), asked, "it was answered from memory");
    sleep(secs(6)).await;
    let other = decision(&engine, &call(contract(), "4 apples")).await;
    assert_eq!(other, Decision::Conflict { original: State::Succeeded }, "and from the store");
}

#[tokio::test(start_paused = true)]
async fn other_request_is_a_conflict_while_the_outcome_is_unknown() {
    let engine = World::new().engine();
    let attempt = begin(&engine, &call(contract(), "3 apples")).await;
    recorded(attempt.settle(Verdict::unknown("the upstream hung up")).await);
    let other = decision(&engine, &call(contract(), "4 apples")).await;
    assert_eq!(other, Decision::Conflict { original: State::OutcomeUnknown });
}

#[tokio::test(start_paused = true)]
async fn other_request_is_a_conflict_after_the_lease_of_a_resumable_attempt() {
    let world = World::new();
    let (silent, store) = world.flaky();
    store.next_times(100, Asked::Renew, Fault::Unavailable);
    let _attempt = begin(&silent, &call(resumable(), "3 apples")).await;
    sleep(secs(4)).await;
    let other = decision(&world.engine(), &call(resumable(), "4 apples")).await;
    assert_eq!(other, Decision::Conflict { original: State::Processing });
}

#[tokio::test(start_paused = true)]
async fn equal_key_of_another_operation_or_scope_is_another_operation() {
    let engine = World::new().engine();
    let one = call(contract(), "3 apples");
    let mut operation = one.clone();
    operation.identity.operation = "CancelOrder".into();
    let mut scope = one.clone();
    scope.identity.scope = onefold_core::Scope::new([("tenant", "other")]);
    for call in [one, operation, scope] {
        recorded(begin(&engine, &call).await.settle(placed("done")).await);
    }
}

#[tokio::test(start_paused = true)]
async fn counters_of_the_record_add_up_once_they_are_written() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let waiting = [duplicate(&engine, &order).await, duplicate(&engine, &order).await];
    assert!(matches!(decision(&engine, &call(busy(), "3 apples")).await, Decision::Busy { .. }));
    for _ in 0..2 {
        decision(&engine, &call(contract(), "4 apples")).await;
    }
    recorded(attempt.settle(placed("order 5001")).await);
    for task in waiting {
        task.await.unwrap();
    }
    decision(&engine, &order).await;
    decision(&engine, &call(contract(), "4 apples")).await;
    assert_eq!(record(&engine, &order).await.counters.duplicates, 0, "counters are written in batches");

    engine.flush_counters().await;
    engine.flush_counters().await;
    let counters = record(&engine, &order).await.counters;
    assert_eq!((counters.duplicates, counters.replays, counters.conflicts), (4, 3, 3));
    assert_eq!(metric(&engine, "duplicates_total"), 4, "another request is no duplicate");
    assert_eq!(metric(&engine, "replays_total"), 3);
    assert_eq!(metric(&engine, "conflicts_total"), 3);
    assert_eq!(metric(&engine, "busy_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn counters_gathered_while_the_store_was_away_are_written_later() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    recorded(begin(&engine, &order).await.settle(placed("order 5001")).await);
    decision(&engine, &order).await;
    store.next(Asked::Count, Fault::Unavailable);
    engine.flush_counters().await;
    assert_eq!(metric(&engine, "store_errors_total"), 1);
    decision(&engine, &order).await;
    engine.flush_counters().await;
    assert_eq!(record(&engine, &order).await.counters.replays, 2);
}
