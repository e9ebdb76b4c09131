//! One statement in a transaction at READ COMMITTED, whatever the isolation of the database's transactions is.
//!
//! Functions about messages take locks and then look: at READ COMMITTED each of their statements sees what was
//! committed before it. The three messages go out at once and cost one round trip. What could not be written is
//! rolled back; an answer that was lost is told as such.

use tokio_postgres::Row;

use crate::ask::Ask;
use crate::error::Failed;
use crate::held::Held;
use crate::server::{Params, RERUNS_MAX, STATEMENT_MAX, Server, Unanswered, pause};

/// Begins such a transaction.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

impl Server {
    /// Sends a statement in a transaction of its own, and again where it was overtaken.
    pub(crate) async fn ask_committed(&self, sql: &str, params: &Params<'_>) -> Result<Vec<Row>, Failed> {
        let mut reruns = 0;
        loop {
            match self.ask_committed_once(sql, params).await {
                Err(Failed::Rerun(_)) if reruns < RERUNS_MAX => {
                    pause(reruns).await;
                    reruns += 1;
                }
                done => return done,
            }
        }
    }

    async fn ask_committed_once(&self, sql: &str, params: &Params<'_>) -> Result<Vec<Row>, Failed> {
        let held = Held::new(self.connection().await?);
        let asked = async {
            let statement = held.prepared(sql, params).await?;
            let (begun, rows, committed) = tokio::join!(
                biased;
                held.batch_execute(BEGIN),
                statement.query(&held, params),
                held.batch_execute("COMMIT")
            );
            let rows = begun.and(rows)?;
            committed.map(|()| rows)
        };
        let Ok(done) = tokio::time::timeout(STATEMENT_MAX, asked).await else {
            return Err(Failed::Lost("the database takes too long".into()));
        };
        let done = done.map_err(|error| Failed::of(&error));
        match &done {
            Err(failed) if failed.ends_connection() => drop(held),
            Err(_) => held.roll_back().await,
            Ok(_) => held.give_back(),
        }
        done
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
