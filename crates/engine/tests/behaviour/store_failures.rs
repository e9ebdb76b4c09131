//! A store that does not answer: nothing begins (fail closed), and a result that it does not take is never turned
//! into a failure; it is offered again until it is stored, and nothing runs again meanwhile.

use onefold_core::{Contract, Decision, Kept, NotKept, State};
use onefold_engine::{Entered, Refusal, Settled};
use onefold_store::StoreError;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn nothing_begins_while_the_store_cannot_be_asked() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    store.next(Asked::Claim, Fault::Unavailable);
    let refused = enter(&engine, &order).await;
    assert!(matches!(refused, Err(Refusal::Store(StoreError::Unavailable(_)))));
    assert_eq!(metric(&engine, "attempts_begun_total"), 0);
    assert_eq!(metric(&engine, "store_errors_total"), 1);
    assert!(shown(&engine, &order).await.is_none(), "no record was made");
    assert_eq!(begin(&engine, &order).await.number(), 1, "the store is back");
}

#[tokio::test(start_paused = true)]
async fn take_over_does_not_begin_while_the_store_cannot_be_asked() {
    let (engine, store) = World::new().flaky();
    let order = call(resumable(), "3 apples");
    drop(begin(&engine, &order).await);
    settle_down().await;
    store.next(Asked::Begin, Fault::Unavailable);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    assert_eq!(begin(&engine, &order).await.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_for_one_question_are_refused_with_it() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    store.next_times(50, Asked::Claim, Fault::TimedOut(secs(2)));
    let asked = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..50 {
        let (engine, order) = (engine.clone(), order.clone());
        tasks.spawn(async move { matches!(enter(&engine, &order).await, Err(Refusal::Store(_))) });
    }
    assert!(tasks.join_all().await.into_iter().all(|refused| refused));
    assert!(asked.elapsed() < secs(3), "nobody waits for the questions of the others, one after another");
}

#[tokio::test(start_paused = true)]
async fn result_that_is_not_stored_is_offered_again_and_nothing_runs_meanwhile() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let waiting = duplicate(&engine, &order).await;
    store.next_times(6, Asked::Settle, Fault::Unavailable);
    assert!(matches!(attempt.settle(placed("order 5001")).await, Settled::NotStored(_)));
    for process in [&engine, &world.engine()] {
        let meanwhile = decision(process, &call(busy(), "3 apples")).await;
        assert!(matches!(meanwhile, Decision::Busy { .. }));
    }
    let known = waiting.await.unwrap();
    assert_eq!(known.decision, Decision::Replay);
    assert_eq!(known.record.unwrap().kept, answered(201, "order 5001"));
    assert_eq!(record(&engine, &order).await.state, State::Succeeded);
    assert_eq!(store.seen(Asked::Settle), 7);
    assert_eq!(metric(&engine, "result_not_stored_total"), 1);
    assert_eq!(metric(&engine, "attempts_begun_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn lease_of_a_known_result_lives_until_it_is_stored() {
    for one in [busy(), resumable()] {
        let world = World::new();
        let (engine, store) = world.flaky();
        let order = call(Contract { lease: secs(3), ..one }, "3 apples");
        let attempt = begin(&engine, &order).await;
        store.next_times(12, Asked::Settle, Fault::Unavailable);
        assert!(matches!(attempt.settle(placed("order 5001")).await, Settled::NotStored(_)));
        let other = world.engine();
        for _ in 0..5 {
            sleep(secs(1)).await;
            let meanwhile = decision(&other, &order).await;
            assert!(matches!(meanwhile, Decision::Busy { .. }), "it happened: {meanwhile:?}");
        }
        sleep(secs(30)).await;
        assert_eq!(decision(&other, &order).await, Decision::Replay);
    }
}

#[tokio::test(start_paused = true)]
async fn result_is_stored_after_an_outage_that_made_the_outcome_unknown() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(Contract { lease: secs(3), ..contract() }, "3 apples");
    let attempt = begin(&engine, &order).await;
    store.next_times(12, Asked::Settle, Fault::Unavailable);
    store.next_times(1000, Asked::Renew, Fault::Unavailable);
    assert!(matches!(attempt.settle(placed("order 5001")).await, Settled::NotStored(_)));
    sleep(secs(4)).await;
    let other = world.engine();
    assert_eq!(decision(&other, &order).await, Decision::Unknown);
    sleep(secs(60)).await;
    assert_eq!(decision(&other, &order).await, Decision::Replay);
    assert_eq!(metric(&engine, "late_successes_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn result_that_can_never_be_stored_is_stored_as_not_kept() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let waiting = duplicate(&engine, &order).await;
    store.next(Asked::Settle, Fault::Refused);
    let settled = attempt.settle(placed("far too long")).await;
    assert!(matches!(settled, Settled::NotStored(StoreError::Refused(_))));
    let known = waiting.await.unwrap();
    assert_eq!(known.decision, Decision::Replay, "it is no failure");
    let kept = Kept::NotKept { status: Some(201), why: NotKept::NotStored };
    assert_eq!(known.record.unwrap().kept, kept);
    assert_eq!(record(&engine, &order).await.kept, kept);
    assert_eq!(metric(&engine, "result_not_stored_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn lost_outcome_that_is_not_stored_is_offered_again() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    store.next_times(3, Asked::Lose, Fault::Unavailable);
    drop(attempt);
    sleep(secs(2)).await;
    assert_eq!(record(&engine, &order).await.state, State::OutcomeUnknown);
    assert_eq!(events(&engine, &order).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn outcome_that_cannot_be_marked_as_lost_becomes_unknown_with_the_lease() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(Contract { lease: secs(3), ..contract() }, "3 apples");
    let mut attempt = begin(&engine, &order).await;
    store.next(Asked::Lose, Fault::Unavailable);
    attempt.lose("no answer in time").await;
    assert!(matches!(decision(&engine, &call(busy(), "3 apples")).await, Decision::Busy { .. }));
    sleep(secs(4)).await;
    assert_eq!(decision(&engine, &order).await, Decision::Unknown);
    assert!(matches!(enter(&engine, &order).await, Ok(Entered::Known(_))));
}
