//! A service with one route that asks a supplier for something, over whichever store.

use std::net::SocketAddr;
use std::path::Path;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use onefold::axum::{Protected, Protection, Refused, Reply, ScopeSource};
use onefold::{AtomicStore, Engine, Onefold, Operation, Verdict};
use onefold_testkit::{Answer, Request, Supplier};
use serde_json::{Value, json};

/// Where the service takes orders.
pub const ROUTE: &str = "/orders";

struct App<S: AtomicStore> {
    onefold: Onefold<S>,
    supplier: Supplier,
}

impl<S: AtomicStore> Clone for App<S> {
    fn clone(&self) -> Self {
        App { onefold: self.onefold.clone(), supplier: self.supplier.clone() }
    }
}

/// The body's member `value` is the result; without it, how often the supplier was asked.
async fn place<S: AtomicStore + 'static>(
    State(app): State<App<S>>,
    protected: Protected,
    Json(mut body): Json<Value>,
) -> Result<Reply<Value>, Refused> {
    let supplier = app.supplier.clone();
    let done = app.onefold.reserved(protected.call(), move |_| async move {
        let nth = supplier.ask().await;
        let value = body.get_mut("value").map(Value::take);
        Ok(Verdict::succeeded(value.unwrap_or_else(|| json!({"n": nth}))))
    });
    Ok(Reply::of(done.await?))
}

fn routes<S: AtomicStore + 'static>(app: &App<S>, operation: &Operation) -> Router {
    let mount = || {
        let protection = Protection::new(&app.onefold, operation.clone(), [ScopeSource::Credential]);
        Router::new().route(ROUTE, post(place::<S>).layer(protection)).with_state(app.clone())
    };
    // The same once more, with a middleware of its own.
    mount().nest("/again", mount())
}

/// A running service: its own connections, flights and memory.
pub struct Service {
    pub address: SocketAddr,
    pub engine: Engine,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Service {
    pub async fn start(url: &str, supplier: &Supplier, operation: &Operation) -> Service {
        let (router, engine) = match url.strip_prefix("sqlite:") {
            Some(path) => app(Onefold::sqlite(Path::new(path)).unwrap(), supplier, operation),
            None => app(Onefold::postgres(url).await.unwrap(), supplier, operation),
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Service { address, engine, serving }
    }

    pub async fn send(&self, request: &Request) -> Answer {
        request.send(self.address).await
    }
}

fn app<S: AtomicStore + 'static>(
    onefold: Onefold<S>,
    supplier: &Supplier,
    operation: &Operation,
) -> (Router, Engine) {
    let engine = onefold.engine().clone();
    (routes(&App { onefold, supplier: supplier.clone() }, operation), engine)
}

pub fn operation() -> Operation {
    Operation::new("PlaceOrder", "one order at the supplier for each key")
}

/// Alice places an order under this key.
pub fn order(key: &str) -> Request {
    order_of(key, r#"{"sku":"lamp"}"#)
}

pub fn order_of(key: &str, body: &str) -> Request {
    Request::post(ROUTE).bearer("alice").key(key).json(body)
}

pub fn assert_fresh(answer: &Answer, n: u64) {
    assert_eq!((answer.status, answer.is_replay()), (200, false), "{answer}");
    assert_eq!(answer.n(), n, "{answer}");
}

pub fn assert_replay(answer: &Answer, first: &Answer) {
    assert_eq!((answer.status, answer.is_replay()), (first.status, true), "{answer}");
    assert_eq!(answer.body, first.body, "{answer}");
}

pub fn assert_problem(answer: &Answer, status: u16, problem: &str) {
    assert_eq!((answer.status, answer.problem().as_deref()), (status, Some(problem)), "{answer}");
}
