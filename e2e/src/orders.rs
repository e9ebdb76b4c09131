//! The one business of most tests: placing an order through a gateway before a counting upstream.

use onefold_testkit::{Gateway, Request, Setup, Store, Upstream};

/// The route of orders.
pub const ROUTE: &str = "/orders";

/// Alice places an order under `key`, which goes out as given.
#[must_use]
pub fn order(key: &str) -> Request {
    order_of(key, r#"{"sku":"book","quantity":1}"#)
}

/// Alice places an order with this body.
#[must_use]
pub fn order_of(key: &str, body: &str) -> Request {
    Request::post(ROUTE).bearer("alice").key(key).json(body)
}

/// A gateway to be started with the operation `CreateOrder` and these further lines.
#[must_use]
pub fn setup(upstream: &Upstream, lines: &str) -> Setup {
    Setup::new(&upstream.url()).operation("CreateOrder", "POST", ROUTE, lines)
}

/// A gateway with the operation `CreateOrder` and these further lines, started.
pub async fn gateway(upstream: &Upstream, lines: &str) -> Gateway {
    setup(upstream, lines).start().await
}

/// The same, on this store.
#[must_use]
pub fn setup_on(store: &Store, upstream: &Upstream, lines: &str) -> Setup {
    setup(upstream, lines).store_url(store.url())
}

/// The same on this store, started.
pub async fn gateway_on(store: &Store, upstream: &Upstream, lines: &str) -> Gateway {
    setup_on(store, upstream, lines).start().await
}

/// So many gateways with one setup and so on one store, which all start at once.
///
/// # Panics
/// When one of them does not start.
pub async fn twins(setup: Setup, number: usize) -> Vec<Gateway> {
    let starts = tokio::task::LocalSet::new();
    let start = |_| starts.spawn_local(setup.clone().addresses("127.0.0.1:0", "127.0.0.1:0").start());
    let started: Vec<_> = (0..number).map(start).collect();
    starts.await;
    let mut gateways = Vec::new();
    for gateway in started {
        gateways.push(gateway.await.expect("every gateway starts"));
    }
    gateways
}
