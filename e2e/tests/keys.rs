//! Section 1 of the cases: key syntax and headers.

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway, order, order_of};
use onefold_testkit::{Request, Setup, Upstream};

#[tokio::test]
async fn b01_quoted_and_bare_key_are_one_operation() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let first = gateway.send(&order("\"k-1\"")).await;
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&order("k-1")).await, &first);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b01_parameters_of_the_key_are_ignored() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let first = gateway.send(&order("\"k-1\";v=2")).await;
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&order("\"k-1\"")).await, &first);
}

#[tokio::test]
async fn b01_strict_mode_refuses_the_bare_key() {
    let upstream = Upstream::start().await;
    let strict = r#"key = { header = "Idempotency-Key", required = true, syntax = "strict" }"#;
    let gateway = gateway(&upstream, strict).await;
    assert_problem(&gateway.send(&order("k-1")).await, 400, "key-invalid");
    assert_eq!(upstream.count(ROUTE), 0);
    assert_fresh(&gateway.send(&order("\"k-1\"")).await, 200);
}

#[tokio::test]
async fn b01_unparsable_quoted_key_never_reaches_the_upstream() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for broken in ["\"k-1", "\"k-1\"x", "\"k\\x\""] {
        assert_problem(&gateway.send(&order(broken)).await, 400, "key-invalid");
    }
    assert_eq!(upstream.count(ROUTE), 0);
}

#[tokio::test]
async fn b01_several_keys_are_ambiguous() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let several =
        [order("k-1").key("k-2"), order("k-1").key("k-1"), order("\"k-1\", \"k-2\""), order("k-1,k-2")];
    for request in several {
        assert_problem(&gateway.send(&request).await, 400, "key-ambiguous");
    }
    assert_eq!(upstream.count(ROUTE), 0);
}

#[tokio::test]
async fn b04_blank_key_is_refused() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for (blank, body) in [("", "1"), ("   ", "2"), ("\"\"", "3"), ("\"   \"", "4")] {
        assert_problem(&gateway.send(&order_of(blank, body)).await, 400, "key-invalid");
    }
    assert_eq!(upstream.count(ROUTE), 0);
}

#[tokio::test]
async fn b05_requests_without_key_share_nothing_where_it_is_optional() {
    let upstream = Upstream::start().await;
    let optional = r#"key = { header = "Idempotency-Key", required = false }"#;
    let gateway = gateway(&upstream, optional).await;
    for n in 1..=3 {
        let answer = gateway.send(&Request::post(ROUTE).bearer("alice").json("{}")).await;
        assert_fresh(&answer, 200);
        assert_eq!(answer.n(), n);
    }
    let records = gateway.admin_get("/v1/operations").await.json();
    assert_eq!(records["items"].as_array().map(Vec::len), Some(0), "{records}");
}

#[tokio::test]
async fn b05_missing_key_is_refused_where_it_is_required() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let answer = gateway.send(&Request::post(ROUTE).bearer("alice").json("{}")).await;
    assert_problem(&answer, 400, "key-missing");
    assert_eq!(upstream.count(ROUTE), 0);
}

#[tokio::test]
async fn b06_key_over_the_limit_is_refused_and_the_message_names_the_length() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for length in [1, 255] {
        assert_fresh(&gateway.send(&order(&"k".repeat(length))).await, 200);
    }
    for length in [256, 257, 8000] {
        let answer = gateway.send(&order(&"k".repeat(length))).await;
        assert_problem(&answer, 400, "key-invalid");
        assert!(answer.text().contains("255"), "names the limit: {answer}");
    }
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn b06_limit_counts_decoded_bytes() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let quoted = format!("\"{}\"", "\\\"".repeat(255));
    assert_fresh(&gateway.send(&order(&quoted)).await, 200);
}

#[tokio::test]
async fn b06_long_keys_that_differ_in_the_last_character_are_two_operations() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for last in ["a", "b"] {
        assert_fresh(&gateway.send(&order(&format!("{}{last}", "k".repeat(254)))).await, 200);
    }
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn b06_header_block_too_large_is_431() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let answer = gateway.send(&order("k-1").header("X-Big", "x".repeat(1024 * 1024))).await;
    assert_eq!(answer.status, 431, "{answer}");
    assert_eq!(upstream.count(ROUTE), 0);
}

#[tokio::test]
async fn b07_keys_that_differ_in_case_are_two_operations() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    assert_eq!(gateway.send(&order_of("Req-A", "[1]")).await.n(), 1);
    assert_eq!(gateway.send(&order_of("req-a", "[2]")).await.n(), 2);
}

#[tokio::test]
async fn b10_preflight_goes_through_untouched() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let preflight = Request::new("OPTIONS", ROUTE)
        .header("Origin", "https://shop.example")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "idempotency-key");
    for _ in 0..2 {
        assert_fresh(&gateway.send(&preflight).await, 200);
    }
    let seen = upstream.seen_at(ROUTE);
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].header("access-control-request-headers"), Some("idempotency-key"));
}

#[tokio::test]
async fn b10_safe_methods_with_a_key_are_not_replayed() {
    let upstream = Upstream::start().await;
    // Without operations every keyed POST and PATCH is one: the widest protection there is.
    let gateway = Setup::new(&upstream.url()).start().await;
    for method in ["GET", "GET", "HEAD", "HEAD", "OPTIONS"] {
        let request = Request::new(method, ROUTE).bearer("alice").key("k-1");
        assert_fresh(&gateway.send(&request).await, 200);
    }
    assert_eq!(upstream.seen_at(ROUTE).len(), 5);
}

const TWO_CARRIERS: &str =
    r#"key = { header = "Idempotency-Key", body = "/idempotency_key", required = true }"#;

#[tokio::test]
async fn b12_carriers_that_disagree_are_refused() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, TWO_CARRIERS).await;
    let answer = gateway.send(&order_of("h1", r#"{"idempotency_key":"b1"}"#)).await;
    assert_problem(&answer, 400, "key-ambiguous");
    assert_eq!(upstream.count(ROUTE), 0);
}

#[tokio::test]
async fn b12_key_in_the_body_alone_is_enough() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, TWO_CARRIERS).await;
    let body = "{ \"idempotency_key\" : \"b1\",\n \"quantity\": 1.0 }";
    let request = Request::post(ROUTE).bearer("alice").json(body);
    let first = gateway.send(&request).await;
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&request).await, &first);
    assert_eq!(upstream.seen_at(ROUTE)[0].body, body, "byte for byte");
}

#[tokio::test]
async fn b12_carriers_that_agree_are_one_key() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, TWO_CARRIERS).await;
    let body = r#"{"idempotency_key":"b1"}"#;
    let first = gateway.send(&order_of("\"b1\"", body)).await;
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&Request::post(ROUTE).bearer("alice").json(body)).await, &first);
}

#[tokio::test]
async fn b12_key_in_the_body_must_be_a_string() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, TWO_CARRIERS).await;
    for value in ["1", "null", "{}", "[\"b1\"]", "true"] {
        let request = Request::post(ROUTE).bearer("alice").json(format!("{{\"idempotency_key\":{value}}}"));
        assert_problem(&gateway.send(&request).await, 400, "key-invalid");
    }
    assert_eq!(upstream.count(ROUTE), 0);
}
