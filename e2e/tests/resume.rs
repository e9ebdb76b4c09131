//! What follows a lost outcome under `on_stale = "resume"`: the first attempt may have taken effect, so that nothing
//! a later attempt failed to do says that nothing happened. Only a success, a rule of `remember` or a person settles.

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway, order, order_of, setup};
use onefold_testkit::{Answer, Gate, Gateway, Reply, Request, ReservedAddress, Upstream, wait};

const RESUME: &str = "on_stale = \"resume\"\nforward_key = \"derived\"\nwhile_running = { busy = true }";

/// The first attempt takes effect, and its answer is lost.
async fn lose_the_first_answer(upstream: &Upstream, gateway: &Gateway) -> Answer {
    upstream.next(ROUTE, Reply::status(201).close_after_effect());
    let lost = gateway.send(&order("k-1")).await;
    assert_problem(&lost, 502, "outcome-unknown");
    lost
}

/// The operation waits for its next attempt: no other request may take the key, and no new key is safe.
async fn assert_open(gateway: &Gateway, answer: &Answer) {
    let place = answer.header("onefold-operation").unwrap_or_else(|| panic!("no operation: {answer}"));
    let page = gateway.send(&Request::get(place).bearer("alice")).await.json();
    assert_eq!(page["state"], "processing", "{page}");
    assert_eq!(page["safe_to_use_new_key"], false, "{page}");
    let changed = gateway.send(&order_of("k-1", r#"{"sku":"another"}"#)).await;
    assert_problem(&changed, 422, "key-conflict");
}

/// The next retry reaches the upstream and is the result.
async fn assert_settles(gateway: &Gateway) {
    let answer = gateway.send(&order("k-1")).await;
    assert_fresh(&answer, 201);
    assert_replay(&gateway.send(&order("k-1")).await, &answer);
}

fn keys(upstream: &Upstream) -> Vec<String> {
    let seen = upstream.seen_at(ROUTE);
    seen.iter().map(|seen| seen.header("idempotency-key").unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn refusal_of_a_resuming_attempt_leaves_the_operation_open() {
    let refusals = [
        Reply::status(429).header("retry-after", "1"),
        Reply::status(503).header("retry-after", "1"),
        Reply::status(409).json(r#"{"error":"the first request is still running"}"#),
        Reply::status(401),
        Reply::status(422),
    ];
    for refusal in refusals {
        let upstream = Upstream::start().await;
        let gateway = gateway(&upstream, RESUME).await;
        lose_the_first_answer(&upstream, &gateway).await;
        upstream.next(ROUTE, refusal);
        upstream.next(ROUTE, Reply::status(201));
        let refused = gateway.send(&order("k-1")).await;
        assert!(matches!(refused.status, 401 | 409 | 422 | 429 | 503), "{refused}");
        assert_fresh(&refused, refused.status);
        assert_open(&gateway, &refused).await;
        assert_settles(&gateway).await;
        let keys = keys(&upstream);
        assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    }
}

#[tokio::test]
async fn resuming_attempt_that_reaches_nobody_leaves_the_operation_open() {
    let first = Upstream::start().await;
    let mut gateway = gateway(&first, RESUME).await;
    lose_the_first_answer(&first, &gateway).await;
    let reserved = ReservedAddress::take();
    gateway.restart_with(|setup| setup.upstream_url(&reserved.url())).await;
    for _ in 0..2 {
        let refused = gateway.send(&order("k-1")).await;
        assert_problem(&refused, 502, "upstream-unreachable");
        assert_eq!(refused.json()["safe_to_use_new_key"], false, "{refused}");
        assert_open(&gateway, &refused).await;
    }
    let second = Upstream::start_on(reserved);
    second.next(ROUTE, Reply::status(201));
    assert_settles(&gateway).await;
    assert_eq!(keys(&second), keys(&first));
}

#[tokio::test]
async fn refusal_after_a_crash_leaves_the_operation_open() {
    let upstream = Upstream::start().await;
    let mut gateway = gateway(&upstream, &format!("{RESUME}\nlease = \"1s\"")).await;
    upstream.next(ROUTE, Reply::status(201).hold_after(&Gate::closed()));
    let address = gateway.address();
    let first = tokio::spawn(async move { order("k-1").try_send(address).await });
    upstream.reached(ROUTE, 1).await;
    gateway.kill();
    assert!(first.await.unwrap().is_err(), "nobody was there to answer");
    gateway.restart().await;
    upstream.next(ROUTE, Reply::status(429).header("retry-after", "1"));
    upstream.next(ROUTE, Reply::status(201));
    let refused = wait::some(wait::DEADLINE, "the lease is over", async || {
        let answer = gateway.send(&order("k-1")).await;
        (answer.problem().as_deref() != Some("in-progress")).then_some(answer)
    })
    .await;
    assert_fresh(&refused, 429);
    assert_open(&gateway, &refused).await;
    assert_settles(&gateway).await;
}

#[tokio::test]
async fn resuming_attempt_is_not_repeated_by_itself() {
    let upstream = Upstream::start().await;
    let retries = "retry_failed = { attempts = 3, backoff = \"10ms\" }";
    let gateway = gateway(&upstream, &format!("{RESUME}\n{retries}")).await;
    lose_the_first_answer(&upstream, &gateway).await;
    upstream.next(ROUTE, Reply::status(429));
    upstream.next(ROUTE, Reply::status(201));
    let refused = gateway.send(&order("k-1")).await;
    assert_fresh(&refused, 429);
    assert_open(&gateway, &refused).await;
    assert_settles(&gateway).await;
}

#[tokio::test]
async fn rule_says_what_a_refusal_of_a_resuming_attempt_means() {
    let upstream = Upstream::start().await;
    let rule = r#"remember = { "409" = "final" }"#;
    let gateway = setup(&upstream, &format!("{RESUME}\n{rule}")).start().await;
    lose_the_first_answer(&upstream, &gateway).await;
    upstream.next(ROUTE, Reply::status(409).json(r#"{"error":"sold out"}"#));
    let refused = gateway.send(&order("k-1")).await;
    assert_fresh(&refused, 409);
    assert_replay(&gateway.send(&order("k-1")).await, &refused);
    assert_eq!(upstream.seen_at(ROUTE).len(), 2);
}

#[tokio::test]
async fn operation_whose_last_attempt_was_lost_is_listed_for_a_person() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, &format!("{RESUME}\nmax_attempts = 2")).await;
    for nth in 1..=2 {
        lose_the_first_answer(&upstream, &gateway).await;
        let listed = gateway.operations_in("outcome_unknown").await.len();
        assert_eq!(listed, nth - 1, "only the last attempt leaves an unknown outcome");
    }
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    assert_eq!(keys(&upstream).len(), 2);
    let id = gateway.operations_in("outcome_unknown").await[0]["id"].as_str().expect("an id").to_owned();
    let shown = gateway.admin_get(&format!("/v1/operations/{id}")).await.json();
    let lost = shown["history"].as_array().expect("a history");
    let attempts: Vec<_> = lost.iter().map(|event| (&event["kind"], event["attempt"].as_u64())).collect();
    assert_eq!(
        attempts,
        [(&"outcome_unknown".into(), Some(1)), (&"outcome_unknown".into(), Some(2))],
        "{shown}"
    );
}
