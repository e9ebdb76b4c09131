//! Protected routes as a caller meets them, in process.

#[path = "../examples/axum.rs"]
#[allow(dead_code, reason = "its main listens")]
mod example;

use axum::body::Body;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use onefold::axum::{Protected, Protection, Refused, Reply, ScopeSource};
use onefold::messages::Message;
use onefold::{Key, Onefold, Operation, Verdict};
use serde_json::{Value, json};
use tower::Service;

struct Shop {
    router: Router,
    path: std::path::PathBuf,
    onefold: Onefold,
    _directory: tempfile::TempDir,
}

struct Got {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    fn is_problem(&self, status: u16, code: &str) {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.header("idempotent-replayed"), None);
    }
}

impl Shop {
    fn of(app: impl FnOnce(Onefold) -> Router) -> Shop {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shop.db");
        let onefold = Onefold::sqlite(&path).unwrap();
        let shop = rusqlite::Connection::open(&path).unwrap();
        shop.execute_batch("CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT)").unwrap();
        Shop { router: app(onefold.clone()), path, onefold, _directory: directory }
    }

    fn open() -> Shop {
        Shop::of(example::app)
    }

    fn orders(&self) -> i64 {
        let shop = rusqlite::Connection::open(&self.path).unwrap();
        shop.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
    }

