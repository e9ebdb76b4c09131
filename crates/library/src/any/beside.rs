//! A service's own statements beside the boundary, for what needs no record: each is a transaction of its own.
//!
//! On SQLite they run on one connection of their own, one after the other, and wait for the file's one write lock; on
//! PostgreSQL on the connections of the boundary.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::store::One;
use super::value::values;
use super::work::{changed, rows, typed};
use super::{AnyError, AnyRow, AnyStore, ToValue};
use crate::Onefold;

/// How long a statement waits for the file's write lock.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);

/// The connection on SQLite.
pub(super) struct Beside(Arc<Mutex<Connection>>);

impl Beside {
    pub(super) fn open(path: &Path) -> rusqlite::Result<Beside> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(LOCK_WAIT_MAX)?;
        Ok(Beside(Arc::new(Mutex::new(connection))))
    }

    async fn run<A: Send + 'static>(
        &self,
        statements: impl FnOnce(&Connection) -> rusqlite::Result<A> + Send + 'static,
    ) -> Result<A, AnyError> {
        let connection = self.0.clone();
        let done = tokio::task::spawn_blocking(move || statements(&connection.lock())).await;
        Ok(done.map_err(|error| AnyError::Unavailable(error.to_string()))??)
    }
}

impl Onefold<AnyStore> {
    /// Runs one statement of the service's own beside the boundary, in a transaction of its own; returns how many rows
    /// it changed. Nothing protects it from being run twice. Parameters are written `$1`, `$2`, …
    ///
    /// Errors: after one of the connection, or a dropped future, it may or may not have been done.
    pub async fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<u64, AnyError> {
        let params = values(params);
        match &self.store().0 {
            One::Sqlite(_, beside) => {
                let sql = sql.to_owned();
                beside.run(move |own| changed(&mut *own.prepare_cached(&sql)?, &params)).await
            }
            One::Postgres(store) => Ok(store.execute(sql, &typed(&params)).await?),
        }
    }

    /// All rows of a query beside the boundary. Otherwise as [`execute`](Onefold::execute).
    pub async fn query(&self, sql: &str, params: &[&dyn ToValue]) -> Result<Vec<AnyRow>, AnyError> {
        let params = values(params);
        match &self.store().0 {
            One::Sqlite(_, beside) => {
                let sql = sql.to_owned();
                beside.run(move |own| rows(&mut *own.prepare_cached(&sql)?, &params)).await
            }
            One::Postgres(store) => {
                let found = store.query(sql, &typed(&params)).await?;
                found.iter().map(AnyRow::of_postgres).collect()
            }
        }
    }

    /// The first row of such a query, if it has one.
    pub async fn query_opt(&self, sql: &str, params: &[&dyn ToValue]) -> Result<Option<AnyRow>, AnyError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }

    /// Statements without parameters, such as those that make the service's tables.
    pub async fn execute_batch(&self, sql: &str) -> Result<(), AnyError> {
        match &self.store().0 {
            One::Sqlite(_, beside) => {
                let sql = sql.to_owned();
                beside.run(move |own| own.execute_batch(&sql)).await
            }
            One::Postgres(store) => Ok(store.execute_batch(sql).await?),
        }
    }
}
