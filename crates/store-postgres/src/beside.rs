//! A service's own statements beside the boundary, over the store's connections: each is a transaction of its own.
//!
//! What would begin or leave a transaction, or change the session, is refused, since the connection is used again. One
//! that was overtaken by another transaction had no effect and is rerun a few times; nothing else is.

use deadpool_postgres::Object;
use onefold_store::StoreError;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Error, Row};

use crate::error::Failed;
use crate::server::{RERUNS_MAX, STATEMENT_MAX, pause};
use crate::store::PostgresStore;
use crate::tx::{TxError, refuse};

impl PostgresStore {
    /// Runs one statement; returns how many rows it changed.
    ///
    /// After [`TxError::Unavailable`], or a dropped future, it may or may not have been run.
    pub async fn execute(&self, sql: &str, params: &[(&(dyn ToSql + Sync), Type)]) -> Result<u64, TxError> {
        refuse(sql)?;
        let mut reruns = 0;
        loop {
            let connection = self.free().await?;
            let done = timeout(STATEMENT_MAX, connection.execute_typed(sql, params)).await;
            if let Some(changed) = judged(done, connection, &mut reruns).await? {
                return Ok(changed);
            }
        }
    }

    /// All rows of a query. Otherwise as [`execute`](PostgresStore::execute).
    pub async fn query(
        &self,
        sql: &str,
        params: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, TxError> {
        refuse(sql)?;
        let mut reruns = 0;
        loop {
            let connection = self.free().await?;
            let done = timeout(STATEMENT_MAX, connection.query_typed(sql, params)).await;
            if let Some(rows) = judged(done, connection, &mut reruns).await? {
                return Ok(rows);
            }
        }
    }

    /// Statements without parameters, all or none, such as those that make tables. They are not looked into: leave the
    /// session as it is.
    pub async fn execute_batch(&self, sql: &str) -> Result<(), TxError> {
        let mut reruns = 0;
        loop {
            let connection = self.free().await?;
            let done = timeout(STATEMENT_MAX, connection.batch_execute(sql)).await;
            if judged(done, connection, &mut reruns).await?.is_some() {
                return Ok(());
            }
        }
    }

    async fn free(&self) -> Result<Object, TxError> {
        let free = self.server().connection().await;
        free.map_err(|failed| TxError::Unavailable(StoreError::from(failed).to_string()))
    }
}

/// The answer to a statement; `None` where it is to be run again.
async fn judged<A>(
    done: Result<Result<A, Error>, Elapsed>,
    connection: Object,
    reruns: &mut u32,
) -> Result<Option<A>, TxError> {
    let error = match done {
        Ok(Ok(done)) => return Ok(Some(done)),
        Ok(Err(error)) => error,
        Err(_) => {
            drop(Object::take(connection));
            return Err(TxError::Unavailable("it takes too long".into()));
        }
    };
    let failed = Failed::of(&error);
    if failed.ends_connection() {
        drop(Object::take(connection));
    }
    match failed {
        Failed::Rerun(_) if *reruns < RERUNS_MAX => {
            pause(*reruns).await;
            *reruns += 1;
            Ok(None)
        }
        Failed::Lost(why) => Err(TxError::Unavailable(why)),
        _ => Err(error.into()),
    }
}
