//! Resumable mode: finished steps are skipped, the open one is repeated under its key.

use std::sync::Arc;

use onefold::{BoxError, CallError, StepError, Steps, Verdict};
use parking_lot::Mutex;

use crate::shop::{Shop, call};

#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Vec<(String, String)>>>);

impl Asked {
    async fn ask(&self, step: &str, key: String, answer: Result<i32, BoxError>) -> Result<i32, BoxError> {
        self.0.lock().push((step.to_owned(), key));
        answer
    }

    fn steps(&self) -> Vec<String> {
        self.0.lock().iter().map(|(step, _)| step.clone()).collect()
    }
}

async fn workflow(steps: Steps, asked: Asked, ships: bool) -> Result<Verdict<i32>, BoxError> {
    let reserved = steps.run("reserve", |key| asked.ask("reserve", key, Ok(0))).await?;
    let answer = if ships { Ok(5) } else { Err("the answer was lost".into()) };
    let shipped = steps.run("ship", |key| asked.ask("ship", key, answer)).await?;
    Ok(Verdict::succeeded(reserved + shipped))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_workflow_goes_on_at_its_open_step_under_the_same_key() {
    let shop = Shop::open();
    let asked = Asked::default();
    for ships in [false, false, true, true] {
        let own = asked.clone();
        let done = shop.onefold.resumable(call("k", "r"), move |steps| workflow(steps, own, ships)).await;
        match done {
            Ok(done) => assert!(ships && *done.value() == 5),
            Err(error) => {
                assert!(matches!(error, CallError::Interrupted { .. }) && !ships, "{error}");
                assert!(!error.new_key_is_safe());
            }
        }
    }
    assert_eq!(asked.steps(), ["reserve", "ship", "ship", "ship"]);
    let asked = asked.0.lock();
    assert!(asked[1].1 == asked[2].1 && asked[2].1 == asked[3].1 && asked[0].1 != asked[1].1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_interrupts_and_the_next_call_resumes() {
    let shop = Shop::open();
    let asked = Asked::default();
    let own = asked.clone();
    let lost = shop.onefold.resumable::<i32, _, _>(call("k", "r"), move |steps| async move {
        steps.run("reserve", |key| own.ask("reserve", key, Ok(0))).await?;
        panic!("a bug of the business")
    });
    assert!(matches!(lost.await, Err(CallError::Interrupted { .. })));
    let own = asked.clone();
    let done = shop.onefold.resumable(call("k", "r"), move |steps| workflow(steps, own, true)).await.unwrap();
    assert_eq!((*done.value(), done.attempt()), (5, 2));
    assert_eq!(asked.steps(), ["reserve", "ship"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_has_done_a_step_has_not_done_nothing() {
    let shop = Shop::open();
    let failed = shop.onefold.resumable::<i32, _, _>(call("k", "r"), |steps| async move {
        steps.run("reserve", |_| async { Ok(1) }).await?;
        Ok(Verdict::not_done("the rest does not work"))
    });
    assert!(matches!(failed.await, Err(CallError::Interrupted { .. })));
    let other =
        shop.onefold.resumable::<i32, _, _>(call("k", "another request"), |_| async { unreachable!() });
    assert!(matches!(other.await, Err(CallError::Conflict { .. })), "the key is not free");

    let nothing =
        shop.onefold.resumable::<i32, _, _>(call("n", "r"), |_| async { Ok(Verdict::not_done("closed")) });
    assert!(matches!(nothing.await, Err(CallError::NotDone { .. })));
    let other = shop.onefold.resumable(call("n", "another request"), |_| async { Ok(Verdict::succeeded(1)) });
    assert!(other.await.is_ok(), "the key is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn b99_another_input_is_another_step_and_the_same_input_the_same() {
    let shop = Shop::open();
    let asked = Asked::default();
    for (size, answers) in [("a", false), ("b", true), ("b", true)] {
        let own = asked.clone();
        let _ = shop
            .onefold
            .resumable(call("k", "r"), move |steps| async move {
                let answer = if answers { Ok(1) } else { Err("no capacity".into()) };
                let made = steps.run_with("make", size, |key| own.ask(size, key, answer)).await?;
                Ok(Verdict::succeeded(made))
            })
            .await;
    }
    let asked = asked.0.lock();
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0].1, asked[1].1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_lost_its_operation_stops_at_its_next_step() {
    let shop = Shop::open();
    let onefold = shop.onefold.clone();
    let asked = Asked::default();
    let own = asked.clone();
    let (tell, told) = tokio::sync::oneshot::channel();
    let lost = shop.onefold.resumable::<i32, _, _>(call("k", "r"), move |steps| async move {
        // A person takes the operation away while the first step runs.
        let id = steps.attempt().id();
        let first = steps
            .run("reserve", |key| async move {
                own.ask("reserve", key, Ok(0)).await?;
                onefold.engine().release(id, release_by_force()).await?;
                Ok(0)
            })
            .await;
        let repeated = own_steps(&steps).await;
        let _ = tell.send((first, repeated));
        Err("it stops".into())
    });
    assert!(lost.await.is_err());
    let (first, second) = told.await.unwrap();
    assert!(matches!(first, Err(StepError::Superseded(_))), "{first:?}");
    assert!(matches!(second, Err(StepError::Superseded(_))), "{second:?}");
    assert_eq!(asked.steps(), ["reserve"]);
}

/// A further step of an attempt that is not to have one. If it runs, it fails.
async fn own_steps(steps: &Steps) -> Result<i32, StepError> {
    steps.run("ship", |_| async { Err("it ran all the same".into()) }).await
}

fn release_by_force() -> onefold::Release {
    onefold::Release { reason: "ticket 7".into(), force: true, who: "ada".into() }
}
