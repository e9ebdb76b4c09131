//! A refusal for good, however deep in a work it is found, ends the operation and is kept.

use std::sync::Arc;

use onefold::{BoxError, CallError, Rejection, StepError, Steps, Verdict};
use onefold_testkit::{Store, on_each_store};
use parking_lot::Mutex;

use crate::service::{Service, Writing, call, charge};

on_each_store!(
    a_refused_step_ends_the_workflow_with_a_rejection_that_is_kept,
    a_refused_step_is_not_asked_for_again_by_a_later_attempt,
    an_error_that_rejects_is_a_rejection_in_every_mode,
);

type Asked = Arc<Mutex<Vec<String>>>;

fn refuses(asked: &Asked, step: &str) -> Result<String, BoxError> {
    asked.lock().push(step.to_owned());
    let refusal = Rejection::of("no money");
    // As an error of the business has it for its cause.
    Err(Box::new(Wrapped(refusal)))
}

#[derive(Debug, thiserror::Error)]
#[error("the payment was refused")]
struct Wrapped(#[source] Rejection);

async fn a_refused_step_ends_the_workflow_with_a_rejection_that_is_kept(store: &Store) {
    let writing = Writing::default();
    let service = Service::first(store, &writing).await;
    let asked = Asked::default();
    for replayed in [false, true] {
        let own = asked.clone();
        let ended = service.resumable(call("k"), move |steps| async move {
            Ok(Verdict::succeeded(steps.run("charge", |_| async move { refuses(&own, "charge") }).await?))
        });
        let ended = ended.await.unwrap();
        assert_eq!(
            (ended.rejected(), ended.value().as_str(), ended.replayed()),
            (true, "no money", replayed)
        );
    }
    assert_eq!(*asked.lock(), ["charge"]);
    assert_eq!((charge(store).await.as_str(), writing.runs()), ("refused: no money", 1));
}

async fn a_refused_step_is_not_asked_for_again_by_a_later_attempt(store: &Store) {
    let service = Service::first(store, &Writing::default()).await;
    let asked = Asked::default();
    for releases in [false, true] {
        let own = asked.clone();
        let ended = service.resumable(call("k"), move |steps| compensates(steps, own, releases)).await;
        match ended {
            Err(CallError::Interrupted { .. }) => assert!(!releases),
            ended => assert!(releases && ended.unwrap().rejected()),
        }
    }
    assert_eq!(*asked.lock(), ["charge", "release", "release"]);
}

/// What is done to make good is a step like any other.
async fn compensates(steps: Steps, asked: Asked, releases: bool) -> Result<Verdict<String>, BoxError> {
    match steps.run("charge", |_| async { refuses(&asked, "charge") }).await {
        Err(StepError::Rejected { .. }) => {}
        other => return Ok(Verdict::succeeded(other?)),
    }
    let release = async |_: String| {
        asked.lock().push("release".into());
        if releases { Ok(()) } else { Err::<(), BoxError>("no answer".into()) }
    };
    steps.run("release", release).await?;
    Ok(Verdict::rejected("no money".into()))
}

async fn an_error_that_rejects_is_a_rejection_in_every_mode(store: &Store) {
    let service = Service::first(store, &Writing::default()).await;
    let rejects = || -> Result<Verdict<String>, BoxError> { Err(Rejection::of("no money").into()) };
    let reserved = service.reserved(call("r"), move |_| async move { rejects() }).await.unwrap();
    let atomic = match &service {
        Service::Sqlite(onefold) => onefold.atomic(call("a"), move |_| rejects()).await,
        Service::Postgresql(onefold) => {
            let work = async move |_: &mut onefold::postgres::PostgresTx| rejects();
            onefold.atomic(call("a"), work).await
        }
    };
    assert!(reserved.rejected() && atomic.unwrap().rejected());
    let other_type = service.reserved(call("t"), |_| async { Err(Rejection::of(7).into()) }).await;
    assert!(matches!(other_type, Err(CallError::OutcomeUnknown { .. })), "a number is no result of it");
}
