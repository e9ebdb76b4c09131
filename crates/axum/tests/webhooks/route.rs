//! The route, as its sender meets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use onefold::webhooks::{Encoding, HmacRule, KeyForm, Place, Scheme, Source, sign};

use crate::rig::{Shop, now_s, secret};

/// A body of these parts, that counts how many were asked for.
fn counted(parts: Vec<&'static str>, asked: &Arc<AtomicUsize>) -> Body {
    let asked = asked.clone();
    let parts = parts.into_iter().map(move |part| {
        asked.fetch_add(1, Ordering::SeqCst);
        Ok::<_, std::convert::Infallible>(Bytes::from_static(part.as_bytes()))
    });
    Body::from_stream(futures_util::stream::iter(parts))
}

#[tokio::test]
async fn a_message_is_handled_once_and_its_sender_learns_so() {
    let shop = Shop::open();
    shop.deliver("evt_1", "a").await.says("accepted", "evt_1");
    shop.deliver("evt_1", "a").await.says("duplicate", "evt_1");
    shop.deliver("evt_1", "b").await.is(409, "message-conflict");
    shop.deliver("evt_1", "b").await.is(409, "message-conflict");
    assert_eq!(shop.paid().await, 1);
}

#[tokio::test]
async fn what_the_headers_refuse_costs_no_byte_of_the_body_and_notes_nothing() {
    let shop = Shop::open();
    let asked = Arc::new(AtomicUsize::new(0));
    let good = sign("evt_1", now_s(), b"a", &[secret()]).unwrap();
    let late = sign("evt_1", now_s() - 400, b"a", &[secret()]).unwrap();
    for lines in [&good[..2], &late[..]] {
        shop.send(lines, counted(vec!["a"], &asked)).await.is(401, "signature-invalid");
    }
    let long = [&good[..], &[("content-length", "65".to_owned())]].concat();
    shop.send(&long, counted(vec!["a"], &asked)).await.is(413, "request-too-large");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    shop.deliver("evt_1", "a").await.says("accepted", "evt_1");
}

#[tokio::test]
async fn a_body_is_checked_as_it_comes_and_never_read_beyond_its_limit() {
    let shop = Shop::open();
    let asked = Arc::new(AtomicUsize::new(0));
    let good = sign("evt_1", now_s(), b"ab", &[secret()]).unwrap();
    shop.send(&good, counted(vec!["a", "x"], &asked)).await.is(401, "signature-invalid");
    let endless = vec!["0123456789abcdef"; 1000];
    shop.send(&good, counted(endless, &asked)).await.is(413, "request-too-large");
    assert_eq!(asked.load(Ordering::SeqCst), 2 + 5, "the fifth part is beyond 64 bytes");
    shop.send(&good, counted(vec!["a", "b"], &asked)).await.says("accepted", "evt_1");
    assert_eq!(shop.paid().await, 1);
}

#[tokio::test]
async fn a_handler_that_fails_is_asked_again_later_and_in_the_end_the_message_waits_for_a_person() {
    let shop = Shop::open();
    shop.fails.store(true, Ordering::SeqCst);
    for _ in 1..10 {
        let got = shop.deliver("evt_1", "a").await;
        assert_eq!(got.status, 503);
        assert_eq!(got.headers["content-type"], "application/problem+json");
        assert!(got.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    }
    shop.deliver("evt_1", "a").await.says("parked", "evt_1");
    shop.fails.store(false, Ordering::SeqCst);
    shop.deliver("evt_1", "a").await.says("parked", "evt_1");
    shop.deliver("evt_2", "b").await.says("accepted", "evt_2");
    assert_eq!(shop.paid().await, 1);
}

#[tokio::test]
async fn what_a_signed_delivery_does_not_say_is_told() {
    let rule = HmacRule {
        header: "x-signature".into(),
        encoding: Encoding::Hex,
        prefix: String::new(),
        key: KeyForm::Text,
        before_body: String::new(),
    };
    let id = Some(Place::Pointer("/id".into()));
    let nobody_signs = Source { id, ..Source::new(Scheme::None, []) };
    let shop = Shop::with(nobody_signs);
    for body in ["no JSON", r#"{"id": ""}"#, r#"{"no": "id"}"#] {
        shop.send(&[], Body::from(body)).await.is(400, "request-invalid");
    }
    shop.send(&[], Body::from(r#"{"id": "evt_1"}"#)).await.says("accepted", "evt_1");
    let shop = Shop::with(Source {
        id: Some(Place::Header("x-id".into())),
        ..Source::new(Scheme::Hmac(rule), [secret()])
    });
    let lines = [("x-id", "evt_1".to_owned()), ("x-signature", "00".repeat(32))];
    shop.send(&lines, Body::from("a")).await.is(401, "signature-invalid");
    assert_eq!(shop.paid().await, 0);
}
