//! Section 6 of the cases: which errors are remembered.

use std::time::Duration;

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway, order, order_of, setup};
use onefold_testkit::{Gate, Reply, ReservedAddress, Setup, Upstream, wait};

fn broken() -> Reply {
    Reply::status(500).json(r#"{"error":"broken"}"#)
}

#[tokio::test]
async fn b54_server_error_is_an_unknown_outcome_by_default() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, broken());
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 500);
    assert_eq!(first.text(), r#"{"error":"broken"}"#);
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b54_server_error_is_replayed_where_it_is_final() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, r#"remember = { "5xx" = "final" }"#).await;
    upstream.next(ROUTE, broken());
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 500);
    assert_replay(&gateway.send(&order("k-1")).await, &first);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b54_server_error_frees_the_key_where_it_means_not_done() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, r#"remember = { "5xx" = "not_done" }"#).await;
    upstream.next(ROUTE, broken());
    upstream.next(ROUTE, Reply::status(201));
    assert_fresh(&gateway.send(&order("k-1")).await, 500);
    let second = gateway.send(&order("k-1")).await;
    assert_fresh(&second, 201);
    assert_replay(&gateway.send(&order("k-1")).await, &second);
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn b54_setting_for_one_status_beats_the_one_for_its_class() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, r#"remember = { "5xx" = "final", "501" = "not_done" }"#).await;
    upstream.next(ROUTE, Reply::status(501));
    assert_fresh(&gateway.send(&order("k-1")).await, 501);
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
}

