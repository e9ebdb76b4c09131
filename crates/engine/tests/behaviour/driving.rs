//! Interrupted workflows are driven on, paced, and by their own drivers alone.

use std::sync::Arc;

use onefold_core::{Contract, Kept, Outcome, Record, State};
use onefold_engine::{Driver, Drives, Engine, Verdict};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::world::*;

type Driven = Arc<Mutex<Vec<Instant>>>;

/// Interrupts the attempt that it begins, or settles it from the given drive on.
fn driver(engine: &Engine, call: onefold_engine::Call, settles_at: usize, driven: &Driven) -> Driver {
    let (engine, driven) = (engine.clone(), driven.clone());
    let drive = move |record: Record| {
        let (engine, call, driven) = (engine.clone(), call.clone(), driven.clone());
        Box::pin(async move {
            assert_eq!(record.id, call.identity.id(engine.identity_key(), call.contract.key.time));
            driven.lock().push(Instant::now());
            let times = driven.lock().len();
            let attempt = begin(&engine, &call).await;
            assert!(times != 2, "a bug of the driver");
            match times < settles_at {
                true => drop(attempt.settle(Verdict::unknown("no answer")).await),
                false => drop(attempt.settle(Verdict::known(Outcome::Succeeded, Kept::Nothing, None)).await),
            }
        }) as Drives
    };
    Driver { operation: "PlaceOrder".into(), drive: Arc::new(drive) }
}

async fn interrupted(engine: &Engine, call: &onefold_engine::Call) {
    begin(engine, call).await.settle(Verdict::unknown("no answer")).await;
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_workflow_is_driven_to_its_end_and_then_left_alone() {
    let engine = World::new().engine();
    let call = call(resumable(), "a");
    interrupted(&engine, &call).await;
    sleep(secs(3600)).await;
    let driven = Driven::default();
    let _driving = engine.drive(vec![driver(&engine, call.clone(), 4, &driven)]);
    sleep(secs(60)).await;
    assert_eq!(driven.lock().len(), 4, "also after a panic");
    let id = call.identity.id(engine.identity_key(), call.contract.key.time);
    assert_eq!(engine.look(id).await.unwrap().unwrap().0.state, State::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_hopeless_workflow_is_driven_ever_more_seldom_and_holds_up_no_other() {
    let world = World::new();
    let engine = world.engine();
    let (hopeless, other) = (keyed(resumable(), "k-1", "a"), keyed(other_operation(), "k-2", "a"));
    interrupted(&engine, &hopeless).await;
    interrupted(&engine, &other).await;
    let (driven, others) = (Driven::default(), Driven::default());
    let second = Driver { operation: "Refund".into(), ..driver(&engine, other, 1, &others) };
    let began = Instant::now();
    let _driving = engine.drive(vec![driver(&engine, hopeless, usize::MAX, &driven), second]);
    sleep(secs(600)).await;
    assert_eq!(others.lock().len(), 1);
    let driven = driven.lock();
    assert!(driven[0] - began < secs(1), "at once");
    // 0.5, 1, 2 … 30 s at most, half of each at least: between 20 and 50 drives in ten minutes.
    assert!((20..=50).contains(&driven.len()), "{} drives", driven.len());
    let last = driven.windows(2).map(|two| two[1] - two[0]).next_back().unwrap();
    assert!(last >= secs(15) && last <= secs(32), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_lives_or_has_no_driver_is_not_driven() {
    let engine = World::new().engine();
    let running = call(resumable(), "a");
    let _attempt = begin(&engine, &running).await;
    interrupted(&engine, &keyed(other_operation(), "k-2", "a")).await;
    let driven = Driven::default();
    let _driving = engine.drive(vec![driver(&engine, running, 1, &driven)]);
    sleep(secs(60)).await;
    assert!(driven.lock().is_empty());
}

fn other_operation() -> Contract {
    Contract { operation: "Refund".into(), ..resumable() }
}
