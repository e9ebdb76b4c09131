//! A shop that takes webhooks into its inbox, and what their sender gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use onefold::axum::Webhooks;
use onefold::inbox::{Handled, InboxQuery, InboxState};
use onefold::webhooks::{KeyForm, Scheme, Secret, Source, sign};
use onefold::{BoxError, Key, Onefold, OperationId, SqliteTx};
use onefold_testkit::wait;
use serde_json::{Value, json};
use tower::Service;

const KEY: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

pub struct Shop {
    pub router: Router,
    pub onefold: Onefold,
    pub fails: Arc<AtomicBool>,
    _directory: tempfile::TempDir,
}

pub struct Got {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

pub fn secret() -> Secret {
    Secret::new(KEY, KeyForm::Whsec).unwrap()
}

pub fn now_s() -> i64 {
    // clock: a sender signs the time
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

fn insert(tx: &mut SqliteTx<'_>, body: &[u8]) -> Result<Handled, BoxError> {
    tx.execute("INSERT INTO paid VALUES (?1)", [std::str::from_utf8(body)?])?;
    Ok(Handled::Done)
}

impl Shop {
    pub fn open() -> Shop {
        Shop::with(Source::new(Scheme::Standard, [secret()]))
    }

    pub fn with(source: Source) -> Shop {
        Shop::of(source, 64)
    }

    /// Whose deliveries have at most so many bytes.
    pub fn of(source: Source, bytes_max: usize) -> Shop {
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
        let webhooks = Webhooks::new("shop", source, consumer).delivery_bytes_max(bytes_max);
        let router = Router::new().route("/hooks", webhooks.route());
        Shop { router, onefold, fails, _directory: directory }
    }

    pub async fn paid(&self) -> i64 {
        let count = self
            .onefold
            .read(|own| Ok(own.query_row("SELECT count(*) FROM paid", [], |row| row.get::<_, i64>(0))?));
        count.await.unwrap()
    }

    pub async fn send(&self, lines: &[(&str, String)], body: Body) -> Got {
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

    async fn parked_or_done(&self, id: &str) -> (OperationId, InboxState) {
        let named = InboxQuery { message: Some(Key::new(id).unwrap()), limit: 10, ..InboxQuery::default() };
        let entries = self.onefold.messages().list_incoming(named).await.unwrap().entries;
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        (entry.id, entry.state)
    }

    /// A person takes it out of the dead list, and its consumer handles it from there.
    pub async fn goes_on_as(&self, id: &str) -> InboxState {
        let (found, state) = self.parked_or_done(id).await;
        assert_eq!(state, InboxState::Parked);
        self.onefold.messages().unpark(&[found], "ann", "mended").await.unwrap();
        wait::some(wait::DEADLINE, "it is handled", async || {
            let (_, state) = self.parked_or_done(id).await;
            (state != InboxState::Failing).then_some(state)
        })
        .await
    }

    pub async fn deliver(&self, id: &str, body: &str) -> Got {
        let signed = sign(id, now_s(), body.as_bytes(), &[secret()]).unwrap();
        self.send(&signed, Body::from(body.to_owned())).await
    }
}

impl Got {
    pub fn is(&self, status: u16, code: &str) {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{}", self.body);
    }

    pub fn says(&self, state: &str, id: &str) {
        assert_eq!((self.status, &self.body), (200, &json!({"state": state, "message_id": id})));
    }
}
