//! Section 4 of the cases: crashes, hung-up callers, lost connections, on each kind of store; behind a pooler it is
//! B125.
//!
//! B34 (effect and record in one database) belongs to the library, which the gateway is not; it has no twin.

use std::time::Duration;

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway_on, order, parallel};
use onefold_testkit::{
    Connection, Gate, Gateway, H2Connection, RawUpstream, Reply, Setup, Step, Store, Upstream, on_each_store,
    wait,
};

on_each_store!(
    b35_claim_without_an_owner_is_busy_until_its_lease_ends_and_then_unknown,
    b35_finished_record_has_an_expiry,
    b36_unknown_outcome_is_never_repeated_and_the_answer_warns_of_a_new_key,
    b36_unknown_outcome_is_listed_and_can_be_settled_as_done,
    b36_unknown_outcome_settled_as_not_done_frees_the_key,
    b38_hanging_up_does_not_cancel_the_operation,
    b38_resetting_an_http2_stream_does_not_cancel_the_operation,
    b39_request_whose_answer_was_lost_is_not_sent_again,
    b39_reused_connection_that_closes_after_the_request_is_not_retried,
    b39_reused_connection_that_was_closed_meanwhile_loses_no_key,
    b39_upstream_that_closes_before_reading_is_not_asked_twice,
    b125_crash_of_one_gateway_is_seen_by_the_other,
    callers_of_both_versions_share_an_operation,
);

const BUSY: &str = "while_running = { busy = true }";

/// A gateway that was killed after the effect and before the answer, and runs again.
async fn killed_after_the_effect(store: &Store, upstream: &Upstream, lines: &str) -> Gateway {
    let mut gateway = gateway_on(store, upstream, &format!("{BUSY}\n{lines}")).await;
    upstream.next(ROUTE, Reply::count().hold_after(&Gate::closed()));
    let address = gateway.address();
    let first = tokio::spawn(async move { order("k-1").try_send(address).await });
    upstream.reached(ROUTE, 1).await;
    gateway.kill();
    assert!(first.await.unwrap().is_err(), "nobody was there to answer");
    gateway.restart().await;
    gateway
}

async fn outcome_unknown(gateway: &Gateway) -> onefold_testkit::Answer {
    wait::some(wait::DEADLINE, "the outcome is unknown", async || {
        let answer = gateway.send(&order("k-1")).await;
        (answer.problem().as_deref() == Some("outcome-unknown")).then_some(answer)
    })
    .await
}

async fn b35_claim_without_an_owner_is_busy_until_its_lease_ends_and_then_unknown(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = killed_after_the_effect(store, &upstream, "lease = \"5s\"\nretention = \"1d\"").await;
    let early = gateway.send(&order("k-1")).await;
    assert_problem(&early, 409, "in-progress");
    assert!(early.retry_after().is_some_and(|seconds| (1..=5).contains(&seconds)), "{early}");
    let late = outcome_unknown(&gateway).await;
    assert_problem(&late, 409, "outcome-unknown");
    assert_eq!(upstream.count(ROUTE), 1);
}

async fn b35_finished_record_has_an_expiry(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, "retention = \"1d\"").await;
    let id = gateway.send(&order("k-1")).await.operation().expect("an operation");
    let record = gateway.admin_get(&format!("/v1/operations/{id}")).await.json();
    assert!(record["expires_at"].is_string(), "{record}");
}

async fn b36_unknown_outcome_is_never_repeated_and_the_answer_warns_of_a_new_key(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = killed_after_the_effect(store, &upstream, "lease = \"1s\"").await;
    let answer = outcome_unknown(&gateway).await;
    assert_problem(&answer, 409, "outcome-unknown");
    assert_eq!(answer.json()["safe_to_use_new_key"], false, "{answer}");
    assert_eq!(upstream.count(ROUTE), 1);
}

async fn b36_unknown_outcome_is_listed_and_can_be_settled_as_done(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = killed_after_the_effect(store, &upstream, "lease = \"1s\"").await;
    let id = outcome_unknown(&gateway).await.operation().expect("an operation");
    let listed = gateway.operations_in("outcome_unknown").await;
    assert!(listed.iter().any(|item| item["id"] == id.as_str()), "{id} in {listed:?}");
    resolve(&gateway, &id, "succeeded").await;
    let answer = gateway.send(&order("k-1")).await;
    assert_problem(&answer, 409, "response-not-kept");
    assert_eq!(answer.json()["state"], "succeeded", "{answer}");
    assert_eq!(upstream.count(ROUTE), 1);
    assert!(gateway.operations_in("outcome_unknown").await.is_empty());
}

async fn b36_unknown_outcome_settled_as_not_done_frees_the_key(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = killed_after_the_effect(store, &upstream, "lease = \"1s\"").await;
    let id = outcome_unknown(&gateway).await.operation().expect("an operation");
    resolve(&gateway, &id, "failed").await;
    let answer = gateway.send(&order("k-1")).await;
    assert_fresh(&answer, 200);
    assert_eq!(answer.n(), 2);
}

async fn resolve(gateway: &Gateway, id: &str, verdict: &str) {
    let why = ["--reason", "asked the warehouse", "--evidence", "ticket 7"];
    let mut args = vec!["operations", "resolve", id, "--as", verdict];
    args.extend(why);
    gateway.command(&args).await.assert_code(0);
}

