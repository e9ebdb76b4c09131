//! Statements are prepared on connections that lead to one process of the server, and on no others.

mod asking;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use asking::{claim, open};
use onefold_core::Kept;
use onefold_store::{AtomicStore, Atomically, Ended, Entry, Finish};
use onefold_store_postgres::PostgresWork;
use onefold_testkit::pgbouncer;
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::skipped::skipped;

/// How many statements the session of a closure has prepared.
async fn prepared(url: &str) -> i64 {
    let store = open(url).await;
    let count = Arc::new(AtomicI64::new(-1));
    let seen = count.clone();
    let mut work = PostgresWork::new(move |tx| {
        let seen = seen.clone();
        Box::pin(async move {
            let rows = tx.query("SELECT count(*) FROM pg_prepared_statements", &[]).await.expect("it counts");
            seen.store(rows[0].get(0), Ordering::Relaxed);
            Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None }
        })
    });
    for key in ["one", "two"] {
        let entry = Entry::New(Box::new(claim(&store, key)));
        let ended = store.atomically(entry, &mut work).await.expect("the store works");
        assert!(matches!(ended, Atomically::Committed { .. }), "{ended:?}");
    }
    count.load(Ordering::Relaxed)
}

#[tokio::test]
async fn straight_to_the_server_statements_are_prepared() {
    let what = "prepared statements on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    assert!(prepared(&database.url()).await > 0);
}

/// Its server connections are everybody's: a name there may mean another client's statement.
#[tokio::test]
async fn behind_a_pooler_nothing_is_prepared() {
    let what = "statements behind PgBouncer";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    match pgbouncer::shared() {
        Ok(pooler) => assert_eq!(prepared(&database.url_at(&pooler)).await, 0),
        Err(why) => skipped(what, &why),
    }
}
