//! **Many attempts, one effect.** A request that is sent twice, a job that is started again, a message that is
//! delivered a third time: the operation behind it happens once, and everybody who asks for it gets its one result.
//!
//! A service adds this crate to the database that it has, says what an operation promises, and writes its business
//! inside the boundary:
//!
//! ```
//! use onefold::{Onefold, Operation, Scope, Verdict};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), onefold::BoxError> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("shop.db");
//! let onefold = Onefold::sqlite(&path)?;
//! # rusqlite::Connection::open(&path)?.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY, sku TEXT)")?;
//! let place_order = Operation::new("PlaceOrder", "one order row for each checkout");
//!
//! for attempt in 1..=2 {
//!     let sku = "lamp".to_owned();
//!     let call = place_order.call(Scope::new([("customer", "17")]), "checkout-7f82", &sku)?;
//!     let done = onefold
//!         .atomic(call, move |tx| {
//!             tx.execute("INSERT INTO orders (sku) VALUES (?1)", [&sku])?;
//!             Ok(Verdict::succeeded(tx.last_insert_rowid()))
//!         })
//!         .await?;
//!     assert_eq!((*done.value(), done.replayed()), (1, attempt == 2));
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | mode | where the effect is | what it promises |
//! | --- | --- | --- |
//! | [`Onefold::atomic`] | in this database | exactly one committed effect in this database |
//! | [`Onefold::claim`] | in this database, in a transaction of yours | the same |
//! | [`Onefold::reserved`] | elsewhere | at most one unresolved attempt at a time; a lost outcome is held as unknown, never silently repeated |
//! | [`Onefold::resumable`] | elsewhere, in several [`Steps`] | each step is asked for under one key |
//!
//! Inside a closure of atomic mode, [`SqliteTx::effect`] notes what the business would notice if it happened twice,
//! under a key of its own and for good, and [`SqliteTx::apply_if_newer`] keeps an older event from overwriting a
//! newer one. Messages that leave with the business are in [`messages`], and the one mail for an effect in
//! [`notify`].
//!
//! What may happen twice, and pages, go beside the boundary over the same connections: [`Onefold::read`] and
//! [`Onefold::write`]. Where an operation or a message stands say [`Onefold::stands`], [`Onefold::outgoing`] and
//! [`Onefold::incoming`].
//!
//! What a service writes of an outcome that comes from elsewhere, in the commit that settles it, is a [`companion`];
//! lost outcomes are looked up by [`reconcile`], and interrupted workflows are driven on by [`drive`].
//!
//! With the feature `postgres` all of it works over PostgreSQL: see the module `postgres`.
//!
//! What a call without a result means is a [`CallError`], which says whether a new key is safe. Results are kept as
//! versioned data: see [`Operation::value_version`].
//!
//! # Features
//!
//! The boundary over SQLite is always there, and needs no server. Everything else is a feature of its own:
//!
//! | feature | module | what it is |
//! | --- | --- | --- |
//! | `postgres` | `postgres`, `any` | the boundary over PostgreSQL, by tokio-postgres; one body over either database |
//! | `sqlx` | `sqlx` | the boundary in a transaction of sqlx on PostgreSQL |
//! | `axum` | `axum` | layer and extractors: key, scope, fingerprint and problem documents; with `webhooks` a route that takes them into an inbox |
//! | `grpc` | `grpc` | the same for unary methods of tonic |
//! | `client` | `client` | the caller's side: keys, kept intentions, retries; with `grpc` connections of tonic (`grpc::client`) |
//! | `webhooks` | `webhooks` | signatures checked and made, and signed webhooks as a destination of the relay |
//! | `mail` | `mail` | a destination of the relay |
//! | `metrics` | | the caller's numbers in a registry of prometheus-client: `client::Destinations::register` |
//! | `nats`, `rabbitmq`, `kafka` | the same names | destinations of the relay, and consumers |

#[cfg(feature = "axum")]
pub use onefold_axum as axum;
#[cfg(feature = "kafka")]
pub use onefold_broker_kafka as kafka;
#[cfg(feature = "nats")]
pub use onefold_broker_nats as nats;
#[cfg(feature = "rabbitmq")]
pub use onefold_broker_rabbitmq as rabbitmq;
#[cfg(feature = "mail")]
pub use onefold_broker_smtp as mail;
#[cfg(feature = "client")]
pub use onefold_client as client;
#[cfg(feature = "grpc")]
pub use onefold_grpc as grpc;
pub use onefold_library::*;
#[cfg(feature = "sqlx")]
pub use onefold_sqlx as sqlx;

/// Webhooks: signatures checked ([`Source`](webhooks::Source)) and made, and a destination of the relay that needs no
/// broker.
#[cfg(feature = "webhooks")]
pub mod webhooks {
    pub use onefold_broker_http::{HttpSink, SetupError};
    pub use onefold_webhooks::*;
}
