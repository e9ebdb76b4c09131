//! B34, B35 and B36: a process is killed, and another one makes the same call.

use std::time::Duration;

use onefold::{CallError, Resolution, ResolvedAs, State, WhileRunning};
use onefold_testkit::{Store, on_each_store, wait};

use crate::child::{Shared, Task, charge, workflow};
use crate::service::{Service, call, call_of, operation, orders};

on_each_store!(
    b34_killed_between_the_business_statement_and_the_commit_leaves_nothing,
    b34_killed_after_the_commit_replays_its_result,
    b35_claim_without_an_owner_is_busy_until_its_lease_ends_and_then_unknown,
    b35_workflow_without_an_owner_goes_on_after_its_lease,
    b35_finished_record_has_an_expiry,
    b36_unknown_outcome_is_never_repeated_and_no_new_key_is_safe,
    b36_unknown_outcome_is_listed_and_can_be_settled_as_done,
    b36_unknown_outcome_settled_as_not_done_frees_the_key,
);

async fn outcome_unknown(service: &Service) -> CallError {
    wait::some(wait::DEADLINE, "the outcome is unknown", async || {
        let error = service.ask_again(call("k")).await.unwrap_err();
        let performed = matches!(error, CallError::OutcomeUnknown { error: Some(_), .. });
        assert!(!performed, "a second attempt began: {error}");
        matches!(error, CallError::OutcomeUnknown { .. }).then_some(error)
    })
    .await
}

/// A service whose other process was killed after an effect elsewhere; its operation is unknown.
async fn killed_after_the_effect(store: &Store) -> (Service, Shared, CallError) {
    let service = Service::first(store.url()).await;
    let shared = Shared::new(store.url());
    shared.killed(Task::StandAfterTheEffect, "k").await;
    let unknown = outcome_unknown(&service).await;
    (service, shared, unknown)
}

fn resolution(resolved_as: ResolvedAs) -> Resolution {
    let [reason, evidence, who] = ["asked the provider", "ticket 7", "ada"].map(str::to_owned);
    Resolution { resolved_as, reason, evidence, resource: None, answer: None, who }
}

async fn b34_killed_between_the_business_statement_and_the_commit_leaves_nothing(store: &Store) {
    let service = Service::first(store.url()).await;
    Shared::new(store.url()).killed(Task::StandBeforeTheCommit, "k").await;
    let done = service.place(call("k")).await.unwrap();
    assert!(!done.replayed(), "the dead one's transaction is gone");
    let again = service.place(call("k")).await.unwrap();
    assert_eq!((again.value(), again.replayed()), (done.value(), true));
    assert_eq!(orders(store.url()).await, 1);
}

async fn b34_killed_after_the_commit_replays_its_result(store: &Store) {
    let service = Service::first(store.url()).await;
    Shared::new(store.url()).killed(Task::StandAfterTheCommit, "k").await;
    for _ in 0..2 {
        let again = service.place(call("k")).await.unwrap();
        assert_eq!((*again.value(), again.replayed()), (1, true));
    }
    assert_eq!(orders(store.url()).await, 1);
}

async fn b35_claim_without_an_owner_is_busy_until_its_lease_ends_and_then_unknown(store: &Store) {
    let service = Service::first(store.url()).await;
    let shared = Shared::new(store.url());
    shared.killed(Task::StandAfterTheEffect, "k").await;
    let impatient = call_of(&operation().while_running(WhileRunning::Busy), "k");
    let early = service.ask_again(impatient).await.unwrap_err();
    assert!(matches!(early, CallError::InProgress { .. }), "{early}");
    assert!(early.retry_after().is_some_and(|after| after <= Duration::from_secs(1)), "{early:?}");
    outcome_unknown(&service).await;
    assert_eq!(shared.notes.noted("effects").len(), 1);
}

async fn b35_workflow_without_an_owner_goes_on_after_its_lease(store: &Store) {
    let service = Service::first(store.url()).await;
    let shared = Shared::new(store.url());
    shared.killed(Task::StandInAStep, "k").await;
    let done = wait::some(wait::DEADLINE, "the workflow is taken over", async || {
        workflow(&service, "k", shared.notes.clone(), false).await.ok()
    })
    .await;
    assert_eq!((*done.value(), done.replayed()), (2, false));
    let effects = shared.notes.noted("effects");
    let asked: Vec<_> = effects.iter().map(|line| line.split_once(' ').unwrap()).collect();
    let names: Vec<_> = asked.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["reserve", "charge", "charge", "ship"], "finished steps are skipped");
    assert_eq!(asked[1].1, asked[2].1, "the open one is repeated under its key");
}

async fn b35_finished_record_has_an_expiry(store: &Store) {
    let service = Service::first(store.url()).await;
    let shared = Shared::new(store.url());
    let placed = service.place(call("placed")).await.unwrap();
    let charged = charge(&service, call("charged"), shared.notes, false).await.unwrap();
    for id in [placed.id(), charged.id()] {
        let (record, now) = service.engine().look(id).await.unwrap().expect("a record");
        assert!(record.expires_at.is_some_and(|at| at > now), "{record:?}");
    }
}

async fn b36_unknown_outcome_is_never_repeated_and_no_new_key_is_safe(store: &Store) {
    let (service, shared, unknown) = killed_after_the_effect(store).await;
    assert!(!unknown.new_key_is_safe());
    for replica in [service, Service::open(store.url()).await] {
        let again = charge(&replica, call("k"), shared.notes.clone(), false).await;
        assert!(matches!(again, Err(CallError::OutcomeUnknown { .. })), "{again:?}");
    }
    assert_eq!(shared.notes.noted("effects").len(), 1);
}

async fn b36_unknown_outcome_is_listed_and_can_be_settled_as_done(store: &Store) {
    let (service, shared, unknown) = killed_after_the_effect(store).await;
    let id = unknown.id().expect("an operation");
    // Whoever reads judges the lease; the list shows what the keeper has marked.
    let keeper = service.keep(Duration::from_secs(60));
    let query = onefold_store::Query { state: Some(State::OutcomeUnknown), limit: 100, ..Default::default() };
    wait::until_within(wait::DEADLINE, "it is listed", async || {
        let page = service.engine().list(query.clone()).await.unwrap();
        page.records.iter().any(|record| record.id == id)
    })
    .await;
    drop(keeper);
    service.engine().resolve(id, resolution(ResolvedAs::Succeeded)).await.unwrap();
    for replica in [service, Service::open(store.url()).await] {
        let again = charge(&replica, call("k"), shared.notes.clone(), false).await;
        assert!(matches!(again, Err(CallError::ValueNotKept { .. })), "{again:?}");
    }
    assert_eq!(shared.notes.noted("effects").len(), 1);
}

async fn b36_unknown_outcome_settled_as_not_done_frees_the_key(store: &Store) {
    let (service, shared, unknown) = killed_after_the_effect(store).await;
    let id = unknown.id().expect("an operation");
    service.engine().resolve(id, resolution(ResolvedAs::Failed)).await.unwrap();
    let again = charge(&service, call("k"), shared.notes.clone(), false).await.unwrap();
    assert_eq!((again.attempt(), again.replayed()), (2, false));
    assert_eq!(shared.notes.noted("effects").len(), 2);
}
