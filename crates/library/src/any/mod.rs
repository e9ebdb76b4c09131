//! One body over SQLite and PostgreSQL (feature `postgres`), for a service whose database is chosen when it starts: by a
//! developer a file, in production a server.
//!
//! ```no_run
//! use onefold::any::AnyTx;
//! use onefold::{Onefold, Operation, Scope, Verdict};
//!
//! # async fn example(url: &str) -> Result<(), onefold::BoxError> {
//! // `sqlite:shop.db`, or `postgres://shop@localhost/shop`
//! let onefold = Onefold::any(url).await?;
//! onefold.execute("CREATE TABLE IF NOT EXISTS orders (checkout TEXT PRIMARY KEY, sku TEXT)", &[]).await?;
//! let place_order = Operation::new("PlaceOrder", "one order row for each checkout");
//! let (checkout, sku) = ("checkout-7f82".to_owned(), "lamp".to_owned());
//! let call = place_order.call(Scope::new([("customer", "17")]), checkout.as_str(), &sku)?;
//! let done = onefold
//!     .atomic(call, async move |tx: &mut AnyTx| {
//!         tx.execute("INSERT INTO orders VALUES ($1, $2)", &[&checkout, &sku]).await?;
//!         Ok(Verdict::succeeded(()))
//!     })
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! What both take is yours to write: parameters as `$1`, columns as `BIGINT`, `TEXT`, `BOOLEAN`, `DOUBLE PRECISION` or bytes,
//! `ON CONFLICT`, `RETURNING` in a query. What is read of another type is cast (`CAST(sum(points) AS BIGINT)`).
//!
//! A closure is async on both. On SQLite it runs on the writer's thread, where it must be short and may wait for nothing
//! but its transaction: one that waits for anything else is stopped and undone. Everything else is as each database
//! has it: [`Onefold::atomic`](crate::Onefold) of SQLite, and of [`postgres`](crate::postgres).

mod beside;
mod closures;
mod store;
mod tx;
mod value;
mod work;

use std::path::Path;
use std::sync::Arc;

use onefold_store_postgres::{Address, PostgresStore, TxError};
use onefold_store_sqlite::{FileUse, SqliteStore};

use crate::{AtomicEngine, Limits, Onefold};
use store::One;

pub use store::AnyStore;
pub use tx::AnyTx;
pub use value::{AnyRow, FromValue, Kind, ToValue, Value};
pub use work::AnyWork;

/// Why a statement has no result.
#[derive(Debug, thiserror::Error)]
pub enum AnyError {
    /// SQLite's word.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL's, or that of the transaction there.
    #[error("{0}")]
    Postgres(#[from] TxError),
    /// A column is read as what it is not.
    #[error("column {column} is {found}, not a {wanted}")]
    Column {
        /// From 0.
        column: usize,
        /// The type that was asked for.
        wanted: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A column of PostgreSQL has a type that is not read here.
    #[error("the column {column} is of the type {kind}: cast it")]
    Unread {
        /// Its name.
        column: String,
        /// Its type.
        kind: String,
    },
}

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum AnyOpenError {
    /// The URL names neither.
    #[error("the URL of a database begins with sqlite: or postgres://")]
    Url,
    /// The file.
    #[error(transparent)]
    Sqlite(#[from] onefold_store_sqlite::OpenError),
    /// The server.
    #[error(transparent)]
    Postgres(#[from] onefold_store_postgres::OpenError),
}

impl AnyStore {
    /// A file that may be the service's own.
    pub fn sqlite(
        path: impl AsRef<Path>,
        options: onefold_store_sqlite::Options,
    ) -> Result<AnyStore, AnyOpenError> {
        Ok(AnyStore(One::Sqlite(SqliteStore::open(path, options)?)))
    }

    /// A database on a server. Must be called in a tokio runtime.
    pub async fn postgres(
        address: &Address,
        options: onefold_store_postgres::Options,
    ) -> Result<AnyStore, AnyOpenError> {
        Ok(AnyStore(One::Postgres(PostgresStore::open(address, options).await?)))
    }
}

impl Onefold<AnyStore> {
    /// Over the database of this URL: `sqlite:PATH` as [`Onefold::sqlite`] opens it, or `postgres://…` as
    /// [`Onefold::postgres`] does. For other options there is [`Onefold::over`].
    pub async fn any(url: &str) -> Result<Onefold<AnyStore>, AnyOpenError> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let options = onefold_store_sqlite::Options { file_use: FileUse::Shared, ..Default::default() };
            let store = AnyStore::sqlite(path, options)?;
            return Ok(Onefold::over(AtomicEngine::new(Arc::new(store), "library", Limits::default())));
        }
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(AnyOpenError::Url);
        }
        let limits = Limits { live_keys_per_scope: None, ..Limits::default() };
        let store = AnyStore::postgres(&Address::parse(url)?, Default::default()).await?;
        Ok(Onefold::over(AtomicEngine::new(Arc::new(store), "library", limits)))
    }
}
