//! Typed look-ups: what they find settles the operation with its rows, and what they do not find frees nothing.

use std::sync::Arc;

use onefold::reconcile::{Fence, Found, Lost, Reconcile};
use onefold::{BoxError, State, Verdict};
use onefold_core::EventKind;
use onefold_testkit::{Store, on_each_store, wait};
use parking_lot::Mutex;

use crate::service::{Service, Writing, call, captured, charge, operation, payments};

on_each_store!(
    what_is_found_settles_the_operation_with_its_row,
    what_is_not_found_is_asked_for_again_under_the_same_key,
    an_error_and_a_negative_without_a_fence_free_nothing,
    a_companion_that_fails_keeps_the_verdict_from_being_settled,
);

type Said = Result<Found<String>, &'static str>;

/// Says what it is told to, in turn, and notes what it was asked about.
#[derive(Clone, Default)]
struct Provider {
    says: Arc<Mutex<Vec<Said>>>,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Provider {
    fn says(said: impl IntoIterator<Item = Said>) -> Provider {
        Provider { says: Arc::new(Mutex::new(said.into_iter().collect())), asked: Arc::default() }
    }

    fn look_up(&self) -> Reconcile {
        let provider = self.clone();
        Reconcile::new(&operation(), move |lost: Lost| {
            provider.asked.lock().push((lost.key().to_owned(), lost.downstream_key("charge")));
            let mut says = provider.says.lock();
            let said = if says.is_empty() { Ok(Found::inconclusive("no more")) } else { says.remove(0) };
            async move { said.map_err(BoxError::from) }
        })
    }
}

async fn what_is_found_settles_the_operation_with_its_row(store: &Store) {
    let writing = Writing::default();
    let service = Service::first(store, &writing).await;
    let id = service.loses("k").await;
    let found = Found::created("charge", "charge-1", "charge-1".to_owned()).shown_by("GET /charges/k: 200");
    let provider = Provider::says([Ok(found)]);
    let _reconciling = service.reconcile(provider.look_up());
    service.comes_to(id, State::Succeeded).await;
    assert_eq!((charge(store).await.as_str(), writing.runs()), ("charge-1", 1));
    let done = service.ask_again("k").await.unwrap();
    assert_eq!((done.value().as_str(), done.resource().unwrap().kind.as_str()), ("charge-1", "charge"));
    let asked = provider.asked.lock().clone();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].0, "k");
    let shown = service.engine().show(id).await.unwrap().unwrap();
    let happened = shown.events.iter().find(|event| event.kind == EventKind::Happened).unwrap();
    assert_eq!(happened.evidence, "GET /charges/k: 200");
}

async fn what_is_not_found_is_asked_for_again_under_the_same_key(store: &Store) {
    let service = Service::first(store, &Writing::default()).await;
    let keys = Arc::new(Mutex::new(Vec::new()));
    let asks = |answer: Result<Verdict<String>, &'static str>| {
        let keys = keys.clone();
        service.reserved(call("k"), move |attempt| async move {
            keys.lock().push(attempt.downstream_key("charge"));
            answer.map_err(BoxError::from)
        })
    };
    assert!(asks(Err("no answer")).await.is_err());
    let provider = Provider::says([Ok(Found::did_not_happen(Fence::SameKey))]);
    let _reconciling = service.reconcile(provider.look_up());
    let what = "the same call may begin again";
    wait::until_within(wait::DEADLINE, what, async || asks(Ok(captured())).await.is_ok()).await;
    assert_eq!(charge(store).await, "charge-1");
    let keys = keys.lock();
    assert_eq!(keys.len(), 2);
    assert!(keys[0] == keys[1] && keys[0] == provider.asked.lock()[0].1);
}

async fn an_error_and_a_negative_without_a_fence_free_nothing(store: &Store) {
    let service = Service::first(store, &Writing::default()).await;
    let id = service.loses("k").await;
    let provider = Provider::says([
        Err("the provider does not answer"),
        Ok(Found::did_not_happen(None)),
        Ok(Found::happened("charge-1".into())),
    ]);
    let _reconciling = service.reconcile(provider.look_up());
    for (times, kind) in [(1, EventKind::Inconclusive), (2, EventKind::DidNotHappen)] {
        let what = format!("{times} look-ups are in the history");
        wait::until_within(wait::DEADLINE, &what, async || {
            let events = service.engine().show(id).await.unwrap().unwrap().events;
            events.iter().any(|event| event.kind == kind)
        })
        .await;
        if times == 1 {
            assert!(service.ask_again("k").await.is_err(), "it is not free");
            assert_eq!(payments(store).await, 0);
        }
    }
    service.comes_to(id, State::Succeeded).await;
    assert_eq!(charge(store).await, "charge-1");
}

async fn a_companion_that_fails_keeps_the_verdict_from_being_settled(store: &Store) {
    let writing = Writing::that_fails(usize::MAX);
    let service = Service::first(store, &writing).await;
    let id = service.loses("k").await;
    let provider = Provider::says([Ok(Found::happened("charge-1".into()))]);
    let _reconciling = service.reconcile(provider.look_up());
    let what = "the companion has run";
    wait::until_within(wait::DEADLINE, what, async || writing.runs() > 0).await;
    let nothing = service.resolve(id, captured()).await;
    assert!(nothing.is_err(), "a person's word is not settled without its row either");
    assert_eq!((service.state(id).await, payments(store).await), (State::OutcomeUnknown, 0));
}
