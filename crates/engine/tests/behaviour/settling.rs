//! What a verdict leaves behind: a result for ever equal answers, or a free key for the next request.

use onefold_core::{Contract, Decision, Kept, Outcome, Resource, State};
use onefold_engine::Verdict;
use tokio::time::sleep;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn attempt_that_did_nothing_frees_the_key_for_the_next_request() {
    let world = World::new();
    let engine = world.engine();
    let order = call(contract(), "3 apples");
    let settled = recorded(begin(&engine, &order).await.settle(not_done("try again")).await);
    assert_eq!((settled.state, &settled.kept), (State::Failed, &Kept::Nothing));
    let second = begin(&engine, &order).await;
    assert_eq!(second.number(), 2);
    recorded(second.settle(not_done("try again")).await);
    assert_eq!(begin(&world.engine(), &order).await.number(), 3);
}

#[tokio::test(start_paused = true)]
async fn changed_request_may_begin_under_a_free_key_and_is_the_request_from_then_on() {
    let engine = World::new().engine();
    let (first, changed) = (call(contract(), "3 apples"), call(contract(), "4 apples"));
    recorded(begin(&engine, &first).await.settle(not_done("try again")).await);
    let second = begin(&engine, &changed).await;
    assert_eq!(second.number(), 2);
    let conflict = Decision::Conflict { original: State::Processing };
    assert_eq!(decision(&engine, &first).await, conflict, "also in memory");
    assert_eq!(record(&engine, &changed).await.fingerprint, Some(changed.fingerprint));
    recorded(second.settle(placed("order 5001")).await);
    assert_eq!(decision(&engine, &changed).await, Decision::Replay);
    assert_eq!(decision(&engine, &first).await, Decision::Conflict { original: State::Succeeded });
}

#[tokio::test(start_paused = true)]
async fn one_of_those_who_wait_begins_when_the_attempt_did_nothing() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let first = begin(&engine, &order).await;
    let waiting = contenders(&engine, &order).await;
    recorded(first.settle(not_done("try again")).await);
    assert_eq!(waiting.await.unwrap(), [2]);
}

#[tokio::test(start_paused = true)]
async fn after_the_allowed_attempts_the_last_answer_is_kept() {
    let world = World::new();
    let engine = world.engine();
    let order = call(Contract { max_attempts: 2, ..contract() }, "3 apples");
    recorded(begin(&engine, &order).await.settle(not_done("first")).await);
    recorded(begin(&engine, &order).await.settle(not_done("second")).await);
    for process in [engine, world.engine()] {
        let known = known(&process, &order).await;
        assert_eq!(known.decision, Decision::Exhausted);
        assert_eq!(known.record.unwrap().kept, answered(503, "second"));
    }
}

#[tokio::test(start_paused = true)]
async fn other_request_under_an_exhausted_key_is_a_conflict() {
    let engine = World::new().engine();
    let one = |body| call(Contract { max_attempts: 1, ..contract() }, body);
    recorded(begin(&engine, &one("3 apples")).await.settle(not_done("no")).await);
    assert_eq!(decision(&engine, &one("4 apples")).await, Decision::Conflict { original: State::Failed });
    assert_eq!(decision(&engine, &one("3 apples")).await, Decision::Exhausted);
}

#[tokio::test(start_paused = true)]
async fn what_the_operation_brought_forth_is_kept_and_found() {
    let engine = World::new().engine();
    let order = call(contract(), "3 apples");
    let resource = Resource { kind: "order".into(), id: "5001".into() };
    let verdict = Verdict::known(Outcome::Succeeded, answered(201, "order 5001"), Some(resource.clone()));
    recorded(begin(&engine, &order).await.settle(verdict).await);
    assert_eq!(record(&engine, &order).await.resource, Some(resource.clone()));
    let query = onefold_store::Query { resource: Some("5001".into()), limit: 10, ..Default::default() };
    let page = engine.list(query).await.unwrap();
    assert_eq!(page.records.len(), 1);
    assert_eq!(known(&engine, &order).await.record.unwrap().resource, Some(resource));
}

#[tokio::test(start_paused = true)]
async fn record_that_settling_gives_back_is_the_stored_one() {
    for verdict in [placed("order 5001"), not_done("no"), Verdict::unknown("hung up")] {
        let engine = World::new().engine();
        let order = call(contract(), "3 apples");
        let attempt = begin(&engine, &order).await;
        sleep(secs(2)).await;
        let settled = recorded(attempt.settle(verdict).await);
        assert_eq!(*settled, record(&engine, &order).await);
    }
}
