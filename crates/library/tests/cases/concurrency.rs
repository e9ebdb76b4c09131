//! B25, B26, B28, B30, B33 and B38: many callers at once, in one process and in two.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onefold::{CallError, Verdict, WhileRunning};
use onefold_testkit::{Gate, Store, on_each_store, wait};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use crate::child::{Shared, Task, five_reserved, race_for_twenty_keys};
use crate::service::{Service, call, call_of, operation, orders};

on_each_store!(
    b25_equal_calls_at_once_are_one_order_with_one_number,
    b26_waiter_is_woken_by_the_end_of_the_attempt,
    b26_wait_ends_at_its_limit,
    b26_without_waiting_the_second_is_told_at_once_when_to_come_again,
    b28_losers_of_the_race_between_two_processes_are_no_errors,
    b30_repeat_in_another_process_is_a_replay,
    b33_ten_tasks_in_two_processes_run_the_body_once,
    b38_caller_that_goes_away_cancels_nothing,
    b125_replicas_that_start_at_once_make_one_store,
);

type Called = Result<onefold::Done<i64>, CallError>;

/// An attempt in reserved mode that stands before the gate, in a task of its own.
async fn running(service: &Service, key: &str, gate: &Gate) -> JoinHandle<Called> {
    let begun = Arc::new(Semaphore::new(0));
    let (service, call, gate, told) = (service.clone(), call(key), gate.clone(), begun.clone());
    let running = tokio::spawn(async move {
        let work = move |_| async move {
            told.add_permits(1);
            gate.passed().await;
            Ok(Verdict::succeeded(7))
        };
        service.reserved(call, work).await
    });
    begun.acquire().await.unwrap().forget();
    running
}

async fn b25_equal_calls_at_once_are_one_order_with_one_number(store: &Store) {
    let service = Service::first(store.url()).await;
    let replicas = [service.clone(), Service::open(store.url()).await];
    for round in 0..10 {
        let mut callers = JoinSet::new();
        for caller in 0..50 {
            let (service, call) = (replicas[caller % 2].clone(), call(&format!("k-{round}")));
            callers.spawn(async move { service.place(call).await.unwrap() });
        }
        let done = callers.join_all().await;
        assert_eq!(done.iter().filter(|done| !done.replayed()).count(), 1);
        assert!(done.iter().all(|other| other.value() == done[0].value()));
    }
    assert_eq!(orders(store.url()).await, 10);
}

async fn b26_waiter_is_woken_by_the_end_of_the_attempt(store: &Store) {
    let service = Service::first(store.url()).await;
    let gate = Gate::closed();
    let first = running(&service, "k", &gate).await;
    let patient = operation().while_running(WhileRunning::Wait(Duration::from_secs(15)));
    let mut waiters = JoinSet::new();
    for replica in [service.clone(), Service::open(store.url()).await] {
        let call = call_of(&patient, "k");
        waiters.spawn(async move { replica.ask_again(call).await.unwrap() });
    }
    wait::pass_time(Duration::from_millis(500), "both are to be waiting").await;
    assert!(waiters.try_join_next().is_none(), "answered while the first one runs");
    gate.open();
    // clock: how promptly those who waited are woken is what the case is about.
    let opened = Instant::now();
    for waiter in waiters.join_all().await {
        assert_eq!((*waiter.value(), waiter.replayed()), (7, true));
    }
    assert!(opened.elapsed() < Duration::from_secs(2), "woken only after {:?}", opened.elapsed());
    assert!(!first.await.unwrap().unwrap().replayed());
}

async fn b26_wait_ends_at_its_limit(store: &Store) {
    let service = Service::first(store.url()).await;
    let gate = Gate::closed();
    let first = running(&service, "k", &gate).await;
    let patient = operation().while_running(WhileRunning::Wait(Duration::from_secs(1)));
    for replica in [service.clone(), Service::open(store.url()).await] {
        // clock: how long a call waited is what the case is about.
        let asked = Instant::now();
        let told = replica.ask_again(call_of(&patient, "k")).await;
        assert!(matches!(told, Err(CallError::InProgress { .. })), "{told:?}");
        assert!(asked.elapsed() >= Duration::from_millis(950), "waited only {:?}", asked.elapsed());
    }
    gate.open();
    first.await.unwrap().unwrap();
}

