//! Answers that are not the end.

use std::time::Duration;

use onefold_client::reqwest::Method;
use onefold_client::{ClientError, Downstream, Intentions, Profile, Stopped, Verdict};
use onefold_testkit::{Reply, Upstream};

use super::{ROUTE, Watched, client, key, keys, order, policy, request};

const SECOND: Duration = Duration::from_secs(1);

fn problem(code: &str, status: u16, more: &str) -> Reply {
    let body = format!(r#"{{"type":"https://onefold.dev/problems/{code}","code":"{code}"{more}}}"#);
    Reply::status(status).body(body).header("content-type", "application/problem+json")
}

#[tokio::test]
async fn b99_changed_parameters_need_a_new_key() {
    let server = Upstream::start().await;
    server.next(ROUTE, Reply::status(422).json(r#"{"error":"no capacity"}"#));
    let folder = tempfile::tempdir().unwrap();
    let intentions = Intentions::open(folder.path().join("journal")).unwrap();
    let client = client();
    let steps = Downstream::of_key("cloud", &key("launch-7"), &[7; 32]);
    let mut sent = Vec::new();
    for size in ["a", "b"] {
        let derived = steps.step("launch").input(size.as_bytes()).key();
        intentions.begin_with(&format!("launch-7/size {size}"), &derived).unwrap();
        sent.push((order(&client, &server.url(), &derived).await.verdict, derived));
    }
    assert_eq!(sent.iter().map(|one| one.0).collect::<Vec<_>>(), [Verdict::Rejected, Verdict::Succeeded]);
    assert_ne!(sent[0].1, sent[1].1);
    assert_eq!(sent[0].1, steps.step("launch").input(b"a").key(), "same input, same key");
    let seen = server.seen_at(ROUTE);
    assert_ne!(keys(&seen)[0], keys(&seen)[1]);
    let names: Vec<_> = intentions.open_intentions().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["launch-7/size a", "launch-7/size b"], "the record shows both");
}

#[tokio::test]
async fn b101_in_progress_ends_as_success_and_another_409_is_not_repeated() {
    let server = Upstream::start().await;
    for _ in 0..2 {
        server.next(ROUTE, problem("in-progress", 409, "").header("retry-after", "1"));
    }
    server.next(ROUTE, Reply::status(200).body("done").header("idempotent-replayed", "true"));
    let watched = Watched::default();
    let ended = order(&watched.client(), &server.url(), &key("payout-1")).await;
    assert!(ended.verdict == Verdict::Succeeded && ended.replayed);
    assert_eq!((ended.attempts, watched.times().len()), (3, 3));
    assert_eq!(keys(&server.seen_at(ROUTE)), [Some("\"payout-1\""); 3]);

    let server = Upstream::start().await;
    server.next(ROUTE, Reply::status(409).json(r#"{"error":"out of stock"}"#));
    let ended = order(&client(), &server.url(), &key("payout-2")).await;
    assert_eq!((ended.verdict, ended.attempts), (Verdict::Rejected, 1));
    assert_eq!(ended.answer.unwrap().body, r#"{"error":"out of stock"}"#);
}

#[tokio::test]
async fn b105_a_wait_is_never_shorter_than_asked() {
    for reply in [
        problem("in-progress", 409, "").header("retry-after", "1"),
        problem("too-many-keys", 429, "").header("retry-after", "1"),
        problem("store-unavailable", 503, "").header("retry-after", "1"),
        Reply::status(429)
            .header("date", "Tue, 14 Nov 2023 22:13:20 GMT")
            .header("retry-after", "Tue, 14 Nov 2023 22:13:21 GMT"),
    ] {
        let server = Upstream::start().await;
        server.next(ROUTE, reply);
        let watched = Watched::default();
        let ended = order(&watched.client(), &server.url(), &key("payout-1")).await;
        assert_eq!(ended.verdict, Verdict::Succeeded);
        let waits = watched.waits();
        assert!(waits.len() == 1 && waits[0] >= SECOND, "{waits:?}");
    }
}

#[tokio::test]
async fn b105_in_progress_gives_no_attempt_back() {
    let server = Upstream::start().await;
    server.next(ROUTE, Reply::count().close_before_effect());
    server.next(ROUTE, problem("in-progress", 409, r#","retry_after_ms":20"#));
    server.next(ROUTE, problem("in-progress", 409, r#","retry_after_ms":20"#));
    server.always(ROUTE, Reply::count().close_before_effect());
    let mut policy = policy();
    policy.attempts_max = 2;
    let client = Watched::default().builder().policy(policy).build().unwrap();
    let ended = order(&client, &server.url(), &key("payout-1")).await;
    assert_eq!((ended.verdict, ended.stopped), (Verdict::OutcomeUnknown, Stopped::AttemptsSpent));
    // The first, its one retry, and two that were asked for.
    assert_eq!(server.seen_at(ROUTE).len(), 4);
}

#[tokio::test]
async fn b108_an_answer_comes_through_unchanged() {
    let body = r#"{"error": "down for repair",  "until": 12}"#;
    let server = Upstream::start().await;
    server.always(ROUTE, Reply::status(503).json(body));
    let client = client();
    let unkeyed = client.send_without_key(request(&client, Method::POST, &server.url())).await.unwrap();
    assert_eq!((unkeyed.attempts, unkeyed.stopped), (1, Stopped::NotRepeatable));
    assert_eq!(unkeyed.answer.unwrap().body, body);
    let keyed = order(&client, &server.url(), &key("payout-1")).await;
    assert_eq!((keyed.attempts, keyed.verdict), (4, Verdict::OutcomeUnknown));
    assert_eq!(keyed.answer.unwrap().body, body);
    let put = client.send_without_key(request(&client, Method::PUT, &server.url())).await.unwrap();
    assert_eq!(put.attempts, 4);
}

#[tokio::test]
async fn the_operations_page_is_asked_with_the_callers_credentials_and_then_the_result_fetched() {
    let server = Upstream::start().await;
    let page = "/operations/ab";
    server
        .next(ROUTE, problem("outcome-unknown", 504, r#","operation":"/operations/ab","retry_after_ms":5"#));
    server.next(page, Reply::status(200).json(r#"{"state":"outcome_unknown","retry_after_ms":5}"#));
    server.next(page, Reply::status(200).json(r#"{"state":"succeeded"}"#));
    server.next(ROUTE, Reply::status(201).body("order 1").header("idempotent-replayed", "true"));
    let client = client();
    let mut order = request(&client, Method::POST, &server.url());
    order.headers_mut().insert("authorization", "Bearer alice".parse().unwrap());
    let ended = client.send(order, &key("payout-1")).await.unwrap();
    assert_eq!((ended.verdict, ended.attempts), (Verdict::Succeeded, 2));
    assert_eq!(ended.answer.unwrap().body, "order 1");
    let asked = server.seen_at(page);
    assert_eq!(asked.len(), 2);
    for asked in asked {
        assert_eq!((asked.method.as_str(), asked.header("authorization")), ("GET", Some("Bearer alice")));
        assert_eq!((asked.header("idempotency-key"), asked.body_bytes), (None, 0));
    }
}

#[tokio::test]
async fn conflict_and_expiry_are_never_repeated() {
    for (code, status, verdict) in
        [("key-conflict", 422, Verdict::Conflict), ("key-expired", 410, Verdict::Expired)]
    {
        let server = Upstream::start().await;
        server.always(
            ROUTE,
            problem(code, status, r#","safe_to_use_new_key":false"#).header("retry-after", "0"),
        );
        let ended = order(&client(), &server.url(), &key("payout-1")).await;
        assert_eq!((ended.verdict, ended.attempts), (verdict, 1));
        assert!(!ended.safe_to_use_new_key);
    }
}

#[tokio::test]
async fn each_provider_gets_its_key_where_it_looks_for_it() {
    let server = Upstream::start().await;
    for name in ["stripe", "paypal", "square"] {
        let profile = Profile::shipped(name).unwrap();
        let client = Watched::default().builder().profile(profile).build().unwrap();
        assert_eq!(order(&client, &server.url(), &key("payout-1")).await.verdict, Verdict::Succeeded);
    }
    let seen = server.seen_at(ROUTE);
    assert_eq!(seen[0].header("idempotency-key"), Some("payout-1"));
    assert_eq!(seen[1].header("paypal-request-id"), Some("payout-1"));
    assert_eq!(seen[2].body, r#"{"idempotency_key":"payout-1","item":"book"}"#);
    assert_eq!((seen[1].header("idempotency-key"), seen[2].header("idempotency-key")), (None, None));
    let github = Watched::default().builder().profile(Profile::shipped("github").unwrap()).build().unwrap();
    let refused = github.send(request(&github, Method::POST, &server.url()), &key("payout-1")).await;
    assert!(matches!(refused, Err(ClientError::TakesNoKey(_))));
    let stripe = Watched::default().builder().profile(Profile::shipped("stripe").unwrap()).build().unwrap();
    let mut twice = request(&stripe, Method::POST, &server.url());
    twice.headers_mut().insert("idempotency-key", "other".parse().unwrap());
    assert!(matches!(stripe.send(twice, &key("payout-1")).await, Err(ClientError::KeyTwice(_))));
    assert_eq!(server.seen().len(), 3, "what is refused is not sent");
}
