//! What was committed although the store could not say so: nothing runs twice, and an attempt's own word is never
//! taken for somebody else's.

use onefold_core::{Contract, Decision, EventKind, State};
use onefold_engine::{Refusal, ResolvedAs, Settled};
use tokio::time::sleep;

use crate::acts::resolution;
use crate::world::*;

#[tokio::test(start_paused = true)]
async fn claim_whose_answer_was_lost_is_performed_by_nobody_and_becomes_unknown() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(Contract { lease: secs(3), ..busy() }, "3 apples");
    store.next(Asked::Claim, Fault::AnswerLost);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    for process in [&engine, &world.engine()] {
        assert!(matches!(decision(process, &order).await, Decision::Busy { .. }));
    }
    sleep(secs(4)).await;
    assert_eq!(decision(&engine, &order).await, Decision::Unknown);
    assert_eq!(events(&engine, &order).await[0].kind, EventKind::Unknown);
    assert_eq!(metric(&engine, "attempts_begun_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn resumable_claim_whose_answer_was_lost_is_followed_by_the_next_attempt() {
    let (engine, store) = World::new().flaky();
    let order = call(resumable(), "3 apples");
    store.next(Asked::Claim, Fault::AnswerLost);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    sleep(secs(4)).await;
    assert_eq!(begin(&engine, &order).await.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn next_attempt_whose_answer_was_lost_is_performed_by_nobody() {
    let (engine, store) = World::new().flaky();
    let order = call(Contract { lease: secs(3), ..busy() }, "3 apples");
    recorded(begin(&engine, &order).await.settle(not_done("try again")).await);
    store.next(Asked::Begin, Fault::AnswerLost);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    assert!(matches!(decision(&engine, &order).await, Decision::Busy { .. }));
    sleep(secs(4)).await;
    assert_eq!(decision(&engine, &order).await, Decision::Unknown);
    assert_eq!(record(&engine, &order).await.attempt, 2);
}

#[tokio::test(start_paused = true)]
async fn result_whose_answer_was_lost_is_no_late_success() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let waiting = duplicate(&engine, &order).await;
    store.next(Asked::Settle, Fault::AnswerLost);
    assert!(matches!(attempt.settle(placed("order 5001")).await, Settled::NotStored(_)));
    let known = waiting.await.unwrap();
    assert_eq!(known.decision, Decision::Replay);
    assert_eq!(known.record.unwrap().kept, answered(201, "order 5001"));
    sleep(secs(60)).await;
    assert_eq!(events(&engine, &order).await, [], "its own word is no evidence of a double effect");
    assert_eq!(metric(&engine, "late_successes_total"), 0);
    assert_eq!(metric(&engine, "fenced_writes_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn result_that_a_person_was_faster_than_is_a_late_success_when_offered_again() {
    for resolved_as in [ResolvedAs::Succeeded, ResolvedAs::Failed] {
        let world = World::new();
        let (engine, store) = world.flaky();
        let order = call(contract(), "3 apples");
        let attempt = begin(&engine, &order).await;
        let id = attempt.id();
        store.next_times(6, Asked::Settle, Fault::Unavailable);
        assert!(matches!(attempt.settle(placed("order 5001")).await, Settled::NotStored(_)));
        let person = world.engine();
        person.release(id, crate::acts::release(true)).await.unwrap();
        let resolved = person.resolve(id, resolution(resolved_as)).await.unwrap().record;
        sleep(secs(60)).await;
        assert_eq!(record(&engine, &order).await, resolved);
        let last = events(&engine, &order).await.pop().unwrap();
        assert_eq!((last.kind, last.attempt), (EventKind::LateSuccess, 1));
        assert_eq!(metric(&engine, "late_successes_total"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn free_key_whose_answer_was_lost_is_free() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    store.next(Asked::Settle, Fault::AnswerLost);
    assert!(matches!(attempt.settle(not_done("try again")).await, Settled::NotStored(_)));
    let second = begin(&engine, &order).await;
    assert_eq!(second.number(), 2);
    sleep(secs(60)).await;
    let now = record(&engine, &order).await;
    assert_eq!((now.state, now.attempt), (State::Processing, 2), "the second offer changed nothing");
    recorded(second.settle(placed("order 5001")).await);
}
