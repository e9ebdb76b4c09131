//! Whom a statement is sent to: the server, as a transaction of its own, or a transaction that is open.

use std::future::Future;

use tokio_postgres::{GenericClient, Row};

use crate::error::Failed;
use crate::server::{IfLost, Params, Server};

/// Takes statements.
pub(crate) trait Ask: Sync {
    /// A test's time, the first parameter of every statement that needs the time.
    fn now(&self) -> Option<i64>;

    /// Sends one statement.
    fn ask(
        &self,
        sql: &str,
        params: &Params<'_>,
        if_lost: IfLost,
    ) -> impl Future<Output = Result<Vec<Row>, Failed>> + Send;
}

impl Ask for Server {
    fn now(&self) -> Option<i64> {
        Server::now(self)
    }

    async fn ask(&self, sql: &str, params: &Params<'_>, if_lost: IfLost) -> Result<Vec<Row>, Failed> {
        Server::ask(self, sql, params, if_lost).await
    }
}

/// A transaction that is open. Nothing is rerun in it: that is for whoever began it.
pub(crate) struct Within<'c, C> {
    pub(crate) client: &'c C,
    pub(crate) now: Option<i64>,
}

impl<C: GenericClient + Sync> Ask for Within<'_, C> {
    fn now(&self) -> Option<i64> {
        self.now
    }

    async fn ask(&self, sql: &str, params: &Params<'_>, _: IfLost) -> Result<Vec<Row>, Failed> {
        self.client.query_typed(sql, params).await.map_err(|error| Failed::of(&error))
    }
}
