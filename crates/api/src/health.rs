//! Whether the process lives, whether it can do its work, and what it has counted.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;

use crate::{OPENMETRICS, Watched};

/// The process answers.
pub(crate) async fn alive() -> &'static str {
    "ok\n"
}

/// The store can be read and written, and the process goes on.
pub(crate) async fn ready(State(watched): State<Watched>) -> Response {
    if watched.stopping.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "not ready: stopping\n").into_response();
    }
    match watched.engine.ready().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {error}\n")).into_response(),
    }
}

/// Everything counted, as OpenMetrics text.
pub(crate) async fn metrics(State(watched): State<Watched>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &watched.metrics) {
        Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
