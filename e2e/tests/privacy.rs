//! Section 16 of the cases: what is stored, shown and logged.

use base64::Engine as _;
use onefold_e2e::{ROUTE, assert_fresh, assert_problem, dump, gateway, order, order_of, setup};
use onefold_testkit::{Reply, Upstream};

#[tokio::test]
async fn b133_redacted_field_is_neither_stored_nor_replayed() {
    let upstream = Upstream::start().await;
    let redacted = r#"store_response = { mode = "full", redact = ["/_auth"] }"#;
    let gateway = gateway(&upstream, redacted).await;
    upstream.next(ROUTE, Reply::count().json(r#"{"ok":true,"note":"witness-of-the-dump","_auth":"tok-1"}"#));
    let first = gateway.send(&order("k-1")).await;
    assert_eq!(first.json()["_auth"], "tok-1", "{first}");
    let second = gateway.send(&order("k-1")).await;
    assert!(second.is_replay(), "{second}");
    let body = second.json();
    assert_eq!((&body["ok"], body.get("_auth")), (&true.into(), None), "{second}");
    let length = second.header("content-length").and_then(|length| length.parse().ok());
    assert!(length.is_none_or(|length: usize| length == second.body.len()), "{second}");
    assert!(dump::contains(gateway.setup(), "witness-of-the-dump"), "the dump shows what is stored");
    assert!(!dump::contains(gateway.setup(), "tok-1"), "in the store");
}

#[tokio::test]
async fn b134_secret_shown_once_is_not_shown_again() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, r#"store_response = { mode = "reference" }"#).await;
    let made = Reply::status(201).header("location", "/tokens/7").json(r#"{"secret":"once-4711"}"#);
    upstream.next(ROUTE, made);
    assert!(gateway.send(&order("k-1")).await.text().contains("once-4711"));
    let second = gateway.send(&order("k-1")).await;
    assert!(second.is_replay() && second.status == 201, "{second}");
    assert_eq!((second.header("location"), second.body.len()), (Some("/tokens/7"), 0), "{second}");
    assert!(!dump::contains(gateway.setup(), "once-4711"), "in the store");
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b134_kept_bodies_are_encrypted_once_a_key_is_configured() {
    let upstream = Upstream::start().await;
    let key = base64::engine::general_purpose::STANDARD.encode([7; 32]);
    let gateway = setup(&upstream, "")
        .section("[encryption]\nkeys = [\"env:TEST_STORE_KEY\"]")
        .env("TEST_STORE_KEY", &key)
        .start()
        .await;
    upstream.next(ROUTE, Reply::status(201).json(r#"{"secret":"sealed-4711"}"#));
    let first = gateway.send(&order("k-1")).await;
    onefold_e2e::assert_replay(&gateway.send(&order("k-1")).await, &first);
    assert!(!dump::contains(gateway.setup(), "sealed-4711"), "in clear in the store");
}

const ADDRESS: &str = "jane.doe@example.com";
const CARD: &str = "4242424242424242";

#[tokio::test]
async fn b135_keys_and_bodies_stand_in_no_log_metric_or_problem() {
    let upstream = Upstream::start().await;
    let gateway = setup(&upstream, "").arg("--log").arg("debug").start().await;
    let key = format!("\"{ADDRESS}\"");
    let body = format!("{{\"card\":\"{CARD}\",\"amount\":1}}");
    upstream.next(ROUTE, Reply::count().json(&body));
    assert_fresh(&gateway.send(&order_of(&key, &body)).await, 200);
    assert!(gateway.send(&order_of(&key, &body)).await.is_replay());
    let changed = format!("{{\"card\":\"{CARD}\",\"amount\":2}}");
    let conflict = gateway.send(&order_of(&key, &changed)).await;
    assert_problem(&conflict, 422, "key-conflict");
    let lost_key = "\"lost.doe@example.com\"";
    upstream.next(ROUTE, Reply::count().close_after_effect());
    let lost = gateway.send(&order_of(lost_key, &body)).await;
    let metrics = gateway.metrics().await;
    let log = gateway.log();
    assert!(!log.is_empty(), "debug level writes something");
    let shown = [
        ("log", log),
        ("metrics", metrics.text().to_owned()),
        ("conflict", conflict.text()),
        ("lost", lost.text()),
    ];
    for (place, text) in shown {
        for secret in [ADDRESS, "doe@example.com", CARD, "Bearer alice"] {
            assert!(!text.contains(secret), "{secret} in the {place}");
        }
    }
}

#[tokio::test]
async fn b135_labels_do_not_grow_with_the_keys() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let mut series = Vec::new();
    for round in 0..2 {
        for nth in 0..20 {
            let key = format!("k-{round}-{nth}");
            assert_fresh(&gateway.send(&order(&key)).await, 200);
            assert!(gateway.send(&order(&key)).await.is_replay());
        }
        series.push(gateway.metrics().await.series().len());
    }
    assert_eq!(series[0], series[1], "series before and after twenty more keys");
}
