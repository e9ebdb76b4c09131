//! Under `on_stale = resume` the next attempt begins once the lease is over, never before; the attempt that was
//! superseded changes nothing, and its success is kept as evidence.

use std::sync::Arc;

use onefold_core::{Contract, Decision, EventKind, Outcome, State};
use onefold_engine::{Attempt, Engine, Settled, Verdict};
use tokio::time::sleep;

use crate::world::*;

/// An attempt whose process cannot renew its lease.
async fn silent_attempt(world: &World) -> (Engine, Arc<Flaky>, Attempt) {
    let (engine, store) = world.flaky();
    store.next_times(1000, Asked::Renew, Fault::Unavailable);
    let attempt = begin(&engine, &call(resumable(), "3 apples")).await;
    (engine, store, attempt)
}

#[tokio::test(start_paused = true)]
async fn next_attempt_begins_only_after_the_lease_and_has_the_next_number() {
    let world = World::new();
    let (_silent, _store, _first) = silent_attempt(&world).await;
    let other = world.engine();
    sleep(millis(2900)).await;
    let early = decision(&other, &call(resumable(), "3 apples")).await;
    assert!(matches!(early, Decision::Busy { .. }), "the lease still runs: {early:?}");
    sleep(millis(200)).await;
    let second = begin(&other, &call(resumable(), "3 apples")).await;
    assert_eq!(second.number(), 2);
    assert_eq!(metric(&other, "stale_takeovers_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn both_attempts_ask_downstream_under_the_same_key() {
    let world = World::new();
    let (_silent, _store, first) = silent_attempt(&world).await;
    sleep(secs(4)).await;
    let second = begin(&world.engine(), &call(resumable(), "3 apples")).await;
    let secret = onefold_core::IdentityKey::none();
    assert_eq!(first.downstream_key("capture", &secret), second.downstream_key("capture", &secret));
    assert_ne!(first.downstream_key("capture", &secret), first.downstream_key("ship", &secret));
    assert_eq!(first.created_at(), second.created_at());
}

#[tokio::test(start_paused = true)]
async fn late_success_of_superseded_attempt_is_kept_as_evidence_and_changes_nothing() {
    let world = World::new();
    let (silent, _store, first) = silent_attempt(&world).await;
    let (order, other) = (call(resumable(), "3 apples"), world.engine());
    sleep(secs(4)).await;
    let second = begin(&other, &order).await;

    let Settled::Superseded(read) = first.settle(placed("order 5001")).await else {
        panic!("a superseded attempt settles nothing")
    };
    assert_eq!(read.record.unwrap().attempt, 2);
    let now = record(&other, &order).await;
    assert_eq!((now.state, now.attempt), (State::Processing, 2));
    let [event] = &events(&other, &order).await[..] else { panic!("one event") };
    assert_eq!((event.kind, event.attempt), (EventKind::LateSuccess, 1));
    assert_eq!(event.evidence, "status 201");
    assert_eq!(metric(&silent, "late_successes_total"), 1);
    assert_eq!(metric(&silent, "fenced_writes_total"), 1);

    recorded(second.settle(placed("order 5002")).await);
    for process in [silent, other] {
        let known = known(&process, &order).await;
        assert_eq!(known.record.unwrap().kept, answered(201, "order 5002"));
    }
}

#[tokio::test(start_paused = true)]
async fn late_success_after_the_end_of_the_next_attempt_is_evidence_too() {
    let world = World::new();
    let (silent, _store, first) = silent_attempt(&world).await;
    let (order, other) = (call(resumable(), "3 apples"), world.engine());
    sleep(secs(4)).await;
    recorded(begin(&other, &order).await.settle(placed("order 5002")).await);
    assert!(matches!(first.settle(placed("order 5001")).await, Settled::Superseded(_)));
    assert_eq!(record(&other, &order).await.kept, answered(201, "order 5002"));
    assert_eq!(events(&other, &order).await.len(), 1);
    assert_eq!(metric(&silent, "late_successes_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn late_word_that_is_no_success_of_a_superseded_attempt_frees_nothing() {
    let rejected = Verdict::known(Outcome::Rejected, answered(422, "no"), None);
    for late in [not_done("try again"), rejected, Verdict::unknown("hung up")] {
        let world = World::new();
        let (silent, _store, first) = silent_attempt(&world).await;
        let (order, other) = (call(resumable(), "3 apples"), world.engine());
        sleep(secs(4)).await;
        let second = begin(&other, &order).await;
        assert!(matches!(first.settle(late).await, Settled::Superseded(_)));
        assert!(record(&other, &order).await.lease.is_alive());
        assert_eq!(events(&other, &order).await, []);
        assert_eq!(metric(&silent, "late_successes_total"), 0);
        recorded(second.settle(placed("order 5002")).await);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_superseded_attempt_does_not_end_the_lease_of_the_next() {
    let world = World::new();
    let (_silent, _store, first) = silent_attempt(&world).await;
    let (order, other) = (call(resumable(), "3 apples"), world.engine());
    sleep(secs(4)).await;
    let _second = begin(&other, &order).await;
    drop(first);
    settle_down().await;
    assert!(record(&other, &order).await.lease.is_alive());
}

#[tokio::test(start_paused = true)]
async fn take_over_that_was_overtaken_by_a_renewal_begins_nothing() {
    let world = World::new();
    let (holder, store) = world.flaky();
    let order = call(resumable(), "3 apples");
    store.next_times(3, Asked::Renew, Fault::Unavailable);
    let first = begin(&holder, &order).await;
    sleep(millis(3500)).await;
    // The other one sees that the lease is over and is slow to begin; the renewal at 4 s is faster.
    let (other, slow) = world.flaky();
    slow.next(Asked::Begin, Fault::Late(secs(1)));
    assert!(matches!(decision(&other, &order).await, Decision::Busy { .. }));
    assert_eq!(slow.seen(Asked::Begin), 1, "it did try");
    assert_eq!(metric(&other, "stale_takeovers_total"), 0);
    assert_eq!(recorded(first.settle(placed("order 5001")).await).attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn after_the_allowed_attempts_were_lost_a_person_is_needed() {
    let world = World::new();
    let order = call(Contract { max_attempts: 2, ..resumable() }, "3 apples");
    let engine = world.engine();
    for number in [1, 2] {
        let attempt = begin(&engine, &order).await;
        assert_eq!(attempt.number(), number);
        recorded(attempt.settle(Verdict::unknown("hung up")).await);
    }
    assert_eq!(decision(&engine, &order).await, Decision::Unknown);
    assert_eq!(decision(&world.engine(), &order).await, Decision::Unknown);
    assert_eq!(record(&engine, &order).await.state, State::OutcomeUnknown, "it is listed for a person");
}

#[tokio::test(start_paused = true)]
async fn last_attempt_whose_process_is_gone_is_listed_for_a_person() {
    let world = World::new();
    let (silent, store) = world.flaky();
    let order = call(Contract { max_attempts: 1, ..resumable() }, "3 apples");
    store.next_times(9, Asked::Renew, Fault::Unavailable);
    let _gone = begin(&silent, &order).await;
    sleep(secs(4)).await;
    let engine = world.engine();
    assert_eq!(decision(&engine, &order).await, Decision::Unknown);
    assert_eq!(record(&engine, &order).await.state, State::OutcomeUnknown);
}

#[tokio::test(start_paused = true)]
async fn duplicate_of_a_superseded_attempt_waits_for_the_one_that_took_over() {
    let world = World::new();
    let (holder, store) = world.flaky();
    let order = call(resumable(), "3 apples");
    store.next_times(3, Asked::Renew, Fault::Unavailable);
    let _first = begin(&holder, &order).await;
    let patient = Contract { while_running: contract().while_running, ..resumable() };
    let waiting = duplicate(&holder, &call(patient, "3 apples")).await;
    sleep(millis(3500)).await;
    let second = begin(&world.engine(), &order).await;
    // At 4 s the heartbeat of the first attempt learns that it was superseded.
    sleep(secs(1)).await;
    assert!(!waiting.is_finished());
    recorded(second.settle(placed("order 5002")).await);
    let known = waiting.await.unwrap();
    assert_eq!(known.decision, Decision::Replay);
    assert_eq!(known.record.unwrap().attempt, 2);
}
