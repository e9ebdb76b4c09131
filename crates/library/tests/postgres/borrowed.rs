//! Atomic mode in a transaction of the service's own.

use onefold::postgres::{Claim, PostgresStore};
use onefold::{CallError, Onefold, Verdict};
use tokio_postgres::Transaction;

use crate::shop::{Shop, call, place};

/// Places an order in the transaction, or gives the number of the one that was placed; whether it was a replay.
async fn place_in(onefold: &Onefold<PostgresStore>, transaction: &Transaction<'_>, key: &str) -> (i64, bool) {
    let done = match onefold.claim::<i64>(transaction, &call(key, "lamp")).await.unwrap() {
        Claim::Known(done) => done,
        Claim::Yours(claimed) => {
            let sql = "INSERT INTO orders (sku) VALUES ('lamp') RETURNING number";
            let number = transaction.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
            claimed.finish(onefold, transaction, Verdict::succeeded(number)).await.unwrap()
        }
    };
    (*done.value(), done.replayed())
}

#[tokio::test(flavor = "multi_thread")]
async fn record_and_row_go_with_the_callers_commit_and_with_its_rollback() {
    let Some(shop) = Shop::open().await else { return };
    let mut connection = shop.connection().await;
    let mut placed = None;
    for (commits, replayed) in [(false, false), (true, false), (true, true)] {
        let transaction = connection.transaction().await.unwrap();
        let (number, known) = place_in(&shop.onefold, &transaction, "k").await;
        assert_eq!(known, replayed, "a rollback frees the key and a commit does not");
        if commits {
            assert_eq!(*placed.get_or_insert(number), number);
            transaction.commit().await.unwrap();
        } else {
            transaction.rollback().await.unwrap();
        }
    }
    assert_eq!(shop.orders_and_records().await, (1, 1));
    // The other way of the library agrees.
    assert_eq!(Some(*shop.place("k", "lamp").await.unwrap().value()), placed);
    assert!(matches!(shop.place("k", "chair").await, Err(CallError::Conflict { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn losing_the_claim_does_not_harm_the_callers_transaction() {
    let Some(shop) = Shop::open().await else { return };
    shop.place("k", "lamp").await.unwrap();
    let mut connection = shop.connection().await;
    let transaction = connection.transaction().await.unwrap();
    transaction.execute("INSERT INTO orders (sku) VALUES ('something else')", &[]).await.unwrap();
    let known = shop.onefold.claim::<i64>(&transaction, &call("k", "lamp")).await.unwrap();
    assert!(matches!(known, Claim::Known(done) if done.replayed()));
    assert!(shop.onefold.claim::<i64>(&transaction, &call("k", "chair")).await.is_err());
    transaction.commit().await.unwrap();
    assert_eq!(shop.orders_and_records().await, (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closure_that_ran_beside_an_uncommitted_claim_is_undone_when_that_commits() {
    let Some(shop) = Shop::open().await else { return };
    for commits in [true, false] {
        let key = format!("commits-{commits}");
        let mut connection = shop.connection().await;
        let owner = connection.transaction().await.unwrap();
        let (number, _) = place_in(&shop.onefold, &owner, &key).await;
        let (onefold, same) = (shop.onefold.clone(), key.clone());
        let beside = tokio::spawn(async move { place(&onefold, &same, "lamp").await });
        shop.waits_for_locks(1).await;
        if commits {
            owner.commit().await.unwrap();
        } else {
            owner.rollback().await.unwrap();
        }
        let done = beside.await.unwrap().unwrap();
        assert_eq!((done.replayed(), *done.value() == number), (commits, commits));
    }
    assert_eq!(shop.orders_and_records().await, (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_committed_without_its_end_is_not_performed_again() {
    let Some(shop) = Shop::open().await else { return };
    let mut connection = shop.connection().await;
    let transaction = connection.transaction().await.unwrap();
    let claim = shop.onefold.claim::<i64>(&transaction, &call("k", "lamp")).await.unwrap();
    assert!(matches!(claim, Claim::Yours(_)));
    transaction.commit().await.unwrap();
    let transaction = connection.transaction().await.unwrap();
    let busy = shop.onefold.claim::<i64>(&transaction, &call("k", "lamp")).await;
    assert!(busy.unwrap_err().to_string().contains("still running"));
}
