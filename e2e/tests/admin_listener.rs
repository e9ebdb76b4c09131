//! What the admin listener refuses: web pages that a browser was led to it by, and answers that no caller could be
//! given. A refusal changes nothing.

use onefold_e2e::{ROUTE, assert_problem, gateway, order};
use onefold_testkit::{Gateway, Reply, Request, Upstream};
use serde_json::{Value, json};

/// A gateway with one operation whose outcome is unknown, and where operators ask for it.
async fn with_unknown(upstream: &Upstream) -> (Gateway, String) {
    let gateway = gateway(upstream, "").await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    let lost = gateway.send(&order("k-1")).await;
    assert_problem(&lost, 502, "outcome-unknown");
    let place = format!("/v1/operations/{}", lost.operation().expect("an operation"));
    (gateway, place)
}

/// The record, but for its age.
async fn record(gateway: &Gateway, place: &str) -> Value {
    let answer = gateway.admin_get(place).await;
    assert_eq!(answer.status, 200, "{answer}");
    let mut record = answer.json();
    record.as_object_mut().expect("a record").retain(|name, _| name != "age_ms");
    record
}

fn verdict() -> Value {
    json!({"as": "failed", "reason": "asked the warehouse", "evidence": "ticket 7"})
}

#[tokio::test]
async fn request_under_a_foreign_name_is_refused() {
    let upstream = Upstream::start().await;
    let (gateway, place) = with_unknown(&upstream).await;
    let admin = gateway.admin_address();
    for host in ["evil.example", "evil.example:7070", "localhost.evil.example", "127.0.0.1.evil.example", ""]
    {
        for target in ["/v1/operations", "/metrics", "/healthz", place.as_str()] {
            let answer = Request::get(target).header("Host", host).send(admin).await;
            assert_problem(&answer, 403, "forbidden");
        }
        let resolve = Request::post(&format!("{place}/resolve")).header("Host", host);
        assert_problem(&resolve.json(verdict().to_string()).send(admin).await, 403, "forbidden");
    }
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
}

#[tokio::test]
async fn request_of_a_web_page_is_refused() {
    let upstream = Upstream::start().await;
    let (gateway, place) = with_unknown(&upstream).await;
    let admin = gateway.admin_address();
    for origin in ["https://evil.example", "null", &format!("http://{admin}")] {
        let read = Request::get("/v1/operations").header("Origin", origin).send(admin).await;
        assert_problem(&read, 403, "forbidden");
        let resolve = Request::post(&format!("{place}/resolve")).header("Origin", origin);
        assert_problem(&resolve.json(verdict().to_string()).send(admin).await, 403, "forbidden");
    }
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
}

#[tokio::test]
async fn own_names_are_answered() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let port = gateway.admin_address().port();
    for name in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"] {
        for host in [name.to_owned(), format!("{name}:{port}")] {
            let answer = Request::get("/v1/operations").header("Host", &host);
            assert_eq!(answer.send(gateway.admin_address()).await.status, 200, "{host}");
        }
    }
}

#[tokio::test]
async fn headers_that_no_result_has_resolve_nothing() {
    let upstream = Upstream::start().await;
    let (gateway, place) = with_unknown(&upstream).await;
    let before = record(&gateway, &place).await;
    for (name, value) in [
        ("Content-Length", "3"),
        ("connection", "close"),
        ("Transfer-Encoding", "chunked"),
        ("keep-alive", "timeout=5"),
        ("upgrade", "h2c"),
        ("set-cookie", "session=1"),
        ("idempotent-replayed", "true"),
        ("onefold-operation", "/operations/1"),
        ("not a name", "1"),
        ("", "1"),
        ("x-split\r\nset-cookie", "1"),
        ("x-split", "1\r\nset-cookie: session=1"),
        ("x-nul", "\0"),
    ] {
        let response =
            json!({"status": 201, "headers": [["location", "/orders/1"], [name, value]], "body": "placed"});
        let mut body = verdict();
        body["as"] = "succeeded".into();
        body["response"] = response;
        let answer = gateway.admin_post(&format!("{place}/resolve"), &body).await;
        assert_problem(&answer, 400, "request-invalid");
    }
    assert_eq!(record(&gateway, &place).await, before);
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
}
