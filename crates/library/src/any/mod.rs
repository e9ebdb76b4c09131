//! One body over SQLite and PostgreSQL (feature `postgres`), for a service whose database is chosen when it starts: by
//! a developer a file, in production a server.
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
//! What both take is yours to write: parameters as `$1`, columns as `BIGINT`, `TEXT`, `BOOLEAN`, `DOUBLE PRECISION` or
//! bytes, `ON CONFLICT`, `RETURNING` in a query. What is read of another type is cast, to `BIGINT`, `TEXT` or
//! `DOUBLE PRECISION`: SQLite knows no others.
//!
//! A closure is async on both. On SQLite it runs on the writer's thread, where it must be short and may wait for
//! nothing but its transaction: one that waits for anything else is stopped and undone, and there is no tokio runtime
//! for a timer.
//!
//! **Isolation** is the database's. SQLite runs closures one after the other; PostgreSQL runs them side by side, at
//! READ COMMITTED unless `default_transaction_isolation` says otherwise. A number that was queried may be another's to
//! change until it is written, so decide in the statement
//! (`UPDATE … SET available = available - $2 WHERE available >= $2`), or take the row before it is read
//! (`UPDATE … SET available = available … RETURNING available`): both are exact on both. Everything else is as each
//! database has it: [`Onefold::atomic`](crate::Onefold) of SQLite, and of [`postgres`](crate::postgres).

mod beside;
mod desk;
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
    /// A parameter is NaN, which SQLite does not keep. Nothing was sent.
    #[error("the parameter ${parameter} is not a number")]
    NotANumber {
        /// From 1.
        parameter: usize,
    },
    /// A call was given up before its answer; this one was not sent.
    #[error("a call of the transaction was given up before its answer: it takes no more")]
    GivenUp,
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
    /// What follows `sqlite:` is no path of a file.
    #[error(
        "sqlite: is followed by the path of a file at once, such as sqlite:shop.db or sqlite:/srv/shop.db"
    )]
    Path,
    /// The file could not be opened on a thread of its own.
    #[error("the opening of the file was stopped: {0}")]
    Stopped(#[source] tokio::task::JoinError),
    /// The file.
    #[error(transparent)]
    Sqlite(#[from] onefold_store_sqlite::OpenError),
    /// The server.
    #[error(transparent)]
    Postgres(#[from] onefold_store_postgres::OpenError),
}

impl AnyStore {
    /// Over a SQLite file, which is made if there is none; whether the service's own tables may be in it says
    /// `options.file_use`. Blocks.
    ///
    /// # Errors
    /// [`AnyOpenError::Sqlite`]: everything is looked at before anything is changed.
    pub fn sqlite(
        path: impl AsRef<Path>,
        options: onefold_store_sqlite::Options,
    ) -> Result<AnyStore, AnyOpenError> {
        Ok(AnyStore(One::Sqlite(SqliteStore::open(path, options)?)))
    }

    /// Over a database on a server. Must be called in a tokio runtime, which is needed for as long as the store is
    /// used.
    ///
    /// # Errors
    /// [`AnyOpenError::Postgres`]. Cancellation: nothing has changed but perhaps the schema, by whole migrations.
    pub async fn postgres(
        address: &Address,
        options: onefold_store_postgres::Options,
    ) -> Result<AnyStore, AnyOpenError> {
        Ok(AnyStore(One::Postgres(PostgresStore::open(address, options).await?)))
    }
}

impl Onefold<AnyStore> {
    /// Over the database of this URL: `sqlite:PATH` as [`Onefold::sqlite`] opens it, or `postgres://…` as
    /// [`Onefold::postgres`] does. No live keys are counted on either: the service makes the keys. For other options
    /// and limits there is [`Onefold::over`].
    ///
    /// Must be called in a tokio runtime. An error has changed nothing but perhaps the schema, by whole migrations.
    /// Cancellation: the same.
    pub async fn any(url: &str) -> Result<Onefold<AnyStore>, AnyOpenError> {
        let store = if let Some(path) = url.strip_prefix("sqlite:") {
            if !is_path(path) {
                return Err(AnyOpenError::Path);
            }
            let path = path.to_owned();
            let options = onefold_store_sqlite::Options { file_use: FileUse::Shared, ..Default::default() };
            let opened = tokio::task::spawn_blocking(move || AnyStore::sqlite(path, options));
            opened.await.map_err(AnyOpenError::Stopped)??
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            AnyStore::postgres(&Address::parse(url)?, Default::default()).await?
        } else {
            return Err(AnyOpenError::Url);
        };
        let limits = Limits { live_keys_per_scope: None, ..Limits::default() };
        Ok(Onefold::over(AtomicEngine::new(Arc::new(store), "library", limits)))
    }
}

/// Neither a URL's host nor one of SQLite's own names, which would all become files.
fn is_path(path: &str) -> bool {
    let foreign = ["//", ":memory:", "file:"].iter().any(|front| path.starts_with(front));
    !path.is_empty() && !foreign && !path.contains(['?', '\0'])
}