async fn b125_crash_of_one_gateway_is_seen_by_the_other(store: &Store) {
    let upstream = Upstream::start().await;
    let mut owner = gateway_on(store, &upstream, &format!("{BUSY}\nlease = \"1s\"")).await;
    let other = owner.twin().await;
    upstream.next(ROUTE, Reply::count().hold_after(&Gate::closed()));
    let address = owner.address();
    let first = tokio::spawn(async move { order("k-1").try_send(address).await });
    upstream.reached(ROUTE, 1).await;
    owner.kill();
    assert!(first.await.unwrap().is_err(), "nobody was there to answer");
    let id = outcome_unknown(&other).await.operation().expect("an operation");
    assert_eq!(upstream.count(ROUTE), 1);
    resolve(&other, &id, "failed").await;
    assert_fresh(&other.send(&order("k-1")).await, 200);
}

async fn b38_hanging_up_does_not_cancel_the_operation(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, "").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    connection.send(&order("k-1")).await.unwrap();
    upstream.received(ROUTE, 1).await;
    connection.hang_up();
    finishes_unheard(&upstream, &gateway, &gate).await;
}

async fn b38_resetting_an_http2_stream_does_not_cancel_the_operation(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, "").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let connection = H2Connection::open(gateway.address()).await;
    connection.reset_when(&order("k-1"), upstream.received(ROUTE, 1)).await;
    finishes_unheard(&upstream, &gateway, &gate).await;
}

async fn finishes_unheard(upstream: &Upstream, gateway: &Gateway, gate: &Gate) {
    wait::pass_time(Duration::from_millis(300), "the gateway is to notice that the caller is gone").await;
    gate.open();
    let answer = wait::some(wait::DEADLINE, "the result is recorded", async || {
        let answer = gateway.send(&order("k-1")).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert!(answer.is_replay(), "{answer}");
    assert_replay(&gateway.send(&order("k-1")).await, &answer);
    assert_eq!(upstream.count(ROUTE), 1);
}

async fn b39_request_whose_answer_was_lost_is_not_sent_again(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, "").await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    let answer = gateway.send(&order("k-1")).await;
    assert!(matches!(answer.status, 502 | 504), "{answer}");
    assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"), "{answer}");
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    assert_eq!(upstream.seen_at(ROUTE).len(), 1);
}

const PLACED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nplaced";

fn before_raw(store: &Store, upstream: &RawUpstream) -> Setup {
    store.setup(&upstream.url()).operation("CreateOrder", "POST", ROUTE, "")
}

async fn b39_reused_connection_that_closes_after_the_request_is_not_retried(store: &Store) {
    let upstream = RawUpstream::start(vec![vec![Step::Request, Step::send(PLACED), Step::Request]]).await;
    let gateway = before_raw(store, &upstream).start().await;
    for nth in 1..=10 {
        let answer = gateway.send(&order(&format!("k-{nth}"))).await;
        assert_eq!(upstream.count(), nth, "sent again");
        match answer.problem() {
            None => assert_fresh(&answer, 200),
            Some(problem) => {
                assert!(matches!(answer.status, 502 | 504), "{answer}");
                assert_eq!(problem, "outcome-unknown", "{answer}");
                return;
            }
        }
    }
    panic!("no connection was used twice");
}

async fn b39_reused_connection_that_was_closed_meanwhile_loses_no_key(store: &Store) {
    let closes = vec![Step::Request, Step::send(PLACED)];
    let upstream = RawUpstream::start(vec![closes]).await;
    let gateway = before_raw(store, &upstream).start().await;
    for nth in 1..=5 {
        // Each request may meet a connection that is just being closed. It is sent once, or not at all.
        let answer = gateway.send(&order(&format!("k-{nth}"))).await;
        match answer.problem().as_deref() {
            None => assert_fresh(&answer, 200),
            Some("upstream-unreachable") => {
                assert_fresh(&gateway.send(&order(&format!("k-{nth}"))).await, 200);
            }
            Some(problem) => assert_eq!(problem, "outcome-unknown", "{answer}"),
        }
    }
    assert!(upstream.count() <= 5, "more requests than keys");
}

async fn b39_upstream_that_closes_before_reading_is_not_asked_twice(store: &Store) {
    let upstream = RawUpstream::start(vec![vec![Step::Head, Step::Reset]]).await;
    let gateway = before_raw(store, &upstream).start().await;
    let answer = gateway.send(&order("k-1")).await;
    assert!(matches!(answer.status, 502 | 504), "{answer}");
    assert_eq!(answer.problem().as_deref(), Some("outcome-unknown"), "{answer}");
    assert_eq!(upstream.connections(), 1);
}

async fn callers_of_both_versions_share_an_operation(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, "").await;
    let by_h2 = H2Connection::open(gateway.address()).await.exchange(&order("k-1")).await.unwrap();
    assert_fresh(&by_h2, 200);
    let by_h1 = parallel::send(order("k-1"), gateway.address()).await.unwrap();
    assert!(by_h1.is_replay() && by_h1.body == by_h2.body, "{by_h1}");
}
