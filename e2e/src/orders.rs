//! The one business of most tests: placing an order through a gateway before a counting upstream.

use onefold_testkit::{Gateway, Request, Setup, Upstream};

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