    async fn send(&self, request: Request<Body>) -> Got {
        let response = self.router.clone().call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Got { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    async fn post(&self, headers: &[(&str, &str)], body: &str) -> Got {
        let mut request = Request::post("/orders").header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    async fn get(&self, path: &str, token: Option<&str>) -> Got {
        let mut request = Request::get(path);
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        self.send(request.body(Body::empty()).unwrap()).await
    }
}

const ME: (&str, &str) = ("authorization", "Bearer me");
const K: (&str, &str) = ("idempotency-key", "\"k\"");
const LAMP: &str = r#"{"sku":"lamp"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn b51_a_duplicate_is_replayed_with_its_marker_and_the_operation() {
    let shop = Shop::open();
    let first = shop.post(&[ME, K], LAMP).await;
    assert_eq!((first.status, first.header("idempotent-replayed")), (201, None));
    for (key, body) in [("\"k\"", LAMP), ("k", " { \"sku\" : \"l\\u0061mp\" } ")] {
        let again = shop.post(&[ME, ("idempotency-key", key)], body).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, Some("true")));
        assert_eq!(again.body, first.body);
        assert_eq!(again.header("onefold-operation"), first.header("onefold-operation"));
    }
    assert_eq!(shop.orders(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_request_is_said_before_anything_runs() {
    let shop = Shop::open();
    shop.post(&[ME], LAMP).await.is_problem(400, "key-missing");
    shop.post(&[ME, ("idempotency-key", "")], LAMP).await.is_problem(400, "key-invalid");
    shop.post(&[ME, ("idempotency-key", &"x".repeat(256))], LAMP).await.is_problem(400, "key-invalid");
    shop.post(&[ME, K, ("idempotency-key", "\"other\"")], LAMP).await.is_problem(400, "key-ambiguous");
    shop.post(&[K], LAMP).await.is_problem(401, "scope-missing");
    let long = format!(r#"{{"sku":"{}"}}"#, "x".repeat(2 << 20));
    shop.post(&[ME, K], &long).await.is_problem(413, "request-too-large");
    assert_eq!(shop.orders(), 0);
    assert_eq!(shop.post(&[ME, K], LAMP).await.status, 201, "no claim was taken");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_request_under_the_key_is_a_conflict_and_another_caller_is_not() {
    let shop = Shop::open();
    shop.post(&[ME, K], LAMP).await;
    let conflict = shop.post(&[ME, K], r#"{"sku":"chair"}"#).await;
    conflict.is_problem(422, "key-conflict");
    assert_eq!(conflict.body["safe_to_use_new_key"], json!(false));
    assert_eq!(conflict.body["state"], json!("succeeded"));
    assert!(conflict.header("onefold-operation").is_some());
    let other = shop.post(&[("authorization", "Bearer you"), K], LAMP).await;
    assert_eq!((other.status, other.header("idempotent-replayed")), (201, None));
    assert_eq!(shop.orders(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_an_operation_is_its_callers_alone() {
    let shop = Shop::open();
    let placed = shop.post(&[ME, K], LAMP).await;
    let url = placed.header("onefold-operation").unwrap();
    let page = shop.get(url, Some("Bearer me")).await;
    assert_eq!((page.status, &page.body["state"]), (200, &json!("succeeded")));
    assert_eq!(page.body["resource"], json!({"type": "order", "id": "1"}));
    shop.get(url, Some("Bearer you")).await.is_problem(404, "not-found");
    shop.get(url, None).await.is_problem(401, "scope-missing");
    shop.get("/operations/42", Some("Bearer me")).await.is_problem(404, "not-found");
}

async fn place_maybe(
    State(onefold): State<Onefold>,
    protected: Option<Protected>,
    Json(body): Json<Value>,
) -> Result<Reply<Value>, Refused> {
    let call = match protected {
        Some(protected) => protected.call(),
        None => Operation::new("Keyless", "nothing").call(onefold::Scope::shared(), fresh(), &body)?,
    };
    let ends = body["ends"].as_str().unwrap_or_default().to_owned();
    let done = onefold.atomic(call, move |tx| {
        tx.execute("INSERT INTO orders (sku) VALUES ('lamp')", [])?;
        match ends.as_str() {
            "rejected" => Ok(Verdict::rejected(json!("no such article"))),
            "not done" => Err("a secret of the supplier".into()),
            _ => Ok(Verdict::succeeded(Value::Null)),
        }
    });
    Ok(Reply::of(done.await?))
}

fn fresh() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("keyless-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn shared_with_optional_key(onefold: Onefold) -> Router {
    let operation = Operation::new("PlaceOrder", "one order row for each key");
    let protection = Protection::new(&onefold, operation, [ScopeSource::Shared]).key_optional();
    Router::new().route("/orders", post(place_maybe).layer(protection)).with_state(onefold)
}

#[tokio::test(flavor = "multi_thread")]
async fn b05_requests_without_a_key_never_share_a_record() {
    let shop = Shop::of(shared_with_optional_key);
    for _ in 0..3 {
        let placed = shop.post(&[], "{}").await;
        assert_eq!((placed.status, placed.header("idempotent-replayed")), (200, None));
        assert_eq!(placed.header("onefold-operation"), None);
    }
    assert_eq!(shop.orders(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_replayed_and_what_was_not_done_frees_the_key_and_shows_no_error() {
    let shop = Shop::of(shared_with_optional_key);
    for replayed in [None, Some("true")] {
        let refused = shop.post(&[K], r#"{"ends":"rejected"}"#).await;
        assert_eq!((refused.status, refused.header("idempotent-replayed")), (422, replayed));
        assert_eq!(refused.body, json!("no such article"));
    }
    let free = ("idempotency-key", "free");
    for _ in 0..2 {
        let failed = shop.post(&[free], r#"{"ends":"not done"}"#).await;
        assert_eq!((failed.status, &failed.body["safe_to_use_new_key"]), (503, &json!(true)));
        assert!(failed.header("retry-after").is_some() && !failed.body.to_string().contains("secret"));
    }
    assert_eq!(shop.post(&[free], "{}").await.status, 200, "another request may take the key");
    assert_eq!(shop.orders(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b38_a_caller_that_hangs_up_cancels_nothing() {
    let shop = Shop::open();
    let request = || {
        let request = Request::post("/orders").header("content-type", "application/json");
        request.header(ME.0, ME.1).header(K.0, K.1).body(Body::from(LAMP)).unwrap()
    };
    for polls in 0..40 {
        let mut answering = Box::pin(shop.router.clone().call(request()));
        for _ in 0..polls {
            tokio::select! { biased; _ = &mut answering => break, () = tokio::task::yield_now() => {} }
        }
    }
    assert_eq!(shop.send(request()).await.status, 201);
    assert_eq!(shop.orders(), 1);
    shop.onefold.engine().flush_counters().await;
}

/// Its orders make an event each, under the caller's key.
fn with_events(onefold: Onefold) -> Router {
    async fn place(State(onefold): State<Onefold>, protected: Protected) -> Result<Reply<bool>, Refused> {
        let call = protected.call();
        let event = Message {
            id: Key::new(format!("{}/placed", call.key())).unwrap(),
            destination: "events".into(),
            address: String::new(),
            ordering_key: None,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let placed = onefold.atomic(call, move |tx| Ok(Verdict::succeeded(tx.enqueue(&event)?)));
        Ok(Reply::of(placed.await?))
    }
    let place_order = Operation::new("PlaceOrder", "one event for each key");
    let protection = Protection::new(&onefold, place_order, [ScopeSource::Credential]);
    Router::new().route("/orders", post(place).layer(protection)).with_state(onefold)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_has_the_callers_key_and_its_messages_name_their_origin() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let shop = Shop::of(with_events);
    let origin = [("onefold-correlation-id", "flow-7"), ("traceparent", TRACE)];
    let placed = shop.post(&[ME, K, origin[0], origin[1]], LAMP).await;
    assert_eq!(placed.status, 200, "{}", placed.body);
    let id = placed.header("onefold-operation").unwrap().rsplit('/').next().unwrap();
    let event = shop.onefold.outgoing("k/placed").await.unwrap().unwrap();
    let expected = [origin[0], ("onefold-causation-id", id), origin[1]];
    assert_eq!(event.message.headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let malformed = [ME, ("idempotency-key", "other"), ("traceparent", "00-made-up-01")];
    assert_eq!(shop.post(&malformed, LAMP).await.status, 200);
    let event = shop.onefold.outgoing("other/placed").await.unwrap().unwrap();
    let names: Vec<_> = event.message.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["onefold-causation-id"]);
}
