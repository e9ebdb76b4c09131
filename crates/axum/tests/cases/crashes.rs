//! Section 4: the process that has the operation is killed while the supplier works.

use std::time::Duration;

use onefold::{Operation, Resolution, ResolvedAs, State, WhileRunning};
use onefold_testkit::{Gate, SecondProcess, Store, Supplier, on_each_store, wait};

use crate::service::{Service, assert_problem, operation, order};

on_each_store!(b35_b36_killed_owner_leaves_an_unknown_outcome_that_a_person_settles_and_nothing_runs_again);

/// A short lease, so that nobody need wait long for a dead owner.
fn impatient() -> Operation {
    operation().lease(Duration::from_secs(1)).while_running(WhileRunning::Busy)
}

/// Serves, asks the supplier for one order, and stands there.
pub async fn child() {
    let Some(store) = SecondProcess::store() else { return };
    let supplier = Supplier::behind(&Gate::closed());
    let service = Service::start(&store, &supplier, &impatient()).await;
    let order = order("k");
    let answer = service.send(&order);
    let stands = async {
        supplier.asked(1).await;
        SecondProcess::stand().await;
    };
    tokio::select! {
        answer = answer => panic!("nobody answers: {answer}"),
        () = stands => {}
    }
}

async fn b35_b36_killed_owner_leaves_an_unknown_outcome_that_a_person_settles_and_nothing_runs_again(
    store: &Store,
) {
    let supplier = Supplier::default();
    let service = Service::start(store.url(), &supplier, &impatient()).await;
    let owner = SecondProcess::standing(store.url()).await;
    assert_problem(&service.send(&order("k")).await, 409, "in-progress");
    drop(owner);
    let unknown = wait::some(wait::DEADLINE, "the lease is over", async || {
        let answer = service.send(&order("k")).await;
        (answer.problem().as_deref() != Some("in-progress")).then_some(answer)
    })
    .await;
    assert_problem(&unknown, 409, "outcome-unknown");
    assert_eq!(unknown.json()["safe_to_use_new_key"], false, "{unknown}");
    let unknowns =
        onefold_store::Query { state: Some(State::OutcomeUnknown), limit: 10, ..Default::default() };
    let listed = service.engine.list(unknowns).await.unwrap().records;
    let [record] = &listed[..] else { panic!("people see it: {listed:?}") };
    let resolution = Resolution {
        resolved_as: ResolvedAs::Succeeded,
        reason: "the supplier has it".into(),
        evidence: "its order 5001".into(),
        who: "ann".into(),
        resource: None,
        answer: None,
    };
    service.engine.resolve(record.id, resolution).await.unwrap();
    let settled = service.send(&order("k")).await;
    assert_problem(&settled, 409, "response-not-kept");
    assert_eq!(supplier.times(), 0, "nothing ran again");
}
