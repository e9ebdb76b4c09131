//! Section 2 of the cases: what makes two requests equal.

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway, order, order_of};
use onefold_testkit::{Gate, Reply, Request, Setup, Upstream};

/// Sends two bodies under one key; hands back the second answer, and the first for comparison.
async fn second_body(
    lines: &str,
    first: &str,
    second: &str,
) -> (onefold_testkit::Answer, onefold_testkit::Answer) {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, lines).await;
    let original = gateway.send(&order_of("k-1", first)).await;
    assert_fresh(&original, 200);
    let repeated = gateway.send(&order_of("k-1", second)).await;
    assert_eq!(upstream.count(ROUTE), 1, "never a second execution");
    (repeated, original)
}

const ORDERED: &str = r#"{"a":1,"b":{"x":1,"y":2}}"#;
const REORDERED: &str = r#"{"b":{"y":2,"x":1},"a":1}"#;

#[tokio::test]
async fn b13_order_of_members_does_not_matter() {
    let (repeated, original) = second_body("", ORDERED, REORDERED).await;
    assert_replay(&repeated, &original);
}

#[tokio::test]
async fn b13_raw_mode_compares_bytes() {
    let (repeated, _) = second_body(r#"fingerprint = { body = "bytes" }"#, ORDERED, REORDERED).await;
    assert_problem(&repeated, 422, "key-conflict");
}

#[tokio::test]
async fn b14_differences_in_meaning_stay_differences() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let pairs = [
        ("[1,2]", "[2,1]"),
        (r#"{"a":null}"#, "{}"),
        (r#"{"a":1}"#, r#"{"a":"1"}"#),
        (r#"{"a":true}"#, r#"{"a":"true"}"#),
        (r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#),
        (r#"{"a":"é"}"#, r#"{"a":"e\u0301"}"#),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
    ];
    for (nth, (first, second)) in pairs.iter().enumerate() {
        let key = format!("k-{nth}");
        assert_fresh(&gateway.send(&order_of(&key, first)).await, 200);
        let repeated = gateway.send(&order_of(&key, second)).await;
        assert_eq!(repeated.problem().as_deref(), Some("key-conflict"), "{first} and {second}: {repeated}");
        assert_eq!(repeated.status, 422);
    }
    assert_eq!(upstream.count(ROUTE), pairs.len() as u64);
}

#[tokio::test]
async fn b14_spellings_of_one_meaning_are_equal() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let pairs = [
        (r#"{"a":1.0}"#, r#"{"a":1}"#),
        (r#"{"a":1e2}"#, r#"{"a":100}"#),
        (r#"{"a":"\u00e9"}"#, r#"{"a":"é"}"#),
        (r#"{"a":-0}"#, r#"{ "a" : 0 }"#),
    ];
    for (nth, (first, second)) in pairs.iter().enumerate() {
        let key = format!("k-{nth}");
        let original = gateway.send(&order_of(&key, first)).await;
        let repeated = gateway.send(&order_of(&key, second)).await;
        assert!(repeated.is_replay(), "{first} and {second}: {repeated}");
        assert_replay(&repeated, &original);
    }
    assert_eq!(upstream.count(ROUTE), pairs.len() as u64);
}

#[tokio::test]
async fn b16_query_is_part_of_the_request() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let entry = |target: &str| Request::post(target).bearer("alice").key("k-1").json("{}");
    assert_fresh(&gateway.send(&entry("/orders?dry=1")).await, 200);
    assert_problem(&gateway.send(&entry("/orders")).await, 422, "key-conflict");
}

#[tokio::test]
async fn b16_order_of_different_parameters_does_not_matter_that_of_repeated_ones_does() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let entry = |key: &str, query: &str| {
        Request::post(&format!("{ROUTE}?{query}")).bearer("alice").key(key).json("{}")
    };
    let first = gateway.send(&entry("k-1", "a=1&b=2")).await;
    assert_replay(&gateway.send(&entry("k-1", "b=2&a=1")).await, &first);
    assert_fresh(&gateway.send(&entry("k-2", "a=1&a=2")).await, 200);
    assert_problem(&gateway.send(&entry("k-2", "a=2&a=1")).await, 422, "key-conflict");
}

#[tokio::test]
async fn b17_two_routes_under_one_key_are_two_operations() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream.url()).start().await;
    for route in ["/projects", "/applications"] {
        upstream.next(route, Reply::status(201).json(format!("{{\"made by\":\"{route}\"}}")));
        let answer = gateway.send(&Request::post(route).bearer("alice").key("k-1").json("{}")).await;
        assert_fresh(&answer, 201);
        assert!(answer.text().contains(route), "{answer}");
    }
}

#[tokio::test]
async fn b17_methods_under_one_key_are_two_operations() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream.url()).start().await;
    for method in ["POST", "PATCH"] {
        let request = Request::new(method, "/projects/1").bearer("alice").key("k-1").json("{}");
        assert_fresh(&gateway.send(&request).await, 200);
    }
    assert_eq!(upstream.count("/projects/1"), 2);
}

#[tokio::test]
async fn b17_two_resources_of_one_route_conflict() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream.url()).operation("PutProject", "PUT", "/projects/{id}", "");
    let gateway = setup.start().await;
    let put = |target: &str| Request::new("PUT", target).bearer("alice").key("k-1").json("{}");
    assert_fresh(&gateway.send(&put("/projects/1")).await, 200);
    assert_problem(&gateway.send(&put("/projects/2")).await, 422, "key-conflict");
    assert_eq!(upstream.count("/projects/2"), 0);
}

