//! Idempotent handlers for axum.
//!
//! A [`Protection`] is a layer around a route. It reads the key, the scope and the significant request by the same code
//! as the gateway, and refuses what is wrong with a problem document before the handler runs. The handler takes
//! [`Protected`], performs its operation under [`Protected::call`], and answers with a [`Reply`]; a
//! [`CallError`](onefold_library::CallError) becomes its problem document by `?`. Duplicates, conflicts, waiting,
//! replays and their headers are then those of SEMANTICS 7 and 8.
//!
//! ```
//! use axum::extract::State;
//! use axum::{Json, Router, routing::post};
//! use onefold::{Onefold, Operation, Verdict};
//! use onefold::axum::{Protected, Protection, Refused, Reply, ScopeSource};
//!
//! async fn place(
//!     State(onefold): State<Onefold>,
//!     protected: Protected,
//!     Json(sku): Json<String>,
//! ) -> Result<Reply<i64>, Refused> {
//!     let done = onefold.atomic(protected.call(), move |tx| {
//!         tx.execute("INSERT INTO orders (sku) VALUES (?1)", [&sku])?;
//!         Ok(Verdict::succeeded(tx.last_insert_rowid()))
//!     });
//!     Ok(Reply::of(done.await?).status(201))
//! }
//!
//! fn routes(onefold: Onefold) -> Router {
//!     let orders = Operation::new("PlaceOrder", "one order row for each key");
//!     let protection = Protection::new(&onefold, orders, [ScopeSource::Credential]);
//!     Router::new().route("/orders", post(place).layer(protection)).with_state(onefold)
//! }
//! ```
//!
//! *It does not* authenticate anybody, keep the handler's HTTP answer (the typed result is kept, and the handler makes
//! the answer of it each time), or protect a handler that performs its effect outside of the call.

mod guard;
mod page;
mod protected;
mod protection;
mod reply;
#[cfg(feature = "webhooks")]
pub mod webhooks;

pub use onefold_core::contract::ScopeSource;
pub use onefold_http::TokenRule;
pub use page::operations;
pub use protected::Protected;
pub use protection::Protection;
pub use reply::{Refused, Reply};
#[cfg(feature = "webhooks")]
pub use webhooks::Webhooks;

/// The path of operations' pages.
const OPERATIONS: &str = "/operations";
/// Where the policy is published.
const POLICY: &str = "/.well-known/idempotency";