#[tokio::test]
async fn b54_unreached_upstream_is_never_remembered() {
    let reserved = ReservedAddress::take();
    let gateway = Setup::new(&reserved.url()).operation("CreateOrder", "POST", ROUTE, "").start().await;
    for _ in 0..2 {
        assert_problem(&gateway.send(&order("k-1")).await, 502, "upstream-unreachable");
    }
    let upstream = Upstream::start_on(reserved);
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b54_service_unavailable_with_retry_after_means_not_done() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, Reply::status(503).header("retry-after", "1"));
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 503);
    assert_eq!(first.retry_after(), Some(1));
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn b55_rejection_is_remembered_by_default_and_a_changed_body_conflicts() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, Reply::status(400).json(r#"{"error":"wrong code"}"#));
    let first = gateway.send(&order_of("k-1", r#"{"code":1}"#)).await;
    assert_fresh(&first, 400);
    assert_replay(&gateway.send(&order_of("k-1", r#"{"code":1}"#)).await, &first);
    assert_problem(&gateway.send(&order_of("k-1", r#"{"code":2}"#)).await, 422, "key-conflict");
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b55_rejection_that_is_not_remembered_frees_the_key_for_a_changed_body() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, r#"remember = { "400" = "not_done" }"#).await;
    upstream.next(ROUTE, Reply::status(400));
    upstream.next(ROUTE, Reply::status(400));
    assert_fresh(&gateway.send(&order_of("k-1", r#"{"code":1}"#)).await, 400);
    assert_fresh(&gateway.send(&order_of("k-1", r#"{"code":1}"#)).await, 400);
    let right = gateway.send(&order_of("k-1", r#"{"code":2}"#)).await;
    assert_fresh(&right, 200);
    assert_replay(&gateway.send(&order_of("k-1", r#"{"code":2}"#)).await, &right);
    assert_problem(&gateway.send(&order_of("k-1", r#"{"code":1}"#)).await, 422, "key-conflict");
}

#[tokio::test]
async fn b55_answers_about_the_caller_and_not_the_request_free_the_key() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for status in [401, 403, 408, 421, 425, 431] {
        upstream.next(ROUTE, Reply::status(status));
        let key = format!("k-{status}");
        assert_fresh(&gateway.send(&order(&key)).await, status);
        assert_fresh(&gateway.send(&order(&key)).await, 200);
    }
}

#[tokio::test]
async fn b56_rate_limit_does_not_burn_the_key() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, Reply::status(429).header("retry-after", "1"));
    upstream.next(ROUTE, Reply::status(201));
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 429);
    assert_eq!(first.retry_after(), Some(1));
    let second = gateway.send(&order("k-1")).await;
    assert_fresh(&second, 201);
    assert_replay(&gateway.send(&order("k-1")).await, &second);
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn b58_upstream_that_finishes_after_the_time_out_is_not_asked_again() {
    let upstream = Upstream::start().await;
    let setup = setup(&upstream, "while_running = { busy = true }").upstream("timeout = \"1s\"");
    let gateway = setup.start().await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    assert_problem(&gateway.send(&order("k-1")).await, 504, "outcome-unknown");
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    gate.open();
    upstream.reached(ROUTE, 1).await;
    let late = gateway.send(&order("k-1")).await;
    let is_late_result = late.is_replay() && late.status == 200;
    assert!(is_late_result || late.problem().as_deref() == Some("outcome-unknown"), "{late}");
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b58_time_out_counts_the_silence_and_not_the_stream() {
    let upstream = Upstream::start().await;
    let gateway = setup(&upstream, "").upstream("timeout = \"1s\"").start().await;
    upstream.next(ROUTE, Reply::events(Duration::from_millis(200), 10));
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 200);
    assert!(first.time_to_end >= Duration::from_secs(2), "{first}");
}

#[tokio::test]
async fn b59_conflicts_of_the_upstream_pass_unchanged() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for status in [409, 422] {
        let body = format!("{{\"mine\":{status}}}");
        upstream.next(ROUTE, Reply::status(status).json(&body));
        let key = format!("k-{status}");
        let first = gateway.send(&order(&key)).await;
        assert_fresh(&first, status);
        assert_eq!((first.text(), first.header("content-type")), (body, Some("application/json")));
        assert_replay(&gateway.send(&order(&key)).await, &first);
    }
}

#[tokio::test]
async fn b59_problems_of_the_layer_say_what_they_are() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    assert_fresh(&gateway.send(&order_of("k-1", "[1]")).await, 200);
    let answer = gateway.send(&order_of("k-1", "[2]")).await;
    assert_problem(&answer, 422, "key-conflict");
    let document = answer.json();
    assert_eq!((&document["status"], &document["code"]), (&422.into(), &"key-conflict".into()), "{document}");
    assert!(document["title"].is_string() && document["detail"].is_string(), "{document}");
    assert!(answer.header("link").is_some_and(|link| link.contains("/.well-known/idempotency")), "{answer}");
}

#[tokio::test]
async fn exhausted_operation_stays_failed_and_says_so() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "max_attempts = 2\nremember = { \"5xx\" = \"not_done\" }").await;
    upstream.always(ROUTE, broken());
    for _ in 0..2 {
        assert_fresh(&gateway.send(&order("k-1")).await, 500);
    }
    let third = gateway.send(&order("k-1")).await;
    assert!(third.is_replay() && third.status == 500, "the previous result: {third}");
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn another_request_under_an_exhausted_key_conflicts() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "max_attempts = 1\nremember = { \"5xx\" = \"not_done\" }").await;
    upstream.always(ROUTE, broken());
    let first = gateway.send(&order_of("k-1", "[1]")).await;
    assert_fresh(&first, 500);
    assert_problem(&gateway.send(&order_of("k-1", "[2]")).await, 422, "key-conflict");
    assert_replay(&gateway.send(&order_of("k-1", "[1]")).await, &first);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn automatic_attempts_are_made_where_they_are_configured() {
    let upstream = Upstream::start().await;
    let lines = "retry_failed = { attempts = 3, backoff = \"50ms\" }\nremember = { \"503\" = \"not_done\" }";
    let gateway = gateway(&upstream, lines).await;
    upstream.next(ROUTE, Reply::status(503));
    assert!(matches!(gateway.send(&order("k-1")).await.status, 200 | 503));
    upstream.reached(ROUTE, 2).await;
    wait::until_within(wait::DEADLINE, "the second attempt's result is replayed", async || {
        let answer = gateway.send(&order("k-1")).await;
        answer.status == 200
    })
    .await;
    assert_eq!(upstream.count(ROUTE), 2);
}
