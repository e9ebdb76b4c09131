//! B27: the lease ends before the work does. An owner that lives keeps it; one that was frozen has lost it, and its
//! late word changes nothing that somebody else has begun.

use std::time::Duration;

use onefold::{CallError, WhileRunning};
use onefold_core::EventKind;
use onefold_testkit::{Store, on_each_store, wait};

use crate::child::{GO, REACHED, Shared, Task, charge, workflow};
use crate::service::{Service, call, call_of, operation};

on_each_store!(
    b27_living_attempt_outlasts_its_lease,
    b27_word_of_a_thawed_owner_settles_the_unknown,
    b27_late_step_of_a_frozen_owner_changes_nothing_after_a_takeover,
);

async fn told(shared: &Shared) -> String {
    wait::some(wait::DEADLINE, "the thawed owner has its answer", async || {
        shared.notes.noted("told").first().cloned()
    })
    .await
}

async fn b27_living_attempt_outlasts_its_lease(store: &Store) {
    let service = Service::first(store.url()).await;
    let shared = Shared::new(store.url());
    let owner = shared.start_and_stand(Task::StandAfterTheEffect, "k").await;
    wait::pass_time(Duration::from_secs(3), "the lease is to be over three times").await;
    let impatient = call_of(&operation().while_running(WhileRunning::Busy), "k");
    let busy = service.ask_again(impatient).await;
    assert!(matches!(busy, Err(CallError::InProgress { .. })), "{busy:?}");
    shared.notes.note(GO, "");
    assert!(owner.ended().await.success());
    let again = service.ask_again(call("k")).await.unwrap();
    assert_eq!((*again.value(), again.replayed()), (1, true));
    assert_eq!(told(&shared).await, "1 Durably");
    assert_eq!(shared.notes.noted("effects").len(), 1);
}

async fn b27_word_of_a_thawed_owner_settles_the_unknown(store: &Store) {
    let service = Service::first(store.url()).await;
    let shared = Shared::new(store.url());
    let owner = shared.start_and_stand(Task::StandAfterTheEffect, "k").await;
    owner.freeze();
    wait::until_within(wait::DEADLINE, "the outcome is unknown", async || {
        matches!(service.ask_again(call("k")).await, Err(CallError::OutcomeUnknown { .. }))
    })
    .await;
    shared.notes.note(GO, "");
    owner.thaw();
    assert!(owner.ended().await.success());
    assert_eq!(told(&shared).await, "1 Durably");
    let again = charge(&service, call("k"), shared.notes.clone(), false).await.unwrap();
    assert_eq!((*again.value(), again.replayed()), (1, true));
    assert_eq!(shared.notes.noted("effects").len(), 1);
}

async fn b27_late_step_of_a_frozen_owner_changes_nothing_after_a_takeover(store: &Store) {
    let service = Service::first(store.url()).await;
    let shared = Shared::new(store.url());
    let owner = shared.start_and_stand(Task::StandInAStep, "k").await;
    assert_eq!(shared.notes.noted(REACHED).len(), 1);
    owner.freeze();
    let done = wait::some(wait::DEADLINE, "the workflow is taken over", async || {
        workflow(&service, "k", shared.notes.clone(), false).await.ok()
    })
    .await;
    assert_eq!((*done.value(), done.replayed()), (2, false));
    shared.notes.note(GO, "");
    owner.thaw();
    assert!(owner.ended().await.success());
    assert!(told(&shared).await.starts_with("error"), "{}", told(&shared).await);
    for replica in [service, Service::open(store.url()).await] {
        let again = workflow(&replica, "k", shared.notes.clone(), false).await.unwrap();
        assert_eq!((*again.value(), again.attempt(), again.replayed()), (2, 2, true));
        let shown = replica.engine().show(done.id()).await.unwrap().expect("a record");
        assert!(shown.events.iter().all(|event| event.kind != EventKind::LateSuccess), "it claimed none");
    }
    let effects = shared.notes.noted("effects");
    let names: Vec<_> = effects.iter().map(|line| line.split_once(' ').unwrap().0).collect();
    assert_eq!(names, ["reserve", "charge", "charge", "ship"], "the frozen one stopped at its lost step");
}
