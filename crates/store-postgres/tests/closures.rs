//! Closures that leave their connection in the middle of something.

mod asking;

use std::time::Duration;

use asking::{claim, open};
use onefold_core::Kept;
use onefold_store::{AtomicStore, Atomically, Ended, Entry, Finish};
use onefold_store_postgres::PostgresWork;
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::wait::DEADLINE;
use tokio_postgres::NoTls;

#[tokio::test]
async fn statement_that_was_given_up_does_not_hold_up_the_rollback() {
    let what = "closures that give up a statement on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    database
        .execute("CREATE TABLE stock (sku text, left_over int); INSERT INTO stock VALUES ('lamp', 1)")
        .await;
    let (mut other, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    let held = other.transaction().await.expect("it begins");
    held.execute("UPDATE stock SET left_over = 0", &[]).await.expect("the row is locked");

    let store = open(&database.url()).await;
    let mut work = PostgresWork::new(|tx| {
        Box::pin(async move {
            let update = tx.execute("UPDATE stock SET left_over = left_over - 1", &[]);
            match tokio::time::timeout(Duration::from_millis(50), update).await {
                Ok(_) => Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None },
                Err(_) => Ended::NotDone,
            }
        })
    });
    let entry = || Entry::New(Box::new(claim(&store, "k")));
    let ended = tokio::time::timeout(DEADLINE, store.atomically(entry(), &mut work)).await;
    assert_eq!(ended.expect("it ends").expect("the store works"), Atomically::NotDone);

    held.rollback().await.expect("the row is free");
    let ended = loop {
        // The server ends what was given up only now.
        match store.atomically(entry(), &mut work).await.expect("the store works") {
            Atomically::NotDone | Atomically::Contended(_) => {}
            ended => break ended,
        }
    };
    assert!(matches!(ended, Atomically::Committed { .. }), "{ended:?}");
    assert_eq!(database.ask("SELECT left_over FROM stock").await, "0");
}
