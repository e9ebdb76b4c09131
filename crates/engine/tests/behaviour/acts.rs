//! What people may do to an operation, and what is refused to them.

use onefold_core::{Answer, Decision, EventKind, Kept, NotKept, OperationId, Resource, State};
use onefold_engine::{ActError, Release, Resolution, ResolvedAs, Settled, Verdict};
use onefold_store::Query;
use tokio::time::{Instant, sleep};

use crate::world::*;

pub fn resolution(resolved_as: ResolvedAs) -> Resolution {
    Resolution {
        resolved_as,
        reason: "asked the shop".into(),
        evidence: "ticket 17".into(),
        resource: None,
        answer: None,
        who: "ada".into(),
    }
}

pub fn release(force: bool) -> Release {
    Release { reason: "the process hangs".into(), force, who: "ada".into() }
}

#[tokio::test(start_paused = true)]
async fn release_is_refused_while_the_attempt_is_alive() {
    let world = World::new();
    let engine = world.engine();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    sleep(secs(4)).await;
    let refused = world.engine().release(attempt.id(), release(false)).await;
    assert!(matches!(refused, Err(ActError::OwnerAlive { attempt: 1, left }) if left == secs(26)));
    assert_eq!(record(&engine, &order).await.state, State::Processing);
    assert_eq!(events(&engine, &order).await, []);
    recorded(attempt.settle(placed("order 5001")).await);
}

#[tokio::test(start_paused = true)]
async fn forced_release_is_unknown_and_those_who_wait_are_told_at_once() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let waiting = duplicate(&engine, &order).await;
    let asked = Instant::now();
    let shown = engine.release(attempt.id(), release(true)).await.unwrap();
    assert_eq!(shown.record.state, State::OutcomeUnknown);
    let event = shown.events.last().unwrap();
    assert_eq!((event.kind, event.who.as_str()), (EventKind::Released, "ada"));
    assert_eq!(waiting.await.unwrap().decision, Decision::Unknown);
    assert_eq!(decision(&engine, &order).await, Decision::Unknown, "whoever comes is told so, too");
    assert_eq!(asked.elapsed(), secs(0));
    assert_eq!(recorded(attempt.settle(placed("order 5001")).await).state, State::Succeeded);
    assert_eq!(decision(&engine, &order).await, Decision::Replay);
}

#[tokio::test(start_paused = true)]
async fn release_without_force_takes_an_operation_whose_lease_is_over() {
    let world = World::new();
    let (silent, store) = world.flaky();
    store.next_times(1000, Asked::Renew, Fault::Unavailable);
    let order = call(resumable(), "3 apples");
    let attempt = begin(&silent, &order).await;
    sleep(secs(4)).await;
    let person = world.engine();
    let shown = person.release(attempt.id(), release(false)).await.unwrap();
    assert_eq!(shown.record.state, State::OutcomeUnknown);
    assert_eq!(decision(&person, &order).await, Decision::Unknown, "also where the contract resumes");
}

#[tokio::test(start_paused = true)]
async fn released_attempt_that_a_newer_one_followed_is_superseded() {
    let (engine, store) = World::new().flaky();
    let order = call(contract(), "3 apples");
    let first = begin(&engine, &order).await;
    engine.release(first.id(), release(true)).await.unwrap();
    engine.resolve(first.id(), resolution(ResolvedAs::Failed)).await.unwrap();
    let second = begin(&engine, &order).await;
    assert_eq!(second.number(), 2);
    let waiting = duplicate(&engine, &order).await;
    assert!(matches!(first.settle(not_done("late")).await, Settled::Superseded(_)));
    settle_down().await;
    assert!(!waiting.is_finished(), "the end of the first is not the end of the second");
    let asked = store.seen(Asked::Read);
    assert!(matches!(decision(&engine, &call(busy(), "3 apples")).await, Decision::Busy { .. }));
    assert_eq!(store.seen(Asked::Read), asked, "this process knows that the second runs");
    recorded(second.settle(placed("order 5001")).await);
    assert_eq!(waiting.await.unwrap().decision, Decision::Replay);
}

