//! gRPC between the services: the generated code, and calls under a key.
//!
//! A call is repeated under its key within bounds, and nothing is ever asked under a new one. What a process knows of those
//! it calls, its budget of retries and whether it leaves them alone for a while, is at `GET /destinations`.

use anyhow::Context;
use axum::routing::get;
use axum::{Json, Router};
use onefold::client::{CircuitState, Destinations};
pub use onefold::grpc::client::{Connection as Peer, Correlate, under};
use serde::{Deserialize, Serialize};

pub use generated::*;

#[path = "../proto/bfstore.rs"]
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, reason = "generated")]
mod generated;

/// The service at this URL, which need not run yet.
pub fn peer(url: &str) -> anyhow::Result<Peer> {
    onefold::grpc::client::channel(url).context("the URL of a service")
}

/// What a process knows of one that it calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Known {
    /// Its URL.
    pub url: String,
    /// Attempts that were sent to it, retries included.
    pub attempts: u64,
    /// Of these, retries.
    pub retries: u64,
    /// Retries that the budget has refused.
    pub refused: u64,
    /// Calls that ended with a definite answer.
    pub successes: u64,
    /// After many failures in a row it is left alone for a while.
    pub left_alone: bool,
}

/// The page with what this process knows of those that it calls.
pub fn destinations() -> Router {
    let known = || async {
        let known = Destinations::process().snapshot().into_iter().map(|of| Known {
            url: of.origin,
            attempts: of.attempts,
            retries: of.retries,
            refused: of.refused,
            successes: of.successes,
            left_alone: of.circuit != CircuitState::Closed,
        });
        Json(known.collect::<Vec<_>>())
    };
    Router::new().route("/destinations", get(known))
}
