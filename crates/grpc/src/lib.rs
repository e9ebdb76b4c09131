//! Idempotent handlers for tonic.
//!
//! A [`Protection`] belongs to one unary method. It reads the key (metadata `idempotency-key`, with the grammar of the
//! HTTP header), the scope ([`Whose`]) and the significant message, and performs the handler's work inside the boundary
//! of the library. Duplicates, conflicts, waiting and replays follow SEMANTICS 5 to 8; what each situation is in gRPC
//! stands in one table ([`situations`]), and what a handler's own status means in another ([`meanings`]). Both are
//! printed in `docs/grpc.md`.
//!
//! ```
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # struct Checkout { #[prost(string, tag = "1")] sku: String }
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # struct Order { #[prost(int64, tag = "1")] number: i64 }
//! use onefold::{Onefold, Operation, Verdict};
//! use onefold::grpc::{Protection, Whose};
//! use tonic::{Request, Response, Status};
//!
//! struct Shop {
//!     place: Protection,
//! }
//!
//! impl Shop {
//!     fn new(onefold: &Onefold) -> Shop {
//!         let orders = Operation::new("PlaceOrder", "one order row for each key");
//!         Shop { place: Protection::new(onefold, orders, "/shop.v1.Orders/Place", Whose::credential()) }
//!     }
//!
//!     // As in `impl Orders for Shop`.
//!     async fn place(&self, request: Request<Checkout>) -> Result<Response<Order>, Status> {
//!         let placed = self.place.atomic(request, |tx, checkout| {
//!             if checkout.sku.is_empty() {
//!                 return Err(Status::invalid_argument("which article?").into());
//!             }
//!             tx.execute("INSERT INTO orders (sku) VALUES (?1)", [&checkout.sku])?;
//!             Ok(Verdict::succeeded(Order { number: tx.last_insert_rowid() }))
//!         });
//!         placed.await
//!     }
//! }
//! ```
//!
//! Only unary methods can be protected: a stream is no message.
//!
//! ```compile_fail
//! # #[derive(Clone, PartialEq, prost::Message)]
//! # struct Order { #[prost(int64, tag = "1")] number: i64 }
//! # use onefold::grpc::Protection;
//! # async fn place(place: &Protection, request: tonic::Request<tonic::Streaming<Order>>) {
//! place.atomic(request, |tx, order| Ok(onefold::Verdict::succeeded(Order::default()))).await;
//! # }
//! ```
//!
//! *It does not* authenticate anybody, keep metadata of answers, or protect what a handler does outside of the closure.

mod answer;
#[cfg(feature = "client")]
pub mod client;
mod codes;
mod kept;
mod keys;
mod meaning;
mod perform;
#[cfg(feature = "postgres")]
pub mod postgres;
mod protection;
mod settling;
mod whose;

pub use codes::{Situation, situations};
pub use meaning::{Meaning, meanings, rejected};
pub use onefold_http::TokenRule;
pub use perform::Admitted;
pub use protection::Protection;
pub use whose::Whose;

/// The metadata that marks a replay; there on replays only.
pub const REPLAYED: &str = "idempotent-replayed";
/// The metadata that names the operation, as `/operations/{id}`.
pub const OPERATION: &str = "onefold-operation";
/// The metadata that marks a status as the handler's own word: [`REJECTED`] or [`NOT_DONE`]. A status of the layer has
/// it never, and details of the domain [`DOMAIN`] in its place.
pub const OUTCOME: &str = "onefold-outcome";
/// The business has refused for good; duplicates get the same status.
pub const REJECTED: &str = "rejected";
/// The business says that nothing happened; the key is free.
pub const NOT_DONE: &str = "not-done";
/// The domain of the error details that the layer makes.
pub const DOMAIN: &str = "onefold.dev";
