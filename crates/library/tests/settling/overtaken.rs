//! An attempt whose outcome somebody else has found out before it comes back with its own: one row, in every order.

use std::sync::Arc;

use onefold::reconcile::{Fence, Found, Lost, Reconcile};
use onefold::{Call, Done, Recorded, Release, State, Verdict};
use onefold_testkit::{Store, on_each_store};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::service::{Service, Writing, call, charge, operation, payments};

on_each_store!(
    own_success_after_it_was_found_runs_no_second_companion,
    own_success_after_it_was_not_found_writes_the_row,
    own_success_after_a_person_has_settled_it_is_evidence,
);

/// An attempt that is released by a person while it waits for its provider.
struct Waiting {
    service: Service,
    id: onefold::OperationId,
    answers: Arc<Notify>,
    attempt: JoinHandle<Done<String>>,
}

impl Waiting {
    async fn for_its_provider(service: &Service) -> Waiting {
        let (begun, answers) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (tells, waits, own) = (begun.clone(), answers.clone(), service.clone());
        let asked: Call = call("k");
        let attempt = tokio::spawn(async move {
            let done = own.reserved(asked, move |_| async move {
                tells.notify_one();
                waits.notified().await;
                Ok(Verdict::succeeded("charge-1".to_owned()))
            });
            done.await.unwrap()
        });
        begun.notified().await;
        let id = match service {
            Service::Sqlite(onefold) => call("k").id(onefold),
            Service::Postgresql(onefold) => call("k").id(onefold),
        };
        let release = Release { reason: "ticket 7".into(), force: true, who: "ada".into() };
        service.engine().release(id, release).await.unwrap();
        Waiting { service: service.clone(), id, answers, attempt }
    }

    /// Somebody is asked and says so.
    async fn is_found(&self, found: Found<String>, state: State) {
        let look_up = Reconcile::new(&operation(), move |_: Lost| {
            let found = found.clone();
            async move { Ok(found) }
        });
        let _reconciling = self.service.reconcile(look_up);
        self.service.comes_to(self.id, state).await;
    }

    async fn answers(self) -> Done<String> {
        self.answers.notify_one();
        self.attempt.await.unwrap()
    }
}

async fn own_success_after_it_was_found_runs_no_second_companion(store: &Store) {
    let writing = Writing::default();
    let service = Service::first(store, &writing).await;
    let waiting = Waiting::for_its_provider(&service).await;
    waiting.is_found(Found::happened("found".into()), State::Succeeded).await;
    assert_eq!(charge(store).await, "found");
    let done = waiting.answers().await;
    assert_eq!((done.value().as_str(), done.recorded()), ("charge-1", Recorded::Durably));
    assert_eq!((charge(store).await.as_str(), writing.runs()), ("found", 1));
    let other = Service::open(store).await;
    assert_eq!(other.ask_again("k").await.unwrap().value(), "charge-1", "its own result counts more");
}

async fn own_success_after_it_was_not_found_writes_the_row(store: &Store) {
    let writing = Writing::default();
    let service = Service::first(store, &writing).await;
    let waiting = Waiting::for_its_provider(&service).await;
    waiting.is_found(Found::did_not_happen(Fence::Tombstoned), State::Failed).await;
    assert_eq!(payments(store).await, 0);
    let done = waiting.answers().await;
    assert_eq!(done.recorded(), Recorded::Durably);
    assert_eq!((charge(store).await.as_str(), writing.runs()), ("charge-1", 1));
    assert_eq!(service.state(done.id()).await, State::Succeeded);
}

async fn own_success_after_a_person_has_settled_it_is_evidence(store: &Store) {
    let writing = Writing::default();
    let service = Service::first(store, &writing).await;
    let waiting = Waiting::for_its_provider(&service).await;
    service.resolve(waiting.id, Verdict::succeeded("by hand".into())).await.unwrap();
    let done = waiting.answers().await;
    assert_eq!(done.recorded(), Recorded::Superseded);
    assert_eq!((charge(store).await.as_str(), writing.runs()), ("by hand", 1));
    let shown = service.engine().show(done.id()).await.unwrap().unwrap();
    let late = shown.events.iter().filter(|event| event.kind == onefold_core::EventKind::LateSuccess);
    assert_eq!(late.count(), 1);
}
