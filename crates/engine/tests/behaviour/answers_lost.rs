//! What was committed although the store could not say so: nothing runs twice, and an attempt's own word is never
//! taken for somebody else's.

use onefold_core::{Contract, Decision, EventKind, State};
use onefold_engine::{Refusal, ResolvedAs, Settled};
use onefold_store::{Advanced, Claimed, OperationStore};
use tokio::time::{sleep, timeout};

use crate::acts::resolution;
use crate::world::*;

#[tokio::test(start_paused = true)]
async fn claim_whose_answer_was_lost_is_withdrawn_by_its_process_under_the_next_request() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(busy(), "3 apples");
    store.next(Asked::Claim, Fault::AnswerLost);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    assert!(matches!(decision(&world.engine(), &order).await, Decision::Busy { .. }), "others cannot know");
    assert_eq!(begin(&engine, &call(busy(), "4 apples")).await.number(), 2, "the key was free");
    assert_eq!(metric(&engine, "attempts_begun_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_begins_long_after_its_process_gave_it_up_is_withdrawn_by_the_keeper() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let _keeper = engine.keep(secs(3600));
    for key in ["claimed", "begun"] {
        let order = keyed(busy(), key, "3 apples");
        if key == "begun" {
            recorded(begin(&engine, &order).await.settle(not_done("try again")).await);
        }
        store.next(Asked::Claim, Fault::Unavailable);
        assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
        sleep(secs(100)).await;
        match key {
            "begun" => {
                store.next(Asked::Begin, Fault::Unavailable);
                assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
                let late = store.beginning_asked();
                sleep(secs(100)).await;
                assert!(matches!(world.store.advance(late).await, Ok(Advanced::Done { .. })));
            }
            _ => {
                let late = store.claim_asked();
                assert!(matches!(world.store.claim(late).await, Ok(Claimed::Won { .. })));
            }
        }
        let other = world.engine();
        assert!(matches!(decision(&other, &order).await, Decision::Busy { .. }), "{key}");
        sleep(secs(3)).await;
        let next = if key == "begun" { 3 } else { 2 };
        assert_eq!(begin(&other, &order).await.number(), next, "{key}: free before its lease has ended");
        assert_eq!(events(&engine, &order).await, [], "nothing was lost");
    }
}

#[tokio::test(start_paused = true)]
async fn outcome_that_became_unknown_because_nobody_performed_it_is_withdrawn() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(Contract { lease: secs(3), ..busy() }, "3 apples");
    store.next(Asked::Claim, Fault::AnswerLost);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    sleep(secs(4)).await;
    assert_eq!(decision(&world.engine(), &order).await, Decision::Unknown);
    assert_eq!(begin(&engine, &order).await.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_is_performed_is_not_withdrawn_though_its_number_was_given_up_before() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let _keeper = engine.keep(secs(3600));
    let order = call(busy(), "3 apples");
    store.next(Asked::Claim, Fault::Unavailable);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    let attempt = begin(&engine, &order).await;
    assert_eq!(attempt.number(), 1);
    let outcome_is_lost = attempt;
    sleep(secs(5)).await;
    assert_eq!(record(&engine, &order).await.state, State::Processing);
    drop(outcome_is_lost);
    sleep(secs(5)).await;
    assert_eq!(record(&engine, &order).await.state, State::OutcomeUnknown);
    assert_eq!(decision(&engine, &order).await, Decision::Unknown);
}

#[tokio::test(start_paused = true)]
async fn of_several_claims_that_were_given_up_the_one_that_begins_is_withdrawn() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(busy(), "3 apples");
    let mut asked = Vec::new();
    for _ in 0..3 {
        store.next(Asked::Claim, Fault::Unavailable);
        assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
        asked.push(store.claim_asked());
    }
    assert!(matches!(world.store.claim(asked.remove(1)).await, Ok(Claimed::Won { .. })));
    assert_eq!(begin(&engine, &order).await.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn lost_attempt_is_not_withdrawn_though_a_claim_that_it_stood_in_the_way_of_was_not_heard_of() {
    for fault in [Fault::Unavailable, Fault::AnswerLost, Fault::Refused] {
        for contract in [contract(), resumable()] {
            let world = World::new();
            let (engine, store) = world.flaky();
            let _keeper = engine.keep(secs(3600));
            let order = call(contract, "3 apples");
            drop(begin(&engine, &order).await);
            settle_down().await;
            let lost = record(&engine, &order).await;
            store.next(Asked::Claim, fault);
            assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
            sleep(secs(5)).await;
            assert_eq!(record(&engine, &order).await.state, lost.state, "it may have done it: {fault:?}");
            assert_eq!(record(&world.engine(), &order).await.attempt, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn attempt_whose_answer_is_still_on_its_way_is_not_withdrawn_though_its_number_was_given_up_before() {
    let (engine, store) = World::new().flaky();
    let _keeper = engine.keep(secs(3600));
    let order = call(busy(), "3 apples");
    store.next(Asked::Claim, Fault::Unavailable);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    store.next(Asked::Claim, Fault::ToldLate(secs(5)));
    let attempt = begin(&engine, &order).await;
    assert_eq!(record(&engine, &order).await.state, State::Processing);
    recorded(attempt.settle(placed("order 5001")).await);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_another_process_performs_is_not_withdrawn() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let _keeper = engine.keep(secs(3600));
    let order = call(busy(), "3 apples");
    store.next(Asked::Claim, Fault::Unavailable);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    let attempt = begin(&world.engine(), &order).await;
    sleep(secs(5)).await;
    assert!(matches!(decision(&engine, &order).await, Decision::Busy { .. }));
    recorded(attempt.settle(placed("order 5001")).await);
}

#[tokio::test(start_paused = true)]
async fn claim_whose_answer_was_lost_is_performed_by_nobody_and_becomes_unknown_when_its_process_ends() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(Contract { lease: secs(3), ..busy() }, "3 apples");
    store.next(Asked::Claim, Fault::AnswerLost);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    drop(engine);
    let other = world.engine();
    assert!(matches!(decision(&other, &order).await, Decision::Busy { .. }));
    sleep(secs(4)).await;
    assert_eq!(decision(&other, &order).await, Decision::Unknown);
    assert_eq!(events(&other, &order).await[0].kind, EventKind::Unknown);
}

#[tokio::test(start_paused = true)]
async fn claim_that_is_cancelled_in_the_middle_is_withdrawn() {
    let (engine, store) = World::new().flaky();
    let order = call(busy(), "3 apples");
    store.next(Asked::Claim, Fault::ToldLate(secs(5)));
    assert!(timeout(secs(1), enter(&engine, &order)).await.is_err());
    assert_eq!(begin(&engine, &order).await.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn resumable_claim_whose_answer_was_lost_is_followed_by_the_next_attempt() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(resumable(), "3 apples");
    store.next(Asked::Claim, Fault::AnswerLost);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    sleep(secs(4)).await;
    assert_eq!(begin(&world.engine(), &order).await.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn attempt_after_a_lost_one_frees_nothing_when_its_own_answer_was_lost() {
    let (engine, store) = World::new().flaky();
    let _keeper = engine.keep(secs(3600));
    let order = call(resumable(), "3 apples");
    drop(begin(&engine, &order).await);
    settle_down().await;
    store.next(Asked::Begin, Fault::AnswerLost);
    assert!(matches!(enter(&engine, &order).await, Err(Refusal::Store(_))));
    sleep(secs(10)).await;
    assert_eq!(record(&engine, &order).await.state, State::Processing, "the first may have done it");
    assert_eq!(begin(&engine, &order).await.number(), 3);
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
