//! Webhooks into an inbox, as their sender meets the route.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use onefold::inbox::Handled;
use onefold::webhooks::{Encoding, HmacRule, KeyForm, Place, Scheme, Secret, Source, sign};
use onefold::{BoxError, Onefold, SqliteTx};
use onefold_axum::Webhooks;
use serde_json::{Value, json};
use tower::Service;

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

struct Shop {
    router: Router,
    onefold: Onefold,
    fails: Arc<AtomicBool>,
    _directory: tempfile::TempDir,
}

struct Got {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

fn secret() -> Secret {
    Secret::new(KEY, KeyForm::Whsec).unwrap()
}

fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

fn insert(tx: &mut SqliteTx<'_>, body: &[u8]) -> Result<Handled, BoxError> {
    tx.execute("INSERT INTO paid VALUES (?1)", [std::str::from_utf8(body)?])?;
    Ok(Handled::Done)
}

impl Shop {
    fn open() -> Shop {
        Shop::with(Source::new(Scheme::Standard, [secret()]))
    }

    fn with(source: Source) -> Shop {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shop.db");
        let onefold = Onefold::sqlite(&path).unwrap();
        rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE paid (body TEXT)").unwrap();
        let fails = Arc::new(AtomicBool::new(false));
        let told = fails.clone();
        let consumer = onefold.inbox("orders").consumer(move |tx, message| {
            let handled = insert(tx, &message.body)?;
            if told.load(Ordering::SeqCst) { Err("a bug of the business".into()) } else { Ok(handled) }
        });
        let webhooks = Webhooks::new(&onefold, "shop", source, consumer).delivery_bytes_max(64);
        let router = Router::new().route("/hooks", webhooks.route());
        Shop { router, onefold, fails, _directory: directory }
    }

    async fn paid(&self) -> i64 {
        let count = self
            .onefold
            .read(|own| Ok(own.query_row("SELECT count(*) FROM paid", [], |row| row.get::<_, i64>(0))?));
        count.await.unwrap()
    }

    async fn send(&self, lines: &[(&str, String)], body: Body) -> Got {
        let mut request = Request::post("/hooks");
        for (name, value) in lines {
            request = request.header(*name, value);
        }
        let response = self.router.clone().call(request.body(body).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Got { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    async fn deliver(&self, id: &str, body: &str) -> Got {
        let signed = sign(id, now_s(), body.as_bytes(), &[secret()]).unwrap();
        self.send(&signed, Body::from(body.to_owned())).await
    }
}

impl Got {
    fn is(&self, status: u16, code: &str) {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{}", self.body);
    }

    fn says(&self, state: &str, id: &str) {
        assert_eq!((self.status, &self.body), (200, &json!({"state": state, "message_id": id})));
    }
}

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
