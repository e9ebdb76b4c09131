//! A payment provider that takes each key once, for good.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Fault, World};

/// Money that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// The key it was asked for under.
    pub key: String,
    /// The provider's number of it.
    pub charge: String,
    /// What for.
    pub order_id: i64,
    /// How much.
    pub cents: i64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    order_id: i64,
    cents: i64,
}

pub(super) async fn capture(
    State(world): State<Arc<World>>,
    headers: HeaderMap,
    Json(asked): Json<Asked>,
) -> Response {
    let Some(key) = headers.get("idempotency-key").and_then(|key| key.to_str().ok()) else {
        return (StatusCode::BAD_REQUEST, "no key").into_response();
    };
    world.happened.lock().capture_requests += 1;
    let wanted =
        Captured { key: key.to_owned(), charge: String::new(), order_id: asked.order_id, cents: asked.cents };
    if world.takes(Fault::CaptureRefused) {
        world.refused.lock().push(key.to_owned());
    }
    if world.refused.lock().iter().any(|refused| refused == key) {
        return StatusCode::PAYMENT_REQUIRED.into_response();
    }
    if world.takes(Fault::CaptureLandsLate) {
        world.late.lock().push(wanted);
        return std::future::pending().await;
    }
    let captured = enter(&world, wanted);
    if world.takes(Fault::CaptureAnswerLost) {
        // Whoever asked gives up.
        return std::future::pending().await;
    }
    (StatusCode::CREATED, Json(json!({ "charge": captured.charge }))).into_response()
}

pub(super) async fn find(State(world): State<Arc<World>>, Path(key): Path<String>) -> Response {
    let found = world.happened.lock().captures.iter().find(|captured| captured.key == key).cloned();
    match found {
        Some(captured) => Json(json!({ "charge": captured.charge })).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// What was late arrives now.
pub(super) async fn land(State(world): State<Arc<World>>) -> StatusCode {
    let late = std::mem::take(&mut *world.late.lock());
    for wanted in late {
        enter(&world, wanted);
    }
    StatusCode::NO_CONTENT
}

/// One capture for each key.
fn enter(world: &World, wanted: Captured) -> Captured {
    let mut happened = world.happened.lock();
    if let Some(known) = happened.captures.iter().find(|known| known.key == wanted.key) {
        return known.clone();
    }
    let captured = Captured { charge: format!("charge-{}", happened.captures.len() + 1), ..wanted };
    happened.captures.push(captured.clone());
    captured
}
