//! Reserved mode: an outcome that is lost is held as unknown.

use std::sync::Arc;

use onefold::{CallError, OnError, Scope, State, Verdict, WhileRunning};
use tokio::sync::Notify;

use crate::shop::{Shop, call, operation};

#[tokio::test(flavor = "multi_thread")]
async fn an_error_and_a_panic_are_unknown_outcomes_and_are_not_repeated() {
    let shop = Shop::open();
    for panics in [false, true] {
        let key = format!("panics-{panics}");
        let lost = shop.onefold.reserved::<(), _, _>(call(&key, "r"), move |_| async move {
            if panics { panic!("a bug of the business") } else { Err("the connection was lost".into()) }
        });
        assert!(matches!(lost.await, Err(CallError::OutcomeUnknown { error: Some(_), .. })));
        let again =
            shop.onefold.reserved::<(), _, _>(call(&key, "r"), |_| async { unreachable!("not repeated") });
        let error = again.await.unwrap_err();
        assert!(matches!(error, CallError::OutcomeUnknown { error: None, .. }), "{error}");
        assert!(!error.new_key_is_safe());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_that_are_declared_harmless_free_the_key() {
    let shop = Shop::open();
    let call = || operation().on_error(OnError::NotDone).call(Scope::shared(), "k", "r").unwrap();
    let failed = shop.onefold.reserved::<(), _, _>(call(), |_| async { Err("refused to connect".into()) });
    assert!(matches!(failed.await, Err(CallError::NotDone { .. })));
    let done =
        shop.onefold.reserved(call(), |attempt| async move { Ok(Verdict::succeeded(attempt.attempt())) });
    assert_eq!(*done.await.unwrap().value(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_another_request_is_told_of_the_conflict_while_the_first_runs() {
    let shop = Shop::open();
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, goes, onefold) = (begun.clone(), go.clone(), shop.onefold.clone());
    let first = tokio::spawn(async move {
        onefold
            .reserved(call("k", "r"), move |_| async move {
                told.notify_one();
                goes.notified().await;
                Ok(Verdict::succeeded(()))
            })
            .await
    });
    begun.notified().await;
    let other =
        shop.onefold.reserved::<(), _, _>(call("k", "another"), |_| async { unreachable!("a conflict") });
    assert!(matches!(other.await, Err(CallError::Conflict { original: State::Processing, .. })));
    let impatient = operation().while_running(WhileRunning::Busy);
    let impatient = impatient.call(Scope::new([("customer", "17")]), "k", "r").unwrap();
    for _ in 0..2 {
        let twin = shop.onefold.atomic::<(), _>(impatient.clone(), |_| unreachable!("it runs")).await;
        assert!(matches!(twin, Err(CallError::InProgress { .. })), "whatever the mode: {twin:?}");
    }
    go.notify_one();
    first.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn b98_the_downstream_key_is_the_same_in_every_attempt() {
    let shop = Shop::open();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let (send, sent) = tokio::sync::oneshot::channel();
        let failed = shop.onefold.reserved::<(), _, _>(call("k", "r"), move |attempt| async move {
            send.send((attempt.downstream_key("charge"), attempt.downstream_key("refund"))).unwrap();
            Ok(Verdict::not_done("the provider is closed"))
        });
        assert!(failed.await.is_err());
        keys.push(sent.await.unwrap());
    }
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0].0, keys[0].1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_work_has_the_callers_key_and_what_ties_the_call_to_others() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let shop = Shop::open();
    let asked = call("checkout \"7\"", "r").correlated("flow-7").traced(TRACE);
    assert_eq!(asked.key(), "checkout \"7\"");
    let done = shop.onefold.reserved(asked, |performing| async move {
        let said = [Some(performing.key()), performing.correlation_id(), performing.traceparent()];
        Ok(Verdict::succeeded(said.map(|said| said.map(str::to_owned))))
    });
    let expected = ["checkout \"7\"", "flow-7", TRACE].map(|said| Some(said.to_owned()));
    assert_eq!(*done.await.unwrap().value(), expected);
}
