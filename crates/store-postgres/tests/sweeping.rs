//! The sweeper beside those who work.

mod asking;

use std::sync::Arc;
use std::time::Duration;

use asking::{claim, open_with, settle};
use onefold_core::{Scope, StoreTime};
use onefold_store::clock::ManualClock;
use onefold_store::{OperationStore, Swept};
use onefold_store_postgres::Options;
use onefold_testkit::postgres::{Database, Isolation};
use tokio::time::timeout;
use tokio_postgres::NoTls;

/// An open transaction of the caller's that made a claim holds its scope's counter for as long as it likes.
#[tokio::test]
async fn records_whose_counter_somebody_holds_are_passed_over_and_counted_right_later() {
    let what = "the sweeper on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let options = Options { test_clock: Some(clock.clone()), ..Options::default() };
    let store = open_with(&database.url(), options).await.expect("it opens");
    for n in 0..10 {
        for tenant in ["held", "free"] {
            let mut new = claim(&store, &format!("{tenant} {n}"));
            new.scope = Scope::new([("tenant", tenant)]);
            let id = new.id;
            store.claim(new).await.expect("the store works");
            store.advance(settle(id, b"x", None)).await.expect("the store works");
        }
    }
    let (mut client, connection) =
        tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    let holder = client.transaction().await.expect("it begins");
    let held =
        "SELECT FROM onefold.scopes WHERE bucket = (SELECT min(bucket) FROM onefold.scopes) FOR UPDATE";
    assert_eq!(holder.query(held, &[]).await.expect("it is held").len(), 1);

    clock.pass(Duration::from_secs(3601));
    let swept = timeout(Duration::from_secs(4), store.sweep(1000)).await.expect("it waits for nobody");
    assert_eq!(swept, Ok(Swept { tombstones: 10, deleted: 0 }));
    holder.rollback().await.expect("it ends");
    assert_eq!(store.sweep(1000).await, Ok(Swept::default()), "they come up again later");
    clock.pass(Duration::from_secs(2));
    assert_eq!(store.sweep(1000).await, Ok(Swept { tombstones: 10, deleted: 0 }));
    assert_eq!(database.ask("SELECT coalesce(sum(live), 0) FROM onefold.scopes").await, "0");
}
