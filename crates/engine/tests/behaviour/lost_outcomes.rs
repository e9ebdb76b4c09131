//! An attempt that leaves without a word: its outcome is unknown, everybody who waits is told so, and nothing begins
//! again by itself. Under `resume` its lease lapses instead and the next attempt may begin at once.

use onefold_core::contract::Retention;
use onefold_core::{Contract, Decision, EventKind, State};
use onefold_engine::{ResolvedAs, Settled, Verdict};
use tokio::time::{Instant, sleep};

use crate::acts::resolution;
use crate::world::*;

fn short() -> Contract {
    Contract { lease: secs(3), retention: Retention::For(secs(60)), ..contract() }
}

#[tokio::test(start_paused = true)]
async fn lease_that_ends_without_an_outcome_makes_it_unknown_for_good() {
    let world = World::new();
    let (silent, store) = world.flaky();
    store.next_times(1000, Asked::Renew, Fault::Unavailable);
    let order = call(short(), "3 apples");
    let attempt = begin(&silent, &order).await;
    let other = world.engine();
    sleep(millis(2900)).await;
    assert!(matches!(decision(&other, &call(busy(), "3 apples")).await, Decision::Busy { .. }));
    sleep(millis(200)).await;
    assert_eq!(decision(&other, &order).await, Decision::Unknown);
    let now = record(&other, &order).await;
    assert_eq!((now.state, now.attempt), (State::OutcomeUnknown, 1));
    let [event] = &events(&other, &order).await[..] else { panic!("one event") };
    assert_eq!((event.kind, event.attempt), (EventKind::Unknown, 1));
    assert_eq!(metric(&other, "outcomes_lost_total"), 1);

    sleep(secs(3600)).await;
    assert_eq!(decision(&other, &order).await, Decision::Unknown, "it neither expires nor begins again");
    drop(attempt);
    settle_down().await;
    assert_eq!(events(&other, &order).await.len(), 1, "it is lost once");
}