#[tokio::test(start_paused = true)]
async fn outcome_resolved_as_failed_frees_the_key() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let id = attempt.id();
    recorded(attempt.settle(Verdict::unknown("hung up")).await);
    let shown = engine.resolve(id, resolution(ResolvedAs::Failed)).await.unwrap();
    assert_eq!(shown.record.state, State::Failed);
    let event = shown.events.last().unwrap();
    assert_eq!((event.kind, event.evidence.as_str()), (EventKind::Resolved, "ticket 17"));
    assert_eq!(begin(&engine, &order).await.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn outcome_resolved_as_succeeded_is_replayed_with_what_the_person_gave() {
    let answer = Answer { status: 201, body: b"order 5001".to_vec(), ..Answer::default() };
    let not_kept = Kept::NotKept { status: None, why: NotKept::Settled };
    for (answer, kept) in [(Some(answer.clone()), Kept::Full(answer)), (None, not_kept)] {
        let engine = World::new().engine();
        let order = call(contract(), "3 apples");
        let attempt = begin(&engine, &order).await;
        let id = attempt.id();
        recorded(attempt.settle(Verdict::unknown("hung up")).await);
        let resource = Some(Resource { kind: "order".into(), id: "5001".into() });
        let word = Resolution { answer, resource: resource.clone(), ..resolution(ResolvedAs::Succeeded) };
        engine.resolve(id, word).await.unwrap();
        let known = known(&engine, &order).await;
        assert_eq!(known.decision, Decision::Replay);
        let record = known.record.unwrap();
        assert_eq!((&record.kept, &record.resource), (&kept, &resource));
    }
}

#[tokio::test(start_paused = true)]
async fn running_operation_is_resolved_only_after_its_lease() {
    let world = World::new();
    let (silent, store) = world.flaky();
    store.next_times(1000, Asked::Renew, Fault::Unavailable);
    let attempt = begin(&silent, &call(resumable(), "3 apples")).await;
    let person = world.engine();
    let early = person.resolve(attempt.id(), resolution(ResolvedAs::Failed)).await;
    assert!(matches!(early, Err(ActError::OwnerAlive { attempt: 1, .. })));
    sleep(secs(4)).await;
    let shown = person.resolve(attempt.id(), resolution(ResolvedAs::Failed)).await.unwrap();
    assert_eq!(shown.record.state, State::Failed);
}

#[tokio::test(start_paused = true)]
async fn acts_on_a_lease_that_is_over_are_overtaken_by_a_renewal() {
    let world = World::new();
    let (holder, store) = world.flaky();
    let order = call(resumable(), "3 apples");
    let attempt = begin(&holder, &order).await;
    // The person sees a lease that is over and is slow to act; the renewal a moment later is faster.
    store.next_times(3, Asked::Renew, Fault::Unavailable);
    sleep(millis(3500)).await;
    let (person, slow) = world.flaky();
    slow.next(Asked::Lose, Fault::Late(secs(1)));
    slow.next(Asked::Settle, Fault::Late(secs(1)));
    let (released, resolved) = tokio::join!(
        person.release(attempt.id(), release(false)),
        person.resolve(attempt.id(), resolution(ResolvedAs::Failed)),
    );
    assert!(matches!(released, Err(ActError::OwnerAlive { .. })));
    assert!(matches!(resolved, Err(ActError::OwnerAlive { .. })));
    assert_eq!((slow.seen(Asked::Lose), slow.seen(Asked::Settle)), (1, 1), "both did try");
    assert_eq!(events(&holder, &order).await, []);
    recorded(attempt.settle(placed("order 5001")).await);
}

#[tokio::test(start_paused = true)]
async fn finished_operation_has_nothing_to_settle_or_to_release() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let id = attempt.id();
    recorded(attempt.settle(placed("order 5001")).await);
    let resolved = engine.resolve(id, resolution(ResolvedAs::Failed)).await;
    assert!(matches!(resolved, Err(ActError::NotUnknown { state: State::Succeeded })));
    let released = engine.release(id, release(true)).await;
    assert!(matches!(released, Err(ActError::NotUnknown { state: State::Succeeded })));
    assert_eq!(events(&engine, &order).await, []);
}

#[tokio::test(start_paused = true)]
async fn acts_without_a_reason_or_evidence_are_refused() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let (id, before) = (attempt.id(), record(&engine, &order).await);
    let silent = Release { reason: " \t".into(), ..release(true) };
    assert!(matches!(engine.release(id, silent).await, Err(ActError::TextMissing("a reason"))));
    let silent = Resolution { reason: String::new(), ..resolution(ResolvedAs::Failed) };
    assert!(matches!(engine.resolve(id, silent).await, Err(ActError::TextMissing("a reason"))));
    let bare = Resolution { evidence: " ".into(), ..resolution(ResolvedAs::Failed) };
    assert!(matches!(engine.resolve(id, bare).await, Err(ActError::TextMissing("evidence"))));
    assert_eq!(record(&engine, &order).await, before);
}

#[tokio::test(start_paused = true)]
async fn acts_on_an_operation_that_is_not_there_are_refused() {
    let engine = World::new().engine();
    let id = OperationId::from_bytes([9; 32]);
    assert!(matches!(engine.release(id, release(true)).await, Err(ActError::NotFound)));
    assert!(matches!(engine.resolve(id, resolution(ResolvedAs::Failed)).await, Err(ActError::NotFound)));
    assert!(engine.show(id).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn operations_are_listed_by_state_and_page() {
    let engine = World::new().engine();
    let [one, two, three] = ["k-1", "k-2", "k-3"].map(|key| keyed(contract(), key, "3 apples"));
    recorded(begin(&engine, &one).await.settle(placed("order 5001")).await);
    for lost in [&two, &three] {
        recorded(begin(&engine, lost).await.settle(Verdict::unknown("hung up")).await);
    }
    let query = Query { state: Some(State::OutcomeUnknown), limit: 1, ..Query::default() };
    let first = engine.list(query.clone()).await.unwrap();
    let second = engine.list(Query { cursor: first.next_cursor, ..query }).await.unwrap();
    let keys: Vec<_> = first
        .records
        .iter()
        .chain(&second.records)
        .filter_map(|r| r.key.as_ref())
        .map(|key| key.as_str())
        .collect();
    assert_eq!(keys, ["k-2", "k-3"]);
    assert_eq!(second.next_cursor, None);
}

#[tokio::test(start_paused = true)]
async fn what_failed_keeps_no_answer_and_no_resource() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let attempt = begin(&engine, &order).await;
    let id = attempt.id();
    recorded(attempt.settle(Verdict::unknown("the line went dead")).await);
    let failed = || resolution(ResolvedAs::Failed);
    let answer = Some(Answer { status: 200, ..Answer::default() });
    let resource = Some(Resource { kind: "order".into(), id: "5001".into() });
    for kept in [Resolution { answer, ..failed() }, Resolution { resource, ..failed() }] {
        let refused = engine.resolve(id, kept).await;
        assert!(matches!(refused, Err(ActError::NothingToKeep)), "{refused:?}");
    }
    assert_eq!(record(&engine, &order).await.state, State::OutcomeUnknown);
    assert_eq!(engine.resolve(id, failed()).await.unwrap().record.state, State::Failed);
}
