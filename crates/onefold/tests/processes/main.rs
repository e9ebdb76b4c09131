//! Several processes on one file: a child is this test binary, told by its environment what to do. Processes that die are
//! in `crashes`.

mod world;

use std::time::Duration;

use onefold::{CallError, Onefold, Verdict};
use tokio::task::JoinSet;
use world::{World, call};

/// Not a test by itself: what the child does.
#[test]
fn child() {
    let Some((world, task)) = World::of_child() else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match task.split_once(':') {
            Some(("five", key)) => five(&world, key).await,
            _ => panic!("{task} is nothing that a child does"),
        }
    });
}

/// Five tasks under one key; each appends what it was told.
async fn five(world: &World, key: &str) {
    let onefold = world.open();
    let mut tasks = JoinSet::new();
    for _ in 0..5 {
        let (onefold, own, key) = (onefold.clone(), world.clone(), key.to_owned());
        tasks.spawn(async move {
            let working = own.clone();
            let done = onefold.reserved(call(&key), move |attempt| async move {
                working.note("effects", &attempt.downstream_key("append"));
                tokio::time::sleep(Duration::from_millis(500)).await;
                Ok(Verdict::succeeded(7))
            });
            match done.await {
                Ok(done) => own.note("answers", &done.value().to_string()),
                Err(CallError::InProgress { .. }) => own.note("answers", "busy"),
                Err(other) => panic!("{other}"),
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b33_ten_tasks_in_two_processes_under_one_key_run_the_body_once() {
    let world = World::new();
    let mut child = world.child("five:k");
    five(&world, "k").await;
    assert!(child.wait().unwrap().success());
    assert_eq!(world.noted("effects").len(), 1);
    let answers = world.noted("answers");
    assert_eq!(answers.len(), 10);
    assert!(answers.iter().all(|answer| answer == "7" || answer == "busy"), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn b30_atomic_calls_of_two_replicas_on_one_file_are_one_order_for_each_key() {
    let world = World::new();
    let replicas: [Onefold; 2] = [world.open(), world.open()];
    let mut calls = JoinSet::new();
    for n in 0..200 {
        let onefold = replicas[n % 2].clone();
        calls.spawn(async move { world::place(&onefold, &format!("k-{}", n / 4)).await.unwrap() });
    }
    let done = calls.join_all().await;
    assert_eq!(done.iter().filter(|done| !done.replayed()).count(), 50);
    assert_eq!(world.orders(), 50);
}
