//! Section 3: equal requests at once, in one app and in several.

use std::net::SocketAddr;
use std::time::Duration;

use onefold::WhileRunning;
use onefold_testkit::{Answer, Connection, Gate, Request, Store, Supplier, on_each_store, wait};
use tokio::task::JoinHandle;

use crate::service::{Service, assert_fresh, assert_problem, assert_replay, operation, order};

on_each_store!(
    b25_equal_requests_at_once_have_one_effect,
    b26_waiter_is_woken_by_the_end_of_the_attempt_and_busy_is_told_at_once,
    b28_losers_of_the_race_between_two_instances_are_no_errors,
    b30_instances_and_mounts_of_the_middleware_are_one,
    b33_ten_starts_at_two_instances_run_the_body_once,
    b38_caller_that_hangs_up_cancels_nothing,
);

fn send(request: &Request, to: SocketAddr) -> JoinHandle<Answer> {
    let request = request.clone();
    tokio::spawn(async move { request.send(to).await })
}

/// Each is the one result, or told that it runs.
async fn one_result(sent: Vec<JoinHandle<Answer>>) -> u64 {
    let (mut results, mut fresh) = (Vec::new(), 0);
    for answer in sent {
        let answer = answer.await.unwrap();
        match answer.problem() {
            Some(_) => assert_problem(&answer, 409, "in-progress"),
            None => {
                assert_eq!(answer.status, 200, "{answer}");
                fresh += u32::from(!answer.is_replay());
                results.push(answer.n());
            }
        }
    }
    assert_eq!(fresh, 1, "one is the first");
    results.dedup();
    assert_eq!(results.len(), 1, "one result: {results:?}");
    results[0]
}

async fn b25_equal_requests_at_once_have_one_effect(store: &Store) {
    let supplier = Supplier::taking(Duration::from_millis(100));
    let service = Service::start(store.url(), &supplier, &operation()).await;
    for round in 1..=5 {
        let request = order(&format!("k-{round}"));
        let sent = (0..50).map(|_| send(&request, service.address)).collect();
        assert_eq!((one_result(sent).await, supplier.times()), (round, round));
    }
}

async fn b26_waiter_is_woken_by_the_end_of_the_attempt_and_busy_is_told_at_once(store: &Store) {
    let gate = Gate::closed();
    let supplier = Supplier::behind(&gate);
    let patient = operation().while_running(WhileRunning::Wait(Duration::from_secs(15)));
    let patient = Service::start(store.url(), &supplier, &patient).await;
    let busy = operation().while_running(WhileRunning::Busy);
    let busy = Service::start(store.url(), &supplier, &busy).await;
    let first = send(&order("k"), patient.address);
    supplier.asked(1).await;
    let second = send(&order("k"), patient.address);
    let told = busy.send(&order("k")).await;
    assert_problem(&told, 409, "in-progress");
    assert!(told.retry_after().is_some_and(|seconds| seconds >= 1), "{told}");
    wait::pass_time(Duration::from_millis(300), "the second request is to be waiting").await;
    assert!(!second.is_finished(), "answered while the first one runs");
    gate.open();
    let first = first.await.unwrap();
    assert_fresh(&first, 1);
    let woken = wait::within(Duration::from_secs(5), "the waiter is woken", second).await;
    assert_replay(&woken.unwrap(), &first);
}

async fn b28_losers_of_the_race_between_two_instances_are_no_errors(store: &Store) {
    let supplier = Supplier::default();
    let one = Service::start(store.url(), &supplier, &operation()).await;
    let two = Service::start(store.url(), &supplier, &operation()).await;
    for round in 1..=10 {
        let request = order(&format!("k-{round}"));
        let both = [one.address, two.address];
        let sent = (0..20).map(|n| send(&request, both[n % 2])).collect();
        assert_eq!(one_result(sent).await, round);
    }
    assert_eq!(supplier.times(), 10);
    for service in [&one, &two] {
        let mut registry = prometheus_client::registry::Registry::default();
        service.engine.signals().register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let errors: Vec<_> = text.lines().filter(|line| line.contains("store_errors_total{")).collect();
        assert!(!errors.is_empty(), "nobody counts them: {text}");
        assert!(errors.iter().all(|line| line.ends_with(" 0")), "{errors:?}");
    }
}

async fn b30_instances_and_mounts_of_the_middleware_are_one(store: &Store) {
    let supplier = Supplier::default();
    let one = Service::start(store.url(), &supplier, &operation()).await;
    let two = Service::start(store.url(), &supplier, &operation()).await;
    let again = |key: &str| Request { target: "/again/orders".into(), ..order(key) };
    for (key, first) in [("k-1", order("k-1")), ("k-2", again("k-2"))] {
        let answer = one.send(&first).await;
        assert_eq!((answer.status, answer.is_replay()), (200, false), "{answer}");
        for service in [&two, &one] {
            for mounted in [order(key), again(key)] {
                assert_replay(&service.send(&mounted).await, &answer);
            }
        }
    }
    assert_eq!(supplier.times(), 2);
}

async fn b33_ten_starts_at_two_instances_run_the_body_once(store: &Store) {
    let supplier = Supplier::taking(Duration::from_millis(500));
    let one = Service::start(store.url(), &supplier, &operation()).await;
    let two = Service::start(store.url(), &supplier, &operation()).await;
    let both = [one.address, two.address];
    let sent = (0..10).map(|n| send(&order("k"), both[n % 2])).collect();
    assert_eq!((one_result(sent).await, supplier.times()), (1, 1));
}

async fn b38_caller_that_hangs_up_cancels_nothing(store: &Store) {
    let gate = Gate::closed();
    let supplier = Supplier::behind(&gate);
    let operation = operation().while_running(WhileRunning::Busy).lease(Duration::from_secs(1));
    let service = Service::start(store.url(), &supplier, &operation).await;
    let mut caller = Connection::open(service.address).await.unwrap();
    let request = order("k");
    caller.send_head(&request).await.unwrap();
    caller.send_bytes(&request.body).await.unwrap();
    supplier.asked(1).await;
    drop(caller);
    assert_problem(&service.send(&order("k")).await, 409, "in-progress");
    gate.open();
    let answer = wait::some(wait::DEADLINE, "it is finished and recorded", async || {
        let answer = service.send(&order("k")).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert!(answer.is_replay() && answer.n() == 1, "{answer}");
    wait::pass_time(Duration::from_millis(1200), "the lease is to be over").await;
    assert_replay(&service.send(&order("k")).await, &answer);
    assert_eq!(supplier.times(), 1);
}
