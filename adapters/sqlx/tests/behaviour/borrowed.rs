//! A transaction of the caller's.

use onefold::sqlx::{Claimed, Error};
use onefold::{CallError, State, Verdict};
use onefold_testkit::postgres::Isolation;
use tokio::task::JoinSet;

use crate::example;
use crate::shop::{LEVELS, Shop, call, insert};

/// Places an order; `commits` says how the transaction ends. The number, and whether it is a replay.
async fn place(shop: &Shop, key: &str, commits: bool) -> Result<(i64, bool), Error> {
    let mut tx = shop.pool.begin().await?;
    let done = match shop.boundary.claim::<i64>(&mut tx, &call(key, "lamp")).await? {
        Claimed::Known(done) => done,
        Claimed::Begun(claim) => {
            let number = insert(&mut tx).await?;
            claim.succeed(&mut tx, number).await?
        }
    };
    match commits {
        true => tx.commit().await?,
        false => tx.rollback().await?,
    }
    Ok((*done.value(), done.replayed()))
}

#[tokio::test(flavor = "multi_thread")]
async fn record_and_row_go_with_the_callers_commit_and_with_its_rollback() {
    for level in LEVELS {
        let Some(shop) = Shop::open(level).await else { return };
        assert!(!place(&shop, "k", false).await.unwrap().1);
        assert_eq!((shop.orders().await, shop.records().await, shop.count("onefold.open").await), (0, 0, 0));
        let (number, replayed) = place(&shop, "k", true).await.unwrap();
        assert!(!replayed, "the rollback freed the key");
        assert_eq!(place(&shop, "k", true).await.unwrap(), (number, true));
        assert_eq!((shop.orders().await, shop.records().await, shop.count("onefold.open").await), (1, 1, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn losing_the_claim_does_not_harm_the_callers_transaction() {
    for level in LEVELS {
        let Some(shop) = Shop::open(level).await else { return };
        place(&shop, "k", true).await.unwrap();
        let mut tx = shop.pool.begin().await.unwrap();
        insert(&mut tx).await.unwrap();
        let known = shop.boundary.claim::<i64>(&mut tx, &call("k", "lamp")).await.unwrap();
        assert!(matches!(known, Claimed::Known(done) if done.replayed()));
        let conflict = shop.boundary.claim::<i64>(&mut tx, &call("k", "chair")).await.unwrap_err();
        let original = State::Succeeded;
        assert!(matches!(conflict, Error::Call(CallError::Conflict { original: o, .. }) if o == original));
        insert(&mut tx).await.expect("no 25P02");
        tx.commit().await.unwrap();
        assert_eq!(shop.orders().await, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b25_fifty_duplicates_at_once_are_one_row_and_one_number() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    let shop = std::sync::Arc::new(shop);
    for round in 0..5 {
        let mut calls = JoinSet::new();
        for _ in 0..50 {
            let shop = shop.clone();
            calls.spawn(async move { place(&shop, &format!("round-{round}"), true).await.unwrap() });
        }
        let placed = calls.join_all().await;
        assert_eq!(placed.iter().filter(|(_, replayed)| !replayed).count(), 1);
        assert!(placed.iter().all(|(number, _)| *number == placed[0].0));
    }
    assert_eq!((shop.orders().await, shop.records().await), (5, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_winners_rollback_the_one_who_waited_goes_in() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    let mut winner = shop.pool.begin().await.unwrap();
    let Claimed::Begun(claim) = shop.boundary.claim::<i64>(&mut winner, &call("k", "lamp")).await.unwrap()
    else {
        panic!("nobody was here before")
    };
    insert(&mut winner).await.unwrap();
    claim.succeed(&mut winner, 1).await.unwrap();
    let (pool, boundary) = (shop.pool.clone(), shop.boundary.clone());
    let waits = tokio::spawn(async move {
        let mut tx = pool.begin().await.unwrap();
        let claimed = boundary.claim::<i64>(&mut tx, &call("k", "lamp")).await.unwrap();
        matches!(claimed, Claimed::Begun(_))
    });
    let blocked = "SELECT count(*)::text FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let seen = async {
        while shop.database.ask(blocked).await == "0" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), seen).await.expect("the other waits");
    winner.rollback().await.unwrap();
    assert!(waits.await.unwrap(), "it did not take the rolled-back claim for an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commit_of_an_aborted_transaction_is_not_believed() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    let mut tx = shop.pool.begin().await.unwrap();
    let Claimed::Begun(claim) = shop.boundary.claim::<i64>(&mut tx, &call("k", "lamp")).await.unwrap() else {
        panic!("nobody was here before")
    };
    insert(&mut tx).await.unwrap();
    sqlx::query("SELECT 1 / 0").execute(&mut *tx).await.unwrap_err();
    let error = claim.succeed(&mut tx, 1).await.unwrap_err();
    assert!(matches!(&error, Error::Database(error) if error.to_string().contains("aborted")), "{error}");
    tx.commit().await.expect("what the driver says of the commit of an aborted transaction");
    assert_eq!((shop.orders().await, shop.records().await), (0, 0));
    assert!(!place(&shop, "k", true).await.unwrap().1, "the key is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_committed_without_its_end_is_not_performed_again() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    let mut tx = shop.pool.begin().await.unwrap();
    let claimed = shop.boundary.claim::<i64>(&mut tx, &call("k", "lamp")).await.unwrap();
    assert!(matches!(claimed, Claimed::Begun(_)));
    tx.commit().await.unwrap();
    let busy = place(&shop, "k", true).await.unwrap_err();
    assert!(matches!(busy, Error::Call(CallError::InProgress { .. })), "{busy}");
    assert_eq!(shop.orders().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_a_failed_attempt_has_freed_is_begun_again_as_the_next_attempt() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    place(&shop, "k", true).await.unwrap();
    shop.database.execute("UPDATE onefold.operations SET state = 4").await;
    let mut tx = shop.pool.begin().await.unwrap();
    let claimed = shop.boundary.claim::<i64>(&mut tx, &call("k", "another request")).await.unwrap();
    let Claimed::Begun(claim) = claimed else { panic!("the key is free") };
    assert_eq!(claim.attempt(), 2);
    claim.finish(&mut tx, Verdict::<i64>::rejected(7)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = shop.pool.begin().await.unwrap();
    let known = shop.boundary.claim::<i64>(&mut tx, &call("k", "another request")).await.unwrap();
    assert!(matches!(known, Claimed::Known(done) if done.rejected() && *done.value() == 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_places_one_order_for_each_checkout() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    shop.database.execute("DROP TABLE orders").await;
    example::run(&shop.database.url()).await.unwrap();
    assert_eq!(shop.orders().await, 2);
}
