//! A service's own statements beside the boundary, for what may happen twice, and for pages.
//!
//! Each is a transaction of its own over the connections of the boundary, as `Onefold::read` and `Onefold::write` of
//! the database that is there.

use rusqlite::Connection;

use super::store::One;
use super::value::values;
use super::work::rows;
use super::{AnyError, AnyRow, AnyStore, AnyWork, ToValue};
use crate::Onefold;
use crate::beside::{AccessError, Left, write};
use crate::ties::Ties;

impl Onefold<AnyStore> {
    /// Runs one statement of the service's own, in a transaction of its own; returns how many rows it changed. Nothing
    /// protects it from being run twice: what must not happen twice belongs into [`Onefold::atomic`]. Parameters are
    /// written `$1`, `$2`, …
    ///
    /// Cancellation: it is committed whole or not at all.
    pub async fn execute(&self, sql: &str, params: &[&dyn ToValue]) -> Result<u64, AccessError> {
        let (sql, params) = (sql.to_owned(), values(params).map_err(closure)?);
        let left = Left::nothing();
        let own = left.clone();
        let work = AnyWork::new(Ties::default(), move |tx| {
            let (own, sql, params) = (own.clone(), sql.clone(), params.clone());
            Box::pin(async move { own.of(tx.changed(sql, params).await.map_err(Into::into)) })
        });
        write(&**self.store(), work, &left).await
    }

    /// All rows of a query, which may write nothing. On SQLite it waits for no writer.
    ///
    /// Cancellation: nothing is left.
    pub async fn query(&self, sql: &str, params: &[&dyn ToValue]) -> Result<Vec<AnyRow>, AccessError> {
        let (sql, params) = (sql.to_owned(), values(params).map_err(closure)?);
        match &self.store().0 {
            One::Sqlite(store) => {
                let read = move |own: &Connection| rows(&mut *own.prepare_cached(&sql)?, &params);
                let found: rusqlite::Result<_> = store.lend(read).await?;
                found.map_err(|error| closure(error.into()))
            }
            One::Postgres(store) => {
                let left = Left::nothing();
                let own = left.clone();
                let work = AnyWork::new(Ties::default(), move |tx| {
                    let (own, sql, params) = (own.clone(), sql.clone(), params.clone());
                    Box::pin(async move { own.of(tx.rows(sql, params).await.map_err(Into::into)) })
                });
                left.taken(store.lend(&mut work.on_postgres()).await?)
            }
        }
    }

    /// The first row of such a query, if it has one.
    pub async fn query_opt(&self, sql: &str, params: &[&dyn ToValue]) -> Result<Option<AnyRow>, AccessError> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }
}

/// As an error of the closure itself.
fn closure(error: AnyError) -> AccessError {
    AccessError::Closure(error.into())
}
