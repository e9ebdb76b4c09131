//! Two processes over one file: engines with a SQLite store each, in real time. No assertion here depends on how
//! fast the machine is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use onefold_core::{Decision, State};
use onefold_engine::{Engine, Entered, Limits, Verdict};
use onefold_store_sqlite::{Options, SqliteStore};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::world::*;

fn process(directory: &TempDir) -> Engine {
    let path = directory.path().join("onefold.db");
    let store = SqliteStore::open(path, Options::default()).expect("the store opens");
    Engine::new(Arc::new(store), "tests", Limits::default())
}

fn two_processes() -> (TempDir, [Engine; 2]) {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let engines = [process(&directory), process(&directory)];
    (directory, engines)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_duplicates_in_two_processes_make_one_attempt() {
    let (_directory, engines) = two_processes();
    let order = call(contract(), "3 apples");
    let attempts = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..50 {
        let (engine, order, attempts) = (engines[n % 2].clone(), order.clone(), attempts.clone());
        tasks.spawn(async move {
            match enter(&engine, &order).await.unwrap() {
                Entered::Attempt(attempt) => {
                    attempts.fetch_add(1, Relaxed);
                    sleep(millis(100)).await;
                    recorded(attempt.settle(placed("order 5001")).await);
                }
                Entered::Known(known) => {
                    assert_eq!(known.decision, Decision::Replay);
                    assert_eq!(known.record.unwrap().kept, answered(201, "order 5001"));
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(attempts.load(Relaxed), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_for_a_free_key_in_two_processes_make_each_attempt_once() {
    let (_directory, engines) = two_processes();
    let order = call(contract(), "3 apples");
    let numbers = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for n in 0..40 {
        let (engine, order, numbers) = (engines[n % 2].clone(), order.clone(), numbers.clone());
        tasks.spawn(async move {
            if let Entered::Attempt(attempt) = enter(&engine, &order).await.unwrap() {
                let number = attempt.number();
                numbers.lock().push(number);
                let verdict = if number < 10 { not_done("try again") } else { placed("order 5001") };
                recorded(attempt.settle(verdict).await);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(*numbers.lock(), (1..=10).collect::<Vec<u32>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicate_in_the_other_process_gets_the_result() {
    let (_directory, [one, two]) = two_processes();
    let order = call(contract(), "3 apples");
    let attempt = begin(&one, &order).await;
    let (engine, waiting) = (two.clone(), order.clone());
    let waiting = tokio::spawn(async move { known(&engine, &waiting).await });
    sleep(millis(100)).await;
    assert!(matches!(decision(&two, &call(busy(), "3 apples")).await, Decision::Busy { .. }));
    let other = decision(&two, &call(contract(), "4 apples")).await;
    assert_eq!(other, Decision::Conflict { original: State::Processing });
    recorded(attempt.settle(placed("order 5001")).await);
    assert_eq!(waiting.await.unwrap().record.unwrap().kept, answered(201, "order 5001"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_comes_later_finds_what_an_earlier_one_left() {
    let (directory, [one, two]) = two_processes();
    let [done, lost] = ["k-1", "k-2"].map(|key| keyed(contract(), key, "3 apples"));
    recorded(begin(&one, &done).await.settle(placed("order 5001")).await);
    recorded(begin(&two, &lost).await.settle(Verdict::unknown("hung up")).await);
    drop((one, two));
    let later = process(&directory);
    assert_eq!(known(&later, &done).await.record.unwrap().kept, answered(201, "order 5001"));
    assert_eq!(decision(&later, &lost).await, Decision::Unknown);
}
