//! The admin listener: health, metrics, and the operations API.
//!
//! *Invariants.* Everything goes through the engine. The listener has no roles yet, so it is for loopback alone;
//! the settings refuse anything else. Every act needs a reason and is kept with the record.

mod health;
mod operations;
mod own_host;
mod refusal;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::Router;
use axum::routing::{get, post};
use onefold_engine::Engine;
use prometheus_client::registry::Registry;

/// The content type of what `/metrics` answers.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone)]
struct Admin {
    engine: Engine,
    stopping: Arc<AtomicBool>,
    metrics: Arc<Registry>,
}

/// The routes of the admin listener. Once `stopping` is set the process is not ready any more.
pub fn router(engine: Engine, stopping: Arc<AtomicBool>) -> Router {
    let mut metrics = Registry::default();
    engine.signals().register(&mut metrics);
    let admin = Admin { engine, stopping, metrics: Arc::new(metrics) };
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/v1/operations", get(operations::list))
        .route("/v1/operations/{id}", get(operations::show))
        .route("/v1/operations/{id}/resolve", post(operations::resolve))
        .route("/v1/operations/{id}/release", post(operations::release))
        .fallback(refusal::no_such_path)
        .layer(axum::middleware::from_fn(own_host::only))
        .with_state(admin)
}