#[tokio::test]
async fn b18_conflict_is_answered_at_once_while_the_first_request_runs() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "while_running = { busy = true }").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let address = gateway.address();
    let first = tokio::spawn(async move { order_of("k-1", "[1]").send(address).await });
    upstream.received(ROUTE, 1).await;
    assert_problem(&gateway.send(&order_of("k-1", "[2]")).await, 422, "key-conflict");
    assert_problem(&gateway.send(&order_of("k-1", "[1]")).await, 409, "in-progress");
    gate.open();
    assert_fresh(&first.await.unwrap(), 200);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b21_conflict_tells_an_accepted_original_from_an_unknown_one() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    let lost = gateway.send(&order_of("k-lost", "[1]")).await;
    assert_eq!(lost.problem().as_deref(), Some("outcome-unknown"), "{lost}");
    assert_fresh(&gateway.send(&order_of("k-done", "[1]")).await, 200);
    let mut states = Vec::new();
    for key in ["k-lost", "k-done"] {
        let edited = gateway.send(&order_of(key, "[2]")).await;
        assert_problem(&edited, 422, "key-conflict");
        states.push(edited.json()["state"].as_str().unwrap_or_default().to_owned());
    }
    assert_eq!(states, ["outcome_unknown", "succeeded"]);
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn b22_conflict_leaves_no_trace_in_any_cache() {
    let upstream = Upstream::start().await;
    let one = gateway(&upstream, "").await;
    let two = one.twin().await;
    let first = one.send(&order_of("k-1", "[1]")).await;
    for gateway in [&one, &two, &one] {
        assert_problem(&gateway.send(&order_of("k-1", "[2]")).await, 422, "key-conflict");
        assert_problem(&gateway.send(&order_of("k-1", "[2]")).await, 422, "key-conflict");
        assert_replay(&gateway.send(&order_of("k-1", "[1]")).await, &first);
    }
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn ignored_fields_do_not_count() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, r#"fingerprint = { body = "json", ignore = ["/sent_at"] }"#).await;
    let first = gateway.send(&order_of("k-1", r#"{"a":1,"sent_at":"10:00"}"#)).await;
    let second = gateway.send(&order_of("k-1", r#"{"a":1,"sent_at":"10:05"}"#)).await;
    assert_replay(&second, &first);
    assert_problem(&gateway.send(&order_of("k-1", r#"{"a":2}"#)).await, 422, "key-conflict");
}

#[tokio::test]
async fn multipart_boundary_does_not_count() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let form = |boundary: &str, content: &str| {
        let body = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\r\n\
             {content}\r\n--{boundary}--\r\n"
        );
        let media_type = format!("multipart/form-data; boundary={boundary}");
        Request::post(ROUTE).bearer("alice").key("k-1").header("Content-Type", media_type).body(body)
    };
    let first = gateway.send(&form("one", "text")).await;
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&form("another", "text")).await, &first);
    assert_problem(&gateway.send(&form("one", "other")).await, 422, "key-conflict");
}

#[tokio::test]
async fn spelling_of_the_path_does_not_evade_protection() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let first = gateway.send(&order("k-1")).await;
    for spelling in ["/orders/", "/%6Frders", "//orders", "/x/../orders", "/./orders", "/orders;v=1"] {
        let mut request = order("k-1");
        request.target = spelling.to_owned();
        let answer = gateway.send(&request).await;
        assert!(answer.is_replay(), "{spelling}: {answer}");
        assert_replay(&answer, &first);
    }
    assert_eq!(upstream.total(), 1);
}
