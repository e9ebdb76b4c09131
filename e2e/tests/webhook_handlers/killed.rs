//! Gateways that are killed, or told to stop, while a webhook is on its way to its handler.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use onefold_e2e::parallel;
use onefold_e2e::webhooks::{HANDLER, all_delivered, event, inbox, setup, stripe, stripe_gateway};
use onefold_testkit::{Gate, Reply, ReservedAddress, Upstream, wait};

use crate::{ORDERED, key, one_key, state};

/// Longer than the lease of a message on its way to a handler with a second's time.
const AFTER_THE_LEASE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_gateway_killed_between_acceptance_and_forward_forwards_after_its_restart() {
    let reserved = ReservedAddress::take();
    let upstream = Upstream::start().await;
    let section = inbox(&upstream, "stripe", "stripe", "", "");
    let mut gateway =
        setup(&upstream).section(&section.replace(&upstream.url(), &reserved.url())).start().await;
    let delivery = stripe(event("evt_1", "sub_1", 1, "active"));
    assert_eq!(gateway.send(&delivery).await.status, 202);
    gateway.kill();
    let handler = Upstream::start_on(reserved);
    gateway.restart().await;
    // What was taken for sending is due again when its lease is over.
    wait::until_within(AFTER_THE_LEASE, "it is forwarded", async || handler.count(HANDLER) == 1).await;
    all_delivered(&gateway, 1).await;
    assert_eq!(state(&gateway.send(&delivery).await), "duplicate");
    assert_eq!(handler.count(HANDLER), 1);
}

#[tokio::test]
async fn a_gateway_killed_between_the_handlers_acceptance_and_its_mark_asks_again_under_the_same_key() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    upstream.next(HANDLER, Reply::count().hold_after(&gate));
    let mut gateway = stripe_gateway(&upstream, ", timeout = \"1s\"", "").await;
    let delivery = stripe(event("evt_1", "sub_1", 1, "active"));
    assert_eq!(gateway.send(&delivery).await.status, 202);
    // The handler has done it, and its answer is on its way.
    upstream.reached(HANDLER, 1).await;
    gateway.kill();
    gate.open();
    gateway.restart().await;
    assert_eq!(state(&gateway.send(&delivery).await), "duplicate", "known before and after");
    wait::until_within(AFTER_THE_LEASE, "it is asked again", async || upstream.count(HANDLER) == 2).await;
    all_delivered(&gateway, 1).await;
    assert!(one_key(&upstream), "by which the handler knows that it has done it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_a_gateway_loses_no_message_and_makes_no_second_one() {
    const MESSAGES: usize = 60;
    let upstream = Upstream::start().await;
    let mut gateway = stripe_gateway(&upstream, ", timeout = \"1s\"", ORDERED).await;
    for n in 0..MESSAGES {
        let delivery = stripe(event(&format!("evt_{n}"), &format!("sub_{}", n % 7), n as u64, "active"));
        let sent = parallel::send(delivery.clone(), gateway.address());
        if n % 10 == 9 {
            // While this one is on its way.
            gateway.kill();
            let _ = sent.await;
            gateway.restart().await;
            // As a sender does that was not answered.
            assert!(matches!(gateway.send(&delivery).await.status, 200 | 202));
        } else {
            assert_eq!(sent.await.expect("answered").status, 202);
        }
    }
    all_delivered(&gateway, MESSAGES).await;
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for seen in upstream.seen_at(HANDLER) {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).expect("JSON");
        keys.entry(body["id"].to_string()).or_default().insert(key(&seen).to_owned());
    }
    assert_eq!(keys.len(), MESSAGES, "none is lost");
    assert!(keys.values().all(|keys| keys.len() == 1), "one key for each: {keys:?}");
}

#[tokio::test]
async fn a_gateway_that_is_told_to_stop_waits_for_the_handler_and_notes_its_answer() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    upstream.always(HANDLER, Reply::count().hold_after(&gate));
    let mut gateway = stripe_gateway(&upstream, "", "").await;
    assert_eq!(gateway.send(&stripe(event("evt_1", "sub_1", 1, "active"))).await.status, 202);
    upstream.reached(HANDLER, 1).await;
    gateway.process().terminate();
    wait::until("it takes nothing more", || gateway.log().contains("stopping")).await;
    gate.open();
    assert_eq!(gateway.ended(wait::DEADLINE).await.code(), Some(0));
    gateway.restart().await;
    all_delivered(&gateway, 1).await;
    assert_eq!(upstream.count(HANDLER), 1);
}
