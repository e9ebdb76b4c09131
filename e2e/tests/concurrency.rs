//! Section 3 of the cases: many callers at once, leases, several gateways, on each kind of store; with section 4
//! behind a pooler it is B125.
//!
//! B30's other half (a memory store with several replicas) has no subject: the gateway offers no such store.
//! B33 is a library's case; here stands its twin for the gateway.

use std::time::{Duration, Instant};

use onefold_e2e::{
    ROUTE, assert_fresh, assert_problem, assert_replay, gateway_on, order, parallel, setup_on, twins,
};
use onefold_testkit::{Gate, Gateway, Reply, Store, Upstream, on_each_store, wait};

on_each_store!(
    b25_equal_requests_at_once_have_one_effect,
    b26_waiter_is_woken_by_the_end_of_the_attempt,
    b26_wait_ends_at_its_limit,
    b26_without_waiting_the_second_is_told_at_once_when_to_come_again,
    b27_living_attempt_outlasts_its_lease,
    b27_late_success_of_a_frozen_owner_changes_nothing_after_a_takeover,
    b27_word_of_a_thawed_owner_settles_the_unknown,
    b28_losers_of_the_race_are_no_errors,
    b28_all_who_looked_before_anybody_could_write_have_one_effect,
    b30_repeat_at_another_gateway_is_a_replay,
    b30_waiter_at_another_gateway_gets_the_result,
    b33_starts_at_two_gateways_at_once_have_one_effect,
    b125_gateways_that_start_at_once_make_one_store,
);

const BUSY: &str = "while_running = { busy = true }";

async fn b25_equal_requests_at_once_have_one_effect(store: &Store) {
    const GROUPS: usize = 10;
    const ROUNDS_IN_A_GROUP: usize = 10;
    let upstream = Upstream::start().await;
    upstream.always(ROUTE, Reply::count().delay_before(Duration::from_millis(300)).body("placed"));
    let gateway = gateway_on(store, &upstream, "").await;
    for group in 0..GROUPS {
        let rounds = (0..ROUNDS_IN_A_GROUP).map(|round| {
            let request = order(&format!("k-{group}-{round}"));
            parallel::send_all(&request, 50, &[gateway.address()])
        });
        for round in rounds.collect::<Vec<_>>() {
            parallel::assert_one_result(&parallel::answers(round).await, b"placed");
        }
    }
    assert_eq!(upstream.count(ROUTE), (GROUPS * ROUNDS_IN_A_GROUP) as u64);
}

async fn b26_waiter_is_woken_by_the_end_of_the_attempt(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, r#"while_running = { wait = "15s" }"#).await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.received(ROUTE, 1).await;
    let second = parallel::send(order("k-1"), gateway.address());
    wait::pass_time(Duration::from_millis(500), "the second request is to be waiting").await;
    assert!(!second.is_finished(), "answered while the first one runs");
    gate.open();
    let opened = Instant::now();
    assert_replay(&second.await.unwrap(), &first.await.unwrap());
    assert!(opened.elapsed() < Duration::from_secs(1), "woken only after {:?}", opened.elapsed());
}

async fn b26_wait_ends_at_its_limit(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, r#"while_running = { wait = "1s" }"#).await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.received(ROUTE, 1).await;
    let second = gateway.send(&order("k-1")).await;
    assert_problem(&second, 409, "in-progress");
    assert!(second.time_to_end >= Duration::from_millis(950), "waited only {:?}", second.time_to_end);
    gate.open();
    assert_fresh(&first.await.unwrap(), 200);
}

async fn b26_without_waiting_the_second_is_told_at_once_when_to_come_again(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, BUSY).await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.received(ROUTE, 1).await;
    let second = gateway.send(&order("k-1")).await;
    assert_problem(&second, 409, "in-progress");
    assert!(second.retry_after().is_some_and(|seconds| (1..=30).contains(&seconds)), "{second}");
    gate.open();
    assert_fresh(&first.await.unwrap(), 200);
    assert_eq!(upstream.count(ROUTE), 1);
}

async fn b27_living_attempt_outlasts_its_lease(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, &format!("{BUSY}\nlease = \"1s\"")).await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.received(ROUTE, 1).await;
    wait::pass_time(Duration::from_secs(3), "the lease is to be over three times").await;
    assert_problem(&gateway.send(&order("k-1")).await, 409, "in-progress");
    gate.open();
    let first = first.await.unwrap();
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&order("k-1")).await, &first);
    assert_eq!(upstream.count(ROUTE), 1);
}

/// Two gateways on one store; the first one is frozen while its attempt stands before the closed gate, after
/// the effect.
async fn frozen_owner(
    store: &Store,
    upstream: &Upstream,
    lines: &str,
) -> (Gateway, Gateway, Gate, tokio::task::JoinHandle<onefold_testkit::Answer>) {
    let owner = gateway_on(store, upstream, &format!("{BUSY}\nlease = \"1s\"\n{lines}")).await;
    let other = owner.twin().await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_after(&gate));
    let first = parallel::send(order("k-1"), owner.address());
    upstream.reached(ROUTE, 1).await;
    owner.process().freeze();
    (owner, other, gate, first)
}

