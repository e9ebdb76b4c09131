//! Statements in a transaction at READ COMMITTED, whatever the isolation of the database's transactions is.
//!
//! Functions about messages take locks and then look: at READ COMMITTED each of their statements sees what was
//! committed before it. All go out at once, with the transaction's begin and commit, and cost one round trip; where one
//! cannot be written the commit is not sent. What the server refuses is rolled back; an answer that was lost is told as
//! such.

use futures_util::future::try_join_all;
use onefold_store::crash;
use tokio_postgres::Row;

use crate::ask::Ask;
use crate::atomic::in_turn;
use crate::error::Failed;
use crate::held::Held;
use crate::server::{Params, RERUNS_MAX, STATEMENT_MAX, Server, Unanswered, pause};

/// Begins such a transaction.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// A statement with its parameters.
pub(crate) type Statement<'a> = (&'a str, &'a Params<'a>);

impl Server {
    /// Sends a statement in a transaction of its own, and again where it was overtaken.
    pub(crate) async fn ask_committed(&self, sql: &str, params: &Params<'_>) -> Result<Vec<Row>, Failed> {
        let [rows] = self.ask_all_committed([(sql, params)]).await?;
        Ok(rows)
    }

    /// Sends several statements in one transaction, in this order, and again where it was overtaken.
    pub(crate) async fn ask_all_committed<const N: usize>(
        &self,
        statements: [Statement<'_>; N],
    ) -> Result<[Vec<Row>; N], Failed> {
        let mut reruns = 0;
        loop {
            match self.ask_committed_once(&statements).await {
                Err(Failed::Rerun(_)) if reruns < RERUNS_MAX => {
                    pause(reruns).await;
                    reruns += 1;
                }
                done => return done,
            }
        }
    }

    async fn ask_committed_once<const N: usize>(
        &self,
        statements: &[Statement<'_>; N],
    ) -> Result<[Vec<Row>; N], Failed> {
        let held = Held::new(self.connection().await?);
        crash::point("postgres.committed.before");
        let asked = async {
            let mut prepared = Vec::with_capacity(N);
            for (sql, params) in statements {
                prepared.push(held.prepared(sql, params).await?);
            }
            // Each is written when its future is looked at first, so they go out in this order.
            let all = prepared.iter().zip(statements).map(|(one, (_, params))| one.query(&held, params));
            let asked = async { tokio::try_join!(biased; held.batch_execute(BEGIN), try_join_all(all)) };
            let (rows, committed) = in_turn(asked, held.batch_execute("COMMIT")).await;
            let ((), rows) = rows?;
            committed?;
            Ok(rows.try_into().expect("each statement has its rows"))
        };
        let Ok(done) = tokio::time::timeout(STATEMENT_MAX, asked).await else {
            return Err(Failed::Lost("the database takes too long".into()));
        };
        crash::point("postgres.committed.after");
        match done {
            Ok(rows) => {
                held.give_back();
                Ok(rows)
            }
            Err(error) => Err(held.failed(Failed::of(&error)).await),
        }
    }
}

/// The server, as one that is asked so.
pub(crate) struct Committed<'s>(pub(crate) &'s Server);

impl Ask for Committed<'_> {
    type Row = Row;
    type Error = Failed;

    fn now(&self) -> Option<i64> {
        self.0.now()
    }

    async fn ask(&self, sql: &'static str, params: &Params<'_>, _: Unanswered) -> Result<Vec<Row>, Failed> {
        self.0.ask_committed(sql, params).await
    }
}

#[cfg(test)]
mod tests {
    use onefold_testkit::postgres::{Database, Isolation};
    use tokio_postgres::types::Type;

    use super::*;
    use crate::{Address, Options, PostgresStore};

    #[tokio::test]
    async fn nothing_is_committed_where_one_statement_cannot_be_written() {
        let what = "statements that cannot be written to PostgreSQL";
        let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
        database.execute("CREATE TABLE noted (n bigint)").await;
        let address = Address::parse(&database.url()).expect("an address");
        let store = PostgresStore::open(&address, Options::default()).await.expect("the store opens");
        let insert = "INSERT INTO noted VALUES ($1)";
        let fits: &Params<'_> = &[(&1_i64, Type::INT8)];
        let does_not: &Params<'_> = &[(&"one", Type::INT8)];
        for [one, two] in [[fits, does_not], [does_not, fits]] {
            let asked = store.server().ask_all_committed([(insert, one), (insert, two)]).await;
            assert!(asked.is_err(), "a text is no number");
            assert_eq!(database.ask("SELECT count(*) FROM noted").await, "0");
        }
        let asked = store.server().ask_all_committed([(insert, fits), (insert, fits)]).await;
        asked.expect("both can be written");
        assert_eq!(database.ask("SELECT count(*) FROM noted").await, "2");
    }
}
