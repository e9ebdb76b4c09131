//! Atomic mode in a transaction of the service's own.

use onefold::{Claim, Onefold, Verdict};
use rusqlite::{Connection, TransactionBehavior};

use crate::shop::{Shop, call};

const ORDER: &str = "INSERT INTO orders (sku) VALUES ('lamp')";

/// Places an order in a transaction of its own; `commits` says how that ends.
fn place(shop: &Shop, connection: &mut Connection, key: &str, commits: bool) -> Option<i64> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let done = match shop.onefold.claim::<i64>(&transaction, &call(key, "lamp")).unwrap() {
        Claim::Known(done) => done,
        Claim::Yours(claimed) => {
            transaction.execute(ORDER, []).unwrap();
            let number = transaction.last_insert_rowid();
            claimed.finish(&shop.onefold, &transaction, Verdict::succeeded(number)).unwrap()
        }
    };
    let (number, replayed) = (*done.value(), done.replayed());
    if commits {
        transaction.commit().unwrap();
    }
    replayed.then_some(number)
}

#[tokio::test(flavor = "multi_thread")]
async fn record_and_row_go_with_the_callers_commit_and_with_its_rollback() {
    let shop = Shop::open();
    let mut connection = shop.connection();
    assert_eq!(place(&shop, &mut connection, "k", false), None);
    assert_eq!(shop.orders(), 0);
    assert_eq!(place(&shop, &mut connection, "k", true), None, "the rollback freed the key");
    assert_eq!(place(&shop, &mut connection, "k", true), Some(1), "a duplicate, and its transaction is well");
    assert_eq!(shop.orders(), 1);
    // The other way of the library agrees.
    assert_eq!(*shop.place("k", "lamp").await.unwrap().value(), 1);
    assert!(shop.place("k", "chair").await.is_err(), "a conflict");
    assert_eq!(shop.orders(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn losing_the_claim_does_not_harm_the_callers_transaction() {
    let shop = Shop::open();
    shop.place("k", "lamp").await.unwrap();
    let mut connection = shop.connection();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    transaction.execute("INSERT INTO orders (sku) VALUES ('something else')", []).unwrap();
    let known = shop.onefold.claim::<i64>(&transaction, &call("k", "lamp")).unwrap();
    assert!(matches!(known, Claim::Known(done) if done.replayed()));
    assert!(shop.onefold.claim::<i64>(&transaction, &call("k", "chair")).is_err());
    transaction.commit().unwrap();
    assert_eq!(shop.orders(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_committed_without_its_end_is_not_performed_again() {
    let shop = Shop::open();
    let mut connection = shop.connection();
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let claim = shop.onefold.claim::<i64>(&transaction, &call("k", "lamp")).unwrap();
    assert!(matches!(claim, Claim::Yours(_)));
    transaction.commit().unwrap();
    let busy = shop.onefold.claim::<i64>(&connection.transaction().unwrap(), &call("k", "lamp"));
    assert!(busy.unwrap_err().to_string().contains("still running"));
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_with_connections_of_their_own_place_one_order_for_each_key() {
    let shop = Shop::open();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut connection = shop.connection();
                for key in 0..20 {
                    place(&shop, &mut connection, &format!("k-{key}"), true);
                }
            });
        }
    });
    assert_eq!(shop.orders(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_whose_commits_are_not_durable_or_on_another_file_is_refused() {
    let shop = Shop::open();
    let refused = |connection: &mut Connection| {
        let transaction = connection.transaction().unwrap();
        shop.onefold.claim::<i64>(&transaction, &call("k", "lamp")).unwrap_err().to_string()
    };
    let mut careless = Connection::open(&shop.path).unwrap();
    careless.pragma_update(None, "synchronous", "NORMAL").unwrap();
    assert!(refused(&mut careless).contains("synchronous = FULL"));
    let other = Shop::open();
    assert!(refused(&mut other.connection()).contains("another file"));
    assert!(refused(&mut Connection::open_in_memory().unwrap()).contains("another file"));
    drop(Onefold::sqlite(&shop.path).unwrap());
}