async fn b26_without_waiting_the_second_is_told_at_once_when_to_come_again(store: &Store) {
    let service = Service::first(store.url()).await;
    let gate = Gate::closed();
    let first = running(&service, "k", &gate).await;
    let impatient = operation().while_running(WhileRunning::Busy);
    for replica in [service.clone(), Service::open(store.url()).await] {
        let told = replica.ask_again(call_of(&impatient, "k")).await.unwrap_err();
        assert!(matches!(told, CallError::InProgress { .. }), "{told}");
        assert!(told.retry_after().is_some_and(|after| after <= Duration::from_secs(30)), "{told:?}");
        assert!(!told.new_key_is_safe());
    }
    gate.open();
    first.await.unwrap().unwrap();
}

async fn b28_losers_of_the_race_between_two_processes_are_no_errors(store: &Store) {
    let service = Service::first(store.url()).await;
    let shared = Shared::new(store.url());
    let child = shared.start(Task::RaceForTwentyKeys, "k");
    race_for_twenty_keys(&service, "k", &shared.notes).await;
    assert!(child.ended().await.success(), "every call of the child has a result");
    let mut numbers: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let answers = shared.notes.noted("answers");
    for answer in &answers {
        let [key, number, _] = answer.split(' ').collect::<Vec<_>>()[..] else { panic!("{answer}") };
        numbers.entry(key.to_owned()).or_default().push(number.to_owned());
    }
    assert_eq!((answers.len(), numbers.len()), (400, 20));
    assert!(numbers.values().all(|of_key| of_key.iter().all(|number| *number == of_key[0])), "{numbers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.ends_with("false")).count(), 20, "{answers:?}");
    assert_eq!(orders(store.url()).await, 20);
    let mut registry = Registry::default();
    service.engine().signals().register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    let errors: Vec<_> =
        text.lines().filter(|line| line.starts_with("onefold_store_errors_total{")).collect();
    assert!(!errors.is_empty() && errors.iter().all(|line| line.ends_with(" 0")), "{text}");
}

async fn b30_repeat_in_another_process_is_a_replay(store: &Store) {
    let service = Service::first(store.url()).await;
    let first = service.place(call("k")).await.unwrap();
    let shared = Shared::new(store.url());
    assert!(shared.start(Task::Place, "k").ended().await.success());
    assert_eq!(shared.notes.noted("placed"), [format!("{} true", first.value())]);
    assert!(shared.start(Task::Place, "another").ended().await.success());
    let again = service.place(call("another")).await.unwrap();
    assert!(again.replayed());
    assert_eq!(shared.notes.noted("placed")[1], format!("{} false", again.value()));
    assert_eq!(orders(store.url()).await, 2);
}

async fn b33_ten_tasks_in_two_processes_run_the_body_once(store: &Store) {
    let service = Service::first(store.url()).await;
    let shared = Shared::new(store.url());
    let child = shared.start(Task::FiveReserved, "k");
    five_reserved(&service, "k", &shared.notes).await;
    assert!(child.ended().await.success());
    assert_eq!(shared.notes.noted("effects").len(), 1);
    let answers = shared.notes.noted("answers");
    assert_eq!(answers.len(), 10);
    assert!(answers.iter().all(|answer| answer == "7" || answer == "busy"), "{answers:?}");
}

async fn b38_caller_that_goes_away_cancels_nothing(store: &Store) {
    let service = Service::first(store.url()).await;
    let gate = Gate::closed();
    let caller = running(&service, "k", &gate).await;
    caller.abort();
    assert!(caller.await.is_err(), "the caller is gone");
    gate.open();
    for replica in [service, Service::open(store.url()).await] {
        let again = replica.ask_again(call("k")).await.unwrap();
        assert_eq!((*again.value(), again.replayed()), (7, true));
    }
}

async fn b125_replicas_that_start_at_once_make_one_store(store: &Store) {
    let mut starts = JoinSet::new();
    for _ in 0..4 {
        let url = store.url().to_owned();
        starts.spawn(async move { Service::open(&url).await });
    }
    let replicas = starts.join_all().await;
    let first = replicas[0].reserved(call("k"), |_| async { Ok(Verdict::succeeded(7)) }).await.unwrap();
    for replica in &replicas {
        let again = replica.ask_again(call("k")).await.unwrap();
        assert_eq!((again.id(), again.replayed()), (first.id(), true), "one secret, one table");
    }
}