#[tokio::test(start_paused = true)]
async fn attempt_that_holds_the_number_settles_its_unknown_outcome() {
    for (verdict, state) in [(placed("order 5001"), State::Succeeded), (not_done("no"), State::Failed)] {
        let world = World::new();
        let (silent, store) = world.flaky();
        store.next_times(1000, Asked::Renew, Fault::Unavailable);
        let order = call(short(), "3 apples");
        let attempt = begin(&silent, &order).await;
        sleep(secs(4)).await;
        let other = world.engine();
        assert_eq!(decision(&other, &order).await, Decision::Unknown);
        recorded(attempt.settle(verdict).await);
        assert_eq!(record(&other, &order).await.state, state);
        assert_eq!(metric(&silent, "late_successes_total"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn report_after_a_person_has_settled_the_outcome_is_superseded_and_kept() {
    for resolved_as in [ResolvedAs::Succeeded, ResolvedAs::Failed] {
        let world = World::new();
        let (silent, store) = world.flaky();
        store.next_times(1000, Asked::Renew, Fault::Unavailable);
        let order = call(short(), "3 apples");
        let attempt = begin(&silent, &order).await;
        sleep(secs(4)).await;
        let other = world.engine();
        assert_eq!(decision(&other, &order).await, Decision::Unknown);
        let resolved = other.resolve(attempt.id(), resolution(resolved_as)).await.unwrap().record;
        assert!(matches!(attempt.settle(placed("order 5001")).await, Settled::Superseded(_)));
        assert_eq!(record(&other, &order).await, resolved, "the record is as the person left it");
        let kinds: Vec<_> = events(&other, &order).await.into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::Unknown, EventKind::Resolved, EventKind::LateSuccess]);
        assert_eq!(metric(&silent, "late_successes_total"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn marking_an_outcome_as_unknown_is_overtaken_by_a_renewal() {
    let world = World::new();
    let (holder, store) = world.flaky();
    let order = call(short(), "3 apples");
    store.next_times(3, Asked::Renew, Fault::Unavailable);
    let attempt = begin(&holder, &order).await;
    sleep(millis(3500)).await;
    let (other, slow) = world.flaky();
    slow.next(Asked::Lose, Fault::Late(secs(1)));
    let late = call(Contract { while_running: busy().while_running, ..short() }, "3 apples");
    assert!(matches!(decision(&other, &late).await, Decision::Busy { .. }));
    assert_eq!(slow.seen(Asked::Lose), 1, "it did try");
    assert_eq!(record(&other, &order).await.state, State::Processing);
    recorded(attempt.settle(placed("order 5001")).await);
}

#[tokio::test(start_paused = true)]
async fn dropped_attempt_is_unknown_and_those_who_wait_are_told_at_once() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let waiting = duplicate(&engine, &order).await;
    let dropped = Instant::now();
    drop(attempt);
    assert_eq!(waiting.await.unwrap().decision, Decision::Unknown);
    assert_eq!(dropped.elapsed(), secs(0));
    assert_eq!(
        (store.seen(Asked::Claim), store.seen(Asked::Read)),
        (1, 0),
        "who waits asks the store nothing"
    );
    assert_eq!(decision(&engine, &order).await, Decision::Unknown);
    assert_eq!(events(&engine, &order).await[0].kind, EventKind::Unknown);
    assert_eq!(metric(&engine, "outcomes_lost_total"), 1);
}

#[tokio::test(start_paused = true)]
async fn panicking_task_leaves_an_unknown_outcome() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let waiting = duplicate(&engine, &order).await;
    let panicked = Instant::now();
    let performing = tokio::spawn(async move {
        let number = attempt.number();
        assert_ne!(number, 1, "this test panics in the middle of an attempt");
        attempt.settle(placed("order 5001")).await
    });
    assert!(performing.await.unwrap_err().is_panic());
    assert_eq!(waiting.await.unwrap().decision, Decision::Unknown);
    assert_eq!(panicked.elapsed(), secs(0));
    assert_eq!(record(&engine, &order).await.state, State::OutcomeUnknown);
}

#[tokio::test(start_paused = true)]
async fn dropped_resumable_attempt_lets_the_next_begin_at_once() {
    let world = World::new();
    let engine = world.engine();
    let order = call(resumable(), "3 apples");
    for number in [1, 2, 3] {
        let dropped = Instant::now();
        let attempt = begin(&engine, &order).await;
        assert_eq!(attempt.number(), number);
        drop(attempt);
        settle_down().await;
        assert_eq!(dropped.elapsed(), secs(0));
    }
    let elsewhere = begin(&world.engine(), &order).await;
    assert_eq!(elsewhere.number(), 4);
    let lost = events(&engine, &order).await;
    let lost: Vec<_> = lost.iter().map(|event| (event.kind, event.attempt)).collect();
    assert_eq!(
        lost,
        [1, 2, 3].map(|attempt| (EventKind::Unknown, attempt)),
        "the history says what was lost"
    );
}

#[tokio::test(start_paused = true)]
async fn dropped_attempt_renews_nothing_any_more() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(resumable(), "3 apples");
    drop(begin(&engine, &order).await);
    sleep(secs(2)).await;
    assert_eq!(store.seen(Asked::Renew), 0);
    assert_eq!(begin(&world.engine(), &order).await.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_of_those_who_wait_for_a_dropped_resumable_attempt_takes_over() {
    let engine = World::new().engine();
    let order = call(Contract { while_running: contract().while_running, ..resumable() }, "3 apples");
    let first = begin(&engine, &order).await;
    let waiting = contenders(&engine, &order).await;
    drop(first);
    assert_eq!(waiting.await.unwrap(), [2]);
}

#[tokio::test(start_paused = true)]
async fn unknown_verdict_is_kept_with_its_reason() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let settled = recorded(attempt.settle(Verdict::unknown("the upstream hung up")).await);
    assert_eq!(settled.state, State::OutcomeUnknown);
    assert_eq!(events(&engine, &order).await[0].reason, "the upstream hung up");
}

#[tokio::test(start_paused = true)]
async fn attempt_that_still_listens_settles_what_it_had_reported_as_lost() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let mut attempt = begin(&engine, &order).await;
    let waiting = duplicate(&engine, &order).await;
    attempt.lose("no answer in time").await;
    assert_eq!(waiting.await.unwrap().decision, Decision::Unknown, "nobody waits any longer");
    assert_eq!(decision(&engine, &order).await, Decision::Unknown);
    recorded(attempt.settle(placed("order 5001")).await);
    assert_eq!(decision(&engine, &order).await, Decision::Replay);
}

#[tokio::test(start_paused = true)]
async fn attempt_that_reported_its_outcome_as_lost_may_be_dropped() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let mut attempt = begin(&engine, &order).await;
    attempt.lose("no answer in time").await;
    drop(attempt);
    settle_down().await;
    assert_eq!(events(&engine, &order).await.len(), 1);
    assert_eq!(metric(&engine, "outcomes_lost_total"), 1);
    assert_eq!(metric(&engine, "fenced_writes_total"), 0);
}

#[tokio::test(start_paused = true)]
async fn late_success_after_a_lost_resumable_attempt_was_followed_is_evidence() {
    let engine = World::new().engine();
    let order = call(resumable(), "3 apples");
    let mut first = begin(&engine, &order).await;
    first.lose("no answer in time").await;
    let second = begin(&engine, &order).await;
    assert!(matches!(first.settle(placed("order 5001")).await, Settled::Superseded(_)));
    assert_eq!(metric(&engine, "late_successes_total"), 1);
    recorded(second.settle(placed("order 5002")).await);
    assert_eq!(known(&engine, &order).await.record.unwrap().kept, answered(201, "order 5002"));
}
