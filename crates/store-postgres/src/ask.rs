//! Whom a statement is sent to: the server, as a transaction of its own, or a transaction that is open. Transactions of
//! others are in [`driver`](crate::driver).

use std::future::Future;

use onefold_store::StoreError;
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{GenericClient, Row};

use crate::driver::Columns;
use crate::error::Failed;
use crate::server::{Params, Server, Unanswered};

/// Takes statements.
pub(crate) trait Ask: Sync {
    type Row: Columns;
    type Error: From<StoreError> + Send;

    /// A test's time, the first parameter of every statement that needs the time.
    fn now(&self) -> Option<i64>;

    /// Sends one statement.
    fn ask(
        &self,
        sql: &'static str,
        params: &Params<'_>,
        unanswered: Unanswered,
    ) -> impl Future<Output = Result<Vec<Self::Row>, Self::Error>> + Send;
}

impl Ask for Server {
    type Row = Row;
    type Error = Failed;

    fn now(&self) -> Option<i64> {
        Server::now(self)
    }

    async fn ask(
        &self,
        sql: &'static str,
        params: &Params<'_>,
        unanswered: Unanswered,
    ) -> Result<Vec<Row>, Failed> {
        Server::ask(self, sql, params, unanswered).await
    }
}

/// A transaction that is open. Nothing is rerun in it: that is for whoever began it.
pub(crate) struct Within<'c, C> {
    pub(crate) client: &'c C,
    pub(crate) now: Option<i64>,
}

impl<C: GenericClient + Sync> Ask for Within<'_, C> {
    type Row = Row;
    type Error = Failed;

    fn now(&self) -> Option<i64> {
        self.now
    }

    async fn ask(&self, sql: &'static str, params: &Params<'_>, _: Unanswered) -> Result<Vec<Row>, Failed> {
        self.client.query_typed(sql, params).await.map_err(|error| Failed::of(&error))
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Failed {
        match error {
            StoreError::Refused(why) => Failed::Refused(why),
            StoreError::Unavailable(why) => Failed::Server(why),
        }
    }
}

impl Columns for Row {
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, String> {
        let raw = self.try_get::<_, Option<Raw<'_>>>(column).map_err(|error| error.to_string())?;
        Ok(raw.map(|raw| raw.0))
    }
}

/// A value as the server sent it.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw<'a>, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
