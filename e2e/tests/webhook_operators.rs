//! Webhooks in the hands of people: dead letters beyond the retention, and a redrive whose gateway is killed in the
//! middle of it. B67, B112.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use onefold_e2e::assert_problem;
use onefold_e2e::webhooks::now_s;
use onefold_e2e::webhooks::{
    HANDLER, SECRET, all_delivered, event, inbox, incoming, outgoing, setup_on, stripe, stripe_at,
};
use onefold_testkit::{Answer, Gateway, Reply, Request, Store, Upstream, on_each_store, wait};
use serde_json::{Value, json};

on_each_store!(
    b67_dead_letter_keeps_its_mark_beyond_the_retention_and_its_retry_needs_a_reason,
    b112_redrive_whose_gateway_is_killed_in_the_middle_and_that_is_pressed_again_acts_once_on_each,
);

async fn press(gateway: &Gateway, key: &str, body: &Value) -> Answer {
    let request = Request::post("/v1/outbox/redrives").header("idempotency-key", key).json(body.to_string());
    request.send(gateway.admin_address()).await
}

async fn dead(gateway: &Gateway, messages: usize) -> Vec<Value> {
    wait::until_within(Duration::from_secs(60), &format!("{messages} are dead"), async || {
        gateway.admin_get("/v1/outbox?state=dead&limit=1000").await.json()["items"].as_array().unwrap().len()
            == messages
    })
    .await;
    outgoing(gateway, &["--state", "dead", "--limit", "1000"]).await
}

async fn b67_dead_letter_keeps_its_mark_beyond_the_retention_and_its_retry_needs_a_reason(store: &Store) {
    let upstream = Upstream::start().await;
    upstream.next(HANDLER, Reply::status(500));
    let section = inbox(&upstream, "stripe", "stripe", ", attempts = 1", "retention = \"1s\"");
    let gateway = setup_on(store, &upstream).store("sweep_every = \"100ms\"").section(&section).start().await;
    let by = |id: &str| stripe_at("stripe", event(id, id, 1, "active"), SECRET, now_s());
    assert_eq!(gateway.send(&by("evt_dead")).await.status, 202);
    let letters = dead(&gateway, 1).await;
    // Another one is done, and forgotten when its time is over: the sweeper has been there.
    assert_eq!(gateway.send(&by("evt_done")).await.status, 202);
    wait::until_within(wait::DEADLINE, "the other mark is swept", async || {
        let marks = incoming(&gateway, &[]).await;
        upstream.seen_at(HANDLER).len() == 2 && marks.len() == 1 && marks[0]["message"] == "evt_dead"
    })
    .await;
    let id = letters[0]["id"].as_str().expect("an id");
    let without = json!({"ids": [id], "as": "send_again", "reason": " "});
    assert_problem(&press(&gateway, "press-1", &without).await, 400, "reason-missing");
    let with = json!({"ids": [id], "as": "send_again", "reason": "the handler is mended"});
    let pressed = press(&gateway, "press-2", &with).await;
    assert_eq!((pressed.status, &pressed.json()["done"]), (200, &json!([id])), "{pressed}");
    all_delivered(&gateway, 2).await;
    let seen = upstream.seen_at(HANDLER);
    let keys: BTreeSet<_> = seen.iter().map(|seen| seen.header("idempotency-key")).collect();
    assert_eq!((seen.len(), keys.len()), (3, 2), "the dead one twice, under its one key: {seen:?}");
}

async fn b112_redrive_whose_gateway_is_killed_in_the_middle_and_that_is_pressed_again_acts_once_on_each(
    store: &Store,
) {
    const ALL: usize = 100;
    /// So many have gone on when the gateway is killed.
    const GONE: usize = 40;
    let upstream = Upstream::start().await;
    upstream.always(HANDLER, Reply::status(500));
    let section = inbox(&upstream, "stripe", "stripe", ", attempts = 1, timeout = \"1s\"", "");
    let mut gateway = setup_on(store, &upstream).section(&section).start().await;
    for n in 0..ALL {
        assert_eq!(
            gateway.send(&stripe(event(&format!("evt_{n}"), &format!("{n}"), 1, "x"))).await.status,
            202
        );
    }
    let letters = dead(&gateway, ALL).await;
    let ids: Vec<_> = letters.iter().map(|letter| letter["id"].as_str().expect("an id").to_owned()).collect();
    upstream.always(HANDLER, Reply::count());
    let body = json!({"ids": ids, "as": "send_again", "reason": "the handler is mended"});
    let (admin, first) = (gateway.admin_address(), body.to_string());
    let pressed = tokio::spawn(async move {
        let request = Request::post("/v1/outbox/redrives").header("idempotency-key", "press-1").json(first);
        request.try_send(admin).await
    });
    wait::until_within(wait::DEADLINE, "some have gone", async || {
        let dead = gateway.admin_get("/v1/outbox?state=dead&limit=1000").await.json();
        dead["items"].as_array().expect("items").len() <= ALL - GONE
    })
    .await;
    gateway.kill();
    let before = upstream.seen_at(HANDLER).len();
    gateway.restart().await;
    drop(pressed);
    let number = |answer: &Answer, member: &str| answer.json()[member].as_array().expect("a list").len();
    let second = press(&gateway, "press-2", &body).await;
    assert_eq!(number(&second, "done") + number(&second, "passed_over"), ALL, "{second}");
    assert!(number(&second, "passed_over") >= GONE, "they had gone on: {second}");
    let third = press(&gateway, "press-3", &body).await;
    assert_eq!((number(&third, "done"), number(&third, "passed_over")), (0, ALL), "{third}");
    // What the killed gateway was sending goes on when its lease is over.
    wait::until_within(Duration::from_secs(90), "all are delivered", async || {
        let open = gateway.admin_get("/v1/outbox?state=delivered&limit=1000").await.json();
        open["items"].as_array().expect("items").len() == ALL
    })
    .await;
    for id in &ids {
        let shown = gateway.admin_get(&format!("/v1/outbox/{id}")).await.json();
        assert_eq!(shown["history"].as_array().expect("a history").len(), 1, "one act: {shown}");
    }
    // Each once, under one key; again only what the killed gateway was sending.
    let mut times: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
    let seen = upstream.seen_at(HANDLER);
    for (n, seen) in seen.iter().enumerate().skip(ALL) {
        let (times, by_killed) = times.entry(seen.header("idempotency-key").expect("a key")).or_default();
        *times += 1;
        *by_killed |= n < before;
    }
    assert_eq!(times.len(), ALL);
    for (key, (times, by_killed)) in times {
        assert!(times == 1 || (times == 2 && by_killed), "{times} times {key}");
    }
}
