//! The outcome and the rows of the service are one commit, whoever settles.

use onefold::{ActError, CallError, Recorded, State, Verdict};
use onefold_core::EventKind;
use onefold_engine::{Resolution, ResolvedAs};
use onefold_testkit::{Store, on_each_store, sql};

use crate::service::{Service, Writing, call, captured, charge, payments};

on_each_store!(
    whoever_has_a_result_finds_its_row,
    a_companion_that_fails_leaves_the_operation_unsettled_and_is_offered_again,
    a_person_settles_through_the_service_and_not_around_it,
    of_many_people_at_once_one_writes_a_row,
    a_result_that_cannot_be_kept_is_not_settled_without_its_row,
    a_workflow_has_its_row_once,
    what_ties_a_workflow_together_goes_to_the_messages_of_a_companion_whoever_settles,
);

async fn whoever_has_a_result_finds_its_row(store: &Store) {
    let writing = Writing::default();
    let service = Service::first(store, &writing).await;
    let done = service.reserved(call("k"), |_| async { Ok(captured()) }).await.unwrap();
    assert_eq!((done.replayed(), done.recorded()), (false, Recorded::Durably));
    assert_eq!(charge(store).await, "charge-1");
    let again = service.ask_again("k").await.unwrap();
    assert!(again.replayed());
    assert_eq!((writing.runs(), payments(store).await), (1, 1));

    sql::execute(store.url(), "DELETE FROM payments").await;
    let refused = service.reserved(call("r"), |_| async { Ok(Verdict::rejected("no money".into())) });
    assert!(refused.await.unwrap().rejected());
    assert_eq!(charge(store).await, "refused: no money");
    let nothing = service.reserved(call("n"), |_| async { Ok(Verdict::not_done("closed")) }).await;
    assert!(matches!(nothing, Err(CallError::NotDone { .. })));
    assert_eq!((writing.runs(), payments(store).await), (2, 1), "nothing happened, so nothing is written");
}

async fn a_companion_that_fails_leaves_the_operation_unsettled_and_is_offered_again(store: &Store) {
    let writing = Writing::that_fails(3);
    let service = Service::first(store, &writing).await;
    let done = service.reserved(call("k"), |_| async { Ok(captured()) }).await.unwrap();
    assert_eq!((done.value().as_str(), done.recorded()), ("charge-1", Recorded::NotYet));
    service.comes_to(done.id(), State::Succeeded).await;
    assert_eq!(charge(store).await, "charge-1");
    assert_eq!(writing.runs(), 4);
    assert_eq!(service.ask_again("k").await.unwrap().value(), "charge-1");
}

async fn a_person_settles_through_the_service_and_not_around_it(store: &Store) {
    let writing = Writing::default();
    let service = Service::first(store, &writing).await;
    let id = service.loses("k").await;
    // As `onefold operations resolve` does, from a process that knows nothing of the service.
    let command = Service::open(store).await;
    let around = |resolved_as| Resolution {
        resolved_as,
        reason: "ticket 7".into(),
        evidence: "the provider's books".into(),
        resource: None,
        answer: None,
        who: "ada".into(),
    };
    let refused = command.engine().resolve(id, around(ResolvedAs::Succeeded)).await;
    assert!(matches!(&refused, Err(ActError::HasCompanion { operation }) if operation == "Capture"));
    assert_eq!((service.state(id).await, payments(store).await), (State::OutcomeUnknown, 0));

    let shown = service.resolve(id, captured()).await.unwrap();
    assert_eq!(shown.record.state, State::Succeeded);
    let history: Vec<_> = shown.events.iter().map(|event| event.kind).collect();
    assert_eq!(history, [EventKind::Unknown, EventKind::Resolved]);
    assert_eq!(charge(store).await, "charge-1");
    assert_eq!(service.ask_again("k").await.unwrap().value(), "charge-1");
    let late = service.resolve(id, Verdict::succeeded("charge-2".into())).await;
    assert!(matches!(late, Err(ActError::NotUnknown { state: State::Succeeded })));

    // That nothing happened needs no rows, so anybody may say so.
    let id = service.loses("n").await;
    command.engine().resolve(id, around(ResolvedAs::Failed)).await.unwrap();
    let id = service.loses("m").await;
    service.resolve(id, Verdict::not_done("the provider knows nothing of it")).await.unwrap();
    assert_eq!(service.state(id).await, State::Failed);
    assert_eq!((writing.runs(), payments(store).await), (1, 1));
}

async fn of_many_people_at_once_one_writes_a_row(store: &Store) {
    let writing = Writing::default();
    let service = Service::first(store, &writing).await;
    let id = service.loses("k").await;
    let people = (0..8).map(|n| {
        let service = service.clone();
        tokio::spawn(async move { service.resolve(id, Verdict::succeeded(format!("charge-{n}"))).await })
    });
    let people: Vec<_> = people.collect();
    let mut settled = Vec::new();
    for person in people {
        settled.extend(person.await.unwrap().ok());
    }
    assert_eq!(settled.len(), 1);
    assert_eq!(charge(store).await, *service.ask_again("k").await.unwrap().value());
}

async fn a_result_that_cannot_be_kept_is_not_settled_without_its_row(store: &Store) {
    let writing = Writing::default();
    let service = Service::first(store, &writing).await;
    let long = service.reserved(call("k"), |_| async { Ok(Verdict::succeeded("x".repeat(2 << 20))) }).await;
    let Err(CallError::OutcomeUnknown { id, error: Some(error) }) = long else { panic!("{long:?}") };
    assert!(error.to_string().contains("cannot be kept"), "{error}");
    assert_eq!((service.state(id).await, payments(store).await), (State::OutcomeUnknown, 0));
}

async fn a_workflow_has_its_row_once(store: &Store) {
    let writing = Writing::default();
    let service = Service::first(store, &writing).await;
    for answers in [false, true, true] {
        let done = service.resumable(call("k"), move |steps| async move {
            let answer = if answers { Ok("charge-1".to_owned()) } else { Err("no answer".into()) };
            Ok(Verdict::succeeded(steps.run("charge", |_| async { answer }).await?))
        });
        assert_eq!(done.await.is_ok(), answers);
        assert_eq!(payments(store).await, u64::from(answers));
    }
    assert_eq!(writing.runs(), 1);
}

async fn what_ties_a_workflow_together_goes_to_the_messages_of_a_companion_whoever_settles(store: &Store) {
    let service = Service::first(store, &Writing::default()).await;
    service.reserved(call("k").correlated("flow-7"), |_| async { Ok(captured()) }).await.unwrap();
    assert_eq!(service.told("k").await, Some((b"charge-1".to_vec(), Some("flow-7".into()))));
    service.reserved(call("alone"), |_| async { Ok(captured()) }).await.unwrap();
    assert_eq!(service.told("alone").await, Some((b"charge-1".to_vec(), None)), "nothing is left of flow-7");

    let lost = service.reserved(call("l").correlated("flow-8"), |_| async { Err("no answer".into()) }).await;
    let Err(CallError::OutcomeUnknown { id, .. }) = lost else { panic!("{lost:?}") };
    assert_eq!(service.told("l").await, None);
    service.resolve(id, captured()).await.unwrap();
    assert_eq!(service.told("l").await, Some((b"charge-1".to_vec(), Some("flow-8".into()))));
}
