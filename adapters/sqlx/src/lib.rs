//! Many attempts, one effect, in a transaction of sqlx on PostgreSQL.
//!
//! The service keeps its pool and its transactions. It claims the operation in the transaction in which it does its
//! business, and finishes it there: record and rows are committed together or not at all.
//!
//! ```no_run
//! # use onefold::sqlx::{Boundary, Claimed, Error};
//! # use onefold::{Operation, Scope};
//! # async fn example(pool: sqlx::PgPool, boundary: Boundary) -> Result<(), Error> {
//! let place_order = Operation::new("PlaceOrder", "one order row for each checkout");
//! let call = place_order.call(Scope::new([("customer", "17")]), "checkout-7f82", "lamp")?;
//!
//! let mut tx = pool.begin().await?;
//! let order: i64 = match boundary.claim(&mut tx, &call).await? {
//!     Claimed::Known(done) => done.into_value(),
//!     Claimed::Begun(claim) => {
//!         let insert = "INSERT INTO orders (sku) VALUES ('lamp') RETURNING id";
//!         let id = sqlx::query_scalar(insert).fetch_one(&mut *tx).await?;
//!         claim.succeed(&mut tx, id).await?.into_value()
//!     }
//! };
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A duplicate waits in [`Boundary::claim`] for the end of the transaction that has the operation, and then gets its
//! result; after its rollback the duplicate goes in. Losing the claim is no error of the server: the transaction goes
//! on. [`Boundary::atomic`] does all of it in a transaction of its own and runs it again where the database asks for
//! that.
//!
//! *After a crash* there is either the whole or nothing. A claim that is committed without its end is an attempt whose
//! outcome is unknown once its lease ends.
//!
//! *It does not* look at how durable the commits of the service's connections are, and it does not share SQLite: the
//! library itself takes a transaction there ([`onefold_library::Onefold::claim`]).

mod atomic;
mod boundary;
mod error;
mod guest;

pub use atomic::Working;
pub use boundary::{Boundary, Claim, Claimed};
pub use error::Error;
