//! Which deliveries are one message, and which of two messages about one thing is handled.

use std::sync::atomic::Ordering;

use axum::body::Body;
use hmac::{Hmac, KeyInit, Mac};
use onefold::inbox::InboxState;
use onefold::webhooks::{KeyForm, Place, Scheme, Secret, Source};
use onefold_testkit::recordings;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::rig::{Got, Shop, now_s, secret};

const STRIPE: &str = "whsec_of_the_test";

fn pointer(text: &str) -> Option<Place> {
    Some(Place::Pointer(text.into()))
}

fn stripe() -> Source {
    Source::new(Scheme::Stripe, [Secret::new(STRIPE, KeyForm::Text).unwrap()])
}

/// A shop whose sender says what its messages are about.
fn versioned() -> Shop {
    let places = Source { entity: pointer("/product"), version: pointer("/version"), ..stripe() };
    Shop::of(places, 1 << 20)
}

/// The line that signs this body now.
fn signed(body: &str) -> (&'static str, String) {
    let time = now_s();
    let mut mac = Hmac::<Sha256>::new_from_slice(STRIPE.as_bytes()).unwrap();
    mac.update(format!("{time}.{body}").as_bytes());
    let signature: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    ("stripe-signature", format!("t={time},v1={signature}"))
}

async fn deliver(shop: &Shop, body: &str) -> Got {
    shop.send(&[signed(body)], Body::from(body.to_owned())).await
}

/// A failed delivery of Stripe's comes again with what it changes by design, and in another notation.
#[tokio::test]
async fn a_redelivery_of_stripes_is_the_message_that_it_was() {
    let shop = Shop::of(stripe(), 1 << 20);
    let recorded = recordings::all("provider-webhooks/stripe", "json").into_iter();
    let mut objects: Vec<Value> = recorded.map(|(_, body)| serde_json::from_slice(&body).unwrap()).collect();
    objects.push(json!({"object": {"id": "ch_1", "amount": 1000}}));
    for (number, data) in objects.iter().enumerate() {
        let id = format!("evt_{number}");
        let mut event = json!({"id": id, "pending_webhooks": 2, "request": "req_1", "data": data});
        shop.fails.store(true, Ordering::SeqCst);
        assert_eq!(deliver(&shop, &event.to_string()).await.status, 503);
        shop.fails.store(false, Ordering::SeqCst);
        event["pending_webhooks"] = json!(1);
        event["request"] = json!({"id": "req_2", "idempotency_key": "resent"});
        let pretty = serde_json::to_string_pretty(&event).unwrap();
        deliver(&shop, &pretty).await.says("accepted", &id);
        deliver(&shop, &event.to_string()).await.says("duplicate", &id);
        event["data"]["changed"] = json!(true);
        deliver(&shop, &event.to_string()).await.is(409, "message-conflict");
    }
    assert_eq!(shop.paid().await, objects.len() as i64);
}

#[tokio::test]
async fn json_is_compared_by_what_it_says_and_everything_else_byte_for_byte() {
    let shop = Shop::open();
    shop.deliver("evt_1", r#"{"amount": 10, "to": "ann"}"#).await.says("accepted", "evt_1");
    shop.deliver("evt_1", r#"{"to":"ann","amount":10.0}"#).await.says("duplicate", "evt_1");
    shop.deliver("evt_1", r#"{"to":"ann","amount":11}"#).await.is(409, "message-conflict");
    shop.deliver("evt_2", "to=ann").await.says("accepted", "evt_2");
    shop.deliver("evt_2", "to=ann ").await.is(409, "message-conflict");
    assert_eq!(shop.paid().await, 2);
}

#[tokio::test]
async fn what_the_source_ignores_makes_no_other_message() {
    let source = Source::new(Scheme::Standard, [secret()]).ignoring(&["/attempt"]).unwrap();
    let shop = Shop::with(source);
    shop.deliver("evt_1", r#"{"attempt": 1, "to": "ann"}"#).await.says("accepted", "evt_1");
    shop.deliver("evt_1", r#"{"attempt": 2, "to": "ann"}"#).await.says("duplicate", "evt_1");
    shop.deliver("evt_1", r#"{"attempt": 2, "to": "bob"}"#).await.is(409, "message-conflict");
}

fn event(id: &str, version: i64) -> String {
    json!({"id": id, "product": "lamp", "version": version}).to_string()
}

#[tokio::test]
async fn of_one_thing_only_what_is_newer_is_handled() {
    let shop = versioned();
    deliver(&shop, &event("evt_2", 2)).await.says("accepted", "evt_2");
    deliver(&shop, &event("evt_1", 1)).await.says("superseded", "evt_1");
    deliver(&shop, &event("evt_0", 2)).await.says("superseded", "evt_0");
    deliver(&shop, &event("evt_1", 1)).await.says("duplicate", "evt_1");
    let other = json!({"id": "evt_4", "product": "book", "version": 1}).to_string();
    deliver(&shop, &other).await.says("accepted", "evt_4");
    deliver(&shop, &event("evt_3", 3)).await.says("accepted", "evt_3");
    assert_eq!(shop.paid().await, 3);
}

/// A version is one of the entity that was signed with it: a header that anybody can write makes no other one of it.
#[tokio::test]
async fn a_version_without_an_entity_supersedes_nothing() {
    let shop = versioned();
    deliver(&shop, &event("evt_2", 2)).await.says("accepted", "evt_2");
    for (id, version) in [("evt_4", 4), ("evt_1", 1)] {
        let body = json!({"id": id, "version": version}).to_string();
        let unsigned = ("onefold-ordering-key", "lamp".to_owned());
        shop.send(&[signed(&body), unsigned], Body::from(body)).await.says("accepted", id);
    }
    deliver(&shop, &event("evt_3", 3)).await.says("accepted", "evt_3");
    assert_eq!(shop.paid().await, 4);
}

/// A version counts with its handler's writes.
#[tokio::test]
async fn a_handler_that_fails_leaves_no_version() {
    let shop = versioned();
    shop.fails.store(true, Ordering::SeqCst);
    assert_eq!(deliver(&shop, &event("evt_2", 2)).await.status, 503);
    shop.fails.store(false, Ordering::SeqCst);
    deliver(&shop, &event("evt_1", 1)).await.says("accepted", "evt_1");
    deliver(&shop, &event("evt_2", 2)).await.says("accepted", "evt_2");
}

/// What was parked keeps its version, and what its sender says of it.
#[tokio::test]
async fn what_a_person_lets_go_on_is_superseded_where_a_newer_one_was_handled() {
    let shop = versioned();
    shop.fails.store(true, Ordering::SeqCst);
    for _ in 1..10 {
        assert_eq!(deliver(&shop, &event("evt_1", 1)).await.status, 503);
    }
    deliver(&shop, &event("evt_1", 1)).await.says("parked", "evt_1");
    shop.fails.store(false, Ordering::SeqCst);
    deliver(&shop, &event("evt_2", 2)).await.says("accepted", "evt_2");
    assert_eq!(shop.goes_on_as("evt_1").await, InboxState::Superseded);
    assert_eq!(shop.paid().await, 1);
}
