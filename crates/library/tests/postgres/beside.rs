//! The service's own reads and writes on PostgreSQL, beside the boundary.

use onefold::messages::{Message, OutboxState};
use onefold::postgres::PostgresTx;
use onefold::{AccessError, Key};

use crate::shop::{Shop, insert};

fn note(id: &str) -> Message {
    Message {
        id: Key::new(id).unwrap(),
        destination: "notes".into(),
        address: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: Vec::new(),
    }
}

async fn count(tx: &mut PostgresTx) -> Result<i64, onefold::BoxError> {
    Ok(tx.query_opt("SELECT count(*) FROM orders", &[]).await?.ok_or("no row")?.get(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_there_whole_with_its_messages_or_not_at_all() {
    let Some(shop) = Shop::open().await else { return };
    let number = shop.onefold.write(async |tx: &mut PostgresTx| {
        tx.enqueue(&note("n-1")).await?;
        insert(tx, "lamp").await
    });
    assert_eq!(number.await.unwrap(), 1);
    assert_eq!(shop.onefold.outgoing("n-1").await.unwrap().unwrap().state, OutboxState::Waiting);
    let failed = shop.onefold.write(async |tx: &mut PostgresTx| {
        tx.enqueue(&note("n-2")).await?;
        insert(tx, "chair").await?;
        Err::<(), _>("no such chair".into())
    });
    assert!(matches!(failed.await, Err(AccessError::Closure(why)) if why.to_string() == "no such chair"));
    let goes_on = shop.onefold.write(async |tx: &mut PostgresTx| {
        insert(tx, "chair").await?;
        let _ = tx.execute("INSERT INTO nowhere VALUES (1)", &[]).await;
        Ok(())
    });
    assert!(
        matches!(goes_on.await, Err(AccessError::Stopped(_))),
        "an error that was swallowed commits nothing"
    );
    assert_eq!(shop.onefold.read(count).await.unwrap(), 1);
    assert!(shop.onefold.outgoing("n-2").await.unwrap().is_none());
    shop.has_no_open_transaction().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_deferred_constraint_refuses_at_the_commit_is_no_success() {
    let Some(shop) = Shop::open().await else { return };
    shop.database.execute("ALTER TABLE orders ADD UNIQUE (sku) DEFERRABLE INITIALLY DEFERRED").await;
    let twice = shop.onefold.write(async |tx: &mut PostgresTx| {
        insert(tx, "lamp").await?;
        insert(tx, "lamp").await
    });
    assert!(matches!(twice.await, Err(AccessError::Stopped(_))));
    assert_eq!(shop.count("orders").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_sees_one_state_and_writes_nothing() {
    let Some(shop) = Shop::open().await else { return };
    let other = shop.another_process().await;
    let seen = shop.onefold.read(async move |tx: &mut PostgresTx| {
        let first = count(tx).await?;
        other.write(async |tx: &mut PostgresTx| insert(tx, "lamp").await).await?;
        Ok((first, count(tx).await?))
    });
    assert_eq!(seen.await.unwrap(), (0, 0));
    assert_eq!(shop.onefold.read(count).await.unwrap(), 1);
    let written = shop.onefold.read(async |tx: &mut PostgresTx| insert(tx, "chair").await);
    assert!(written.await.is_err(), "it only reads");
    assert_eq!(shop.onefold.read(count).await.unwrap(), 1);
}
