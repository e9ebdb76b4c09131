//! Statements are prepared on connections that lead to one process of the server, and on no others.

mod asking;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use asking::{claim, open, open_with};
use onefold_core::Kept;
use onefold_store::{AtomicStore, Atomically, Ended, Entry, Finish};
use onefold_store_postgres::{Options, PostgresWork};
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

/// What forgets them is a function that a closure calls, or a schema that has changed; the connection is of no more
/// use.
#[tokio::test]
async fn connection_whose_statements_are_gone_is_not_used_again() {
    let what = "prepared statements that are gone, on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let options = Options { connections_max: 1, ..Options::default() };
    let store = open_with(&database.url(), options).await.expect("the store opens");
    let work = |sql: &'static str| {
        PostgresWork::new(move |tx| {
            Box::pin(async move {
                tx.execute(sql, &[]).await.expect("it runs");
                Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None }
            })
        })
    };
    let entry = |key| Entry::New(Box::new(claim(&store, key)));
    let ended = store.atomically(entry("first"), &mut work("SELECT 1")).await.expect("the store works");
    assert!(matches!(ended, Atomically::Committed { .. }), "all is prepared: {ended:?}");
    let mut forgets = work("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$");
    let ended = store.atomically(entry("one"), &mut forgets).await.expect("the store works");
    assert!(matches!(ended, Atomically::Contended(_)), "its record cannot be written there: {ended:?}");
    let ended = store.atomically(entry("one"), &mut work("SELECT 1")).await.expect("the store works");
    assert!(matches!(ended, Atomically::Committed { .. }), "{ended:?}");
}
