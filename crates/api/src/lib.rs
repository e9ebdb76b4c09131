//! The admin listener: health, metrics, and the API for operations and messages; for a process that has no admin
//! listener, health and metrics alone.
//!
//! *Invariants.* Everything goes through the engine. The listener has no roles yet, so it is for loopback alone;
//! the settings refuse anything else. Every act needs a reason and is kept with the record.

mod health;
mod messages;
mod once;
mod operations;
mod own_host;
mod refusal;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::Router;
use axum::routing::{get, post};
use onefold_engine::Engine;
use onefold_messages::Messages;
use prometheus_client::registry::Registry;

/// The content type of what `/metrics` answers.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone)]
struct Admin {
    engine: Engine,
    messages: Messages,
}

#[derive(Clone)]
struct Watched {
    engine: Engine,
    stopping: Arc<AtomicBool>,
    metrics: Arc<Registry>,
}

/// The routes of the admin listener. Once `stopping` is set the process is not ready any more. `metrics` are those of
/// whatever runs beside the engine.
pub fn router(engine: Engine, messages: Messages, metrics: Registry, stopping: Arc<AtomicBool>) -> Router {
    let watched = watched(engine.clone(), metrics, stopping);
    let acts = Router::new()
        .route("/v1/operations", get(operations::list))
        .route("/v1/operations/{id}", get(operations::show))
        .route("/v1/operations/{id}/resolve", post(operations::resolve))
        .route("/v1/operations/{id}/release", post(operations::release))
        .route("/v1/outbox", get(messages::list_outgoing))
        .route("/v1/outbox/{id}", get(messages::show_outgoing))
        .route("/v1/outbox/redrives", post(messages::redrive_outgoing))
        .route("/v1/inbox", get(messages::list_incoming))
        .route("/v1/inbox/{id}", get(messages::show_incoming))
        .route("/v1/inbox/redrives", post(messages::redrive_incoming))
        .route("/v1/inbox/reruns", post(messages::rerun_incoming))
        .route("/v1/permits", get(messages::list_permits).post(messages::grant_permit))
        .route("/v1/permits/{number}/revoke", post(messages::revoke_permit))
        .with_state(Admin { engine, messages });
    guarded(watched.merge(acts).fallback(refusal::no_such_path))
}

/// Health and metrics alone, which change nothing: for a listener that monitoring reaches.
pub fn health(engine: Engine, metrics: Registry, stopping: Arc<AtomicBool>) -> Router {
    guarded(watched(engine, metrics, stopping).fallback(refusal::no_such_page))
}

fn watched(engine: Engine, mut metrics: Registry, stopping: Arc<AtomicBool>) -> Router {
    engine.signals().register(&mut metrics);
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .with_state(Watched { engine, stopping, metrics: Arc::new(metrics) })
}

fn guarded(routes: Router) -> Router {
    routes.layer(axum::middleware::from_fn(own_host::only))
}