async fn b27_late_success_of_a_frozen_owner_changes_nothing_after_a_takeover(store: &Store) {
    let upstream = Upstream::start().await;
    let (owner, other, gate, first) = frozen_owner(store, &upstream, r#"on_stale = "resume""#).await;
    let second = wait::some(wait::DEADLINE, "the claim is taken over", async || {
        let answer = other.send(&order("k-1")).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(second.n(), 2, "declared resumable: the second attempt asks the upstream again");
    gate.open();
    owner.process().thaw();
    let _ = first.await.unwrap();
    let id = second.operation().expect("an operation");
    wait::until_within(wait::DEADLINE, "the late success is kept as evidence", async || {
        let record = other.admin_get(&format!("/v1/operations/{id}")).await.json();
        record["late_successes"].as_array().is_some_and(|late| !late.is_empty())
            || record["late_successes"].as_u64().is_some_and(|late| late > 0)
    })
    .await;
    for gateway in [&owner, &other] {
        assert_replay(&gateway.send(&order("k-1")).await, &second);
    }
    assert_eq!(upstream.count(ROUTE), 2, "no third execution");
}

async fn b27_word_of_a_thawed_owner_settles_the_unknown(store: &Store) {
    let upstream = Upstream::start().await;
    let (owner, other, gate, first) = frozen_owner(store, &upstream, "").await;
    wait::until_within(wait::DEADLINE, "the outcome is unknown", async || {
        other.send(&order("k-1")).await.problem().as_deref() == Some("outcome-unknown")
    })
    .await;
    gate.open();
    owner.process().thaw();
    let first = first.await.unwrap();
    assert_fresh(&first, 200);
    let second = wait::some(wait::DEADLINE, "the result is known", async || {
        let answer = other.send(&order("k-1")).await;
        answer.is_replay().then_some(answer)
    })
    .await;
    assert_replay(&second, &first);
    assert_eq!(upstream.count(ROUTE), 1);
}

async fn b28_losers_of_the_race_are_no_errors(store: &Store) {
    const ROUNDS: usize = 20;
    let upstream = Upstream::start().await;
    upstream.always(ROUTE, Reply::count().delay_before(Duration::from_millis(20)).body("placed"));
    let one = gateway_on(store, &upstream, "").await;
    let two = one.twin().await;
    for round in 0..ROUNDS {
        let request = order(&format!("k-{round}"));
        let sent = parallel::send_all(&request, 20, &[one.address(), two.address()]);
        parallel::assert_one_result(&parallel::answers(sent).await, b"placed");
    }
    assert_eq!(upstream.count(ROUTE), ROUNDS as u64);
    for gateway in [&one, &two] {
        let errors = gateway.metrics().await.sum("onefold_store_errors_total");
        assert!(errors == 0.0, "{errors} store errors");
    }
}

async fn b28_all_who_looked_before_anybody_could_write_have_one_effect(store: &Store) {
    let upstream = Upstream::start().await;
    upstream.always(ROUTE, Reply::count().body("placed"));
    let one = gateway_on(store, &upstream, "").await;
    let two = one.twin().await;
    for round in 0..5 {
        let held = store.hold_writes().await;
        let request = order(&format!("k-{round}"));
        let sent = parallel::send_all(&request, 20, &[one.address(), two.address()]);
        wait::pass_time(Duration::from_millis(50), "all are to look before one of them writes").await;
        assert_eq!(upstream.count(ROUTE), round, "nobody goes on without a claim");
        drop(held);
        parallel::assert_one_result(&parallel::answers(sent).await, b"placed");
    }
    assert_eq!(upstream.count(ROUTE), 5);
    for gateway in [&one, &two] {
        let errors = gateway.metrics().await.sum("onefold_store_errors_total");
        assert!(errors == 0.0, "{errors} store errors");
    }
}

async fn b30_repeat_at_another_gateway_is_a_replay(store: &Store) {
    let upstream = Upstream::start().await;
    let one = gateway_on(store, &upstream, "").await;
    let two = one.twin().await;
    let first = one.send(&order("k-1")).await;
    assert_fresh(&first, 200);
    assert_replay(&two.send(&order("k-1")).await, &first);
    assert_eq!(upstream.count(ROUTE), 1);
}

async fn b30_waiter_at_another_gateway_gets_the_result(store: &Store) {
    let upstream = Upstream::start().await;
    let one = gateway_on(store, &upstream, r#"while_running = { wait = "20s" }"#).await;
    let two = one.twin().await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let first = parallel::send(order("k-1"), one.address());
    upstream.received(ROUTE, 1).await;
    let second = parallel::send(order("k-1"), two.address());
    wait::pass_time(Duration::from_millis(500), "the second request is to be waiting").await;
    gate.open();
    assert_replay(&second.await.unwrap(), &first.await.unwrap());
    assert_eq!(upstream.count(ROUTE), 1);
}

async fn b33_starts_at_two_gateways_at_once_have_one_effect(store: &Store) {
    let upstream = Upstream::start().await;
    upstream.always(ROUTE, Reply::count().delay_before(Duration::from_secs(1)).body("placed"));
    let one = gateway_on(store, &upstream, "").await;
    let two = one.twin().await;
    let sent = parallel::send_all(&order("k-1"), 10, &[one.address(), two.address()]);
    parallel::assert_one_result(&parallel::answers(sent).await, b"placed");
    assert_eq!(upstream.count(ROUTE), 1);
}

async fn b125_gateways_that_start_at_once_make_one_store(store: &Store) {
    const ROUNDS: usize = 10;
    let upstream = Upstream::start().await;
    upstream.always(ROUTE, Reply::count().delay_before(Duration::from_millis(200)).body("placed"));
    let gateways = twins(setup_on(store, &upstream, ""), 3).await;
    let addresses: Vec<_> = gateways.iter().map(Gateway::address).collect();
    let rounds = (0..ROUNDS).map(|round| parallel::send_all(&order(&format!("k-{round}")), 50, &addresses));
    for round in rounds.collect::<Vec<_>>() {
        parallel::assert_one_result(&parallel::answers(round).await, b"placed");
    }
    assert_eq!(upstream.count(ROUTE), ROUNDS as u64);
    for gateway in &gateways {
        let errors = gateway.metrics().await.sum("onefold_store_errors_total");
        assert!(errors == 0.0, "{errors} store errors; {}", gateway.log());
    }
}
