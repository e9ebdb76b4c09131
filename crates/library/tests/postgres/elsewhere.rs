//! Reserved and resumable mode, whose records alone are in the database.

use std::sync::Arc;

use onefold::{BoxError, CallError, Steps, Verdict};
use parking_lot::Mutex;

use crate::shop::{Shop, call};

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_outcome_of_reserved_mode_is_unknown_in_every_process() {
    let Some(shop) = Shop::open().await else { return };
    let lost = shop.onefold.reserved::<i64, _, _>(call("k", "r"), |_| async { Err("no answer".into()) });
    assert!(matches!(lost.await, Err(CallError::OutcomeUnknown { error: Some(_), .. })));
    for onefold in [shop.onefold.clone(), shop.another_process().await] {
        let again = onefold.reserved::<i64, _, _>(call("k", "r"), |_| async { unreachable!("not repeated") });
        let error = again.await.unwrap_err();
        assert!(matches!(error, CallError::OutcomeUnknown { error: None, .. }), "{error}");
    }
    let done = shop.onefold.reserved(call("n", "r"), |_| async { Ok(Verdict::succeeded(7)) }).await.unwrap();
    let other = shop.another_process().await;
    let again = other.reserved::<i32, _, _>(call("n", "r"), |_| async { unreachable!("it is done") });
    assert_eq!((done.into_value(), again.await.unwrap().into_value()), (7, 7));
}

type Asked = Arc<Mutex<Vec<(&'static str, String)>>>;

async fn workflow(steps: Steps, asked: Asked, ships: bool) -> Result<Verdict<i32>, BoxError> {
    let ask = async |step, key, answer: Result<i32, BoxError>| {
        asked.lock().push((step, key));
        answer
    };
    let reserved = steps.run("reserve", |key| ask("reserve", key, Ok(0))).await?;
    let answer = if ships { Ok(5) } else { Err("the answer was lost".into()) };
    let shipped = steps.run("ship", |key| ask("ship", key, answer)).await?;
    Ok(Verdict::succeeded(reserved + shipped))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_workflow_goes_on_in_another_process_at_its_open_step_under_the_same_key() {
    let Some(shop) = Shop::open().await else { return };
    let asked = Asked::default();
    for ships in [false, true, true] {
        let (onefold, own) = (shop.another_process().await, asked.clone());
        let ended = onefold.resumable(call("k", "r"), move |steps| workflow(steps, own, ships)).await;
        match ended {
            Ok(done) => assert!(ships && *done.value() == 5),
            Err(error) => assert!(!ships && matches!(error, CallError::Interrupted { .. }), "{error}"),
        }
    }
    let asked = asked.lock();
    assert_eq!(asked.iter().map(|(step, _)| *step).collect::<Vec<_>>(), ["reserve", "ship", "ship"]);
    assert!(asked[1].1 == asked[2].1 && asked[0].1 != asked[1].1);
}
