//! What a closure may read and then write. Decided in the statement, or behind an update of the row, it is exact on
//! both databases; decided by what a query has read it is as the database isolates its transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use onefold::any::{AnyStore, AnyTx};
use onefold::postgres::Work;
use onefold::{BoxError, Onefold, Verdict};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::{Store, on_each_store};
use tokio::sync::Barrier;

use crate::call;

async fn stock(url: &str, lamps: i64) -> Onefold<AnyStore> {
    let onefold = Onefold::any(url).await.expect("the store opens");
    let table = "CREATE TABLE stock (sku TEXT PRIMARY KEY, available BIGINT NOT NULL)";
    onefold.execute(table, &[]).await.expect("the table is made");
    onefold.execute("INSERT INTO stock VALUES ('lamp', $1)", &[&lamps]).await.expect("it is put there");
    onefold
}

/// So many of eight buyers, each under a key of his own, get one.
async fn sold(
    onefold: &Onefold<AnyStore>,
    sells: impl for<'a> Work<'a, bool, AnyTx> + Clone + Send + Sync + 'static,
) -> usize {
    let mut buyers = tokio::task::JoinSet::new();
    for buyer in 0..8 {
        let (onefold, sells) = (onefold.clone(), sells.clone());
        buyers.spawn(async move {
            let done = onefold.atomic(call(&format!("c{buyer}")), sells).await;
            *done.expect("it is decided").value()
        });
    }
    buyers.join_all().await.into_iter().filter(|sold| *sold).count()
}

async fn decision_in_the_statement_is_exact(store: &Store) {
    let onefold = stock(store.url(), 3).await;
    let sells = async |tx: &mut AnyTx| {
        let sql = "UPDATE stock SET available = available - 1 WHERE sku = 'lamp' AND available >= 1";
        Ok(match tx.execute(sql, &[]).await? {
            0 => Verdict::rejected(false),
            _ => Verdict::succeeded(true),
        })
    };
    assert_eq!((sold(&onefold, sells).await, available(&onefold).await), (3, 0));
}

async fn decision_in_the_closure_is_exact_behind_an_update_of_the_row(store: &Store) {
    let onefold = stock(store.url(), 3).await;
    let sells = async |tx: &mut AnyTx| {
        let locks = "UPDATE stock SET available = available WHERE sku = 'lamp' RETURNING available";
        let row = tx.query_opt(locks, &[]).await?;
        let available: i64 = row.ok_or("no lamp")?.get(0)?;
        if available < 1 {
            return Ok(Verdict::rejected(false));
        }
        tx.execute("UPDATE stock SET available = $1 WHERE sku = 'lamp'", &[&(available - 1)]).await?;
        Ok(Verdict::succeeded(true))
    };
    assert_eq!((sold(&onefold, sells).await, available(&onefold).await), (3, 0));
}

async fn available(onefold: &Onefold<AnyStore>) -> i64 {
    let row = onefold.query_opt("SELECT available FROM stock", &[]).await.expect("it is read");
    row.expect("a row").get(0).expect("a number")
}

/// Two closures sell the last lamp, each by what it has read. They meet in between, where they can.
async fn sold_of_the_last(onefold: &Onefold<AnyStore>, meeting: Option<Barrier>) -> usize {
    let meeting = Arc::new((meeting, AtomicU32::new(0)));
    let buys = async |buyer: &str| {
        let meeting = meeting.clone();
        let sells = async move |tx: &mut AnyTx| -> Result<Verdict<bool>, BoxError> {
            let row = tx.query_opt("SELECT available FROM stock WHERE sku = 'lamp'", &[]).await?;
            let available: i64 = row.ok_or("no lamp")?.get(0)?;
            // One that runs again is alone.
            if let (Some(barrier), runs) = &*meeting
                && runs.fetch_add(1, Ordering::Relaxed) < 2
            {
                barrier.wait().await;
            }
            if available < 1 {
                return Ok(Verdict::rejected(false));
            }
            tx.execute("UPDATE stock SET available = $1 WHERE sku = 'lamp'", &[&(available - 1)]).await?;
            Ok(Verdict::succeeded(true))
        };
        *onefold.atomic(call(buyer), sells).await.expect("it is decided").value()
    };
    let (first, second) = tokio::join!(buys("c1"), buys("c2"));
    usize::from(first) + usize::from(second)
}

on_each_store!(
    decision_in_the_statement_is_exact,
    decision_in_the_closure_is_exact_behind_an_update_of_the_row,
);

#[tokio::test]
async fn decision_behind_a_query_is_exact_in_a_file() {
    let store = Store::sqlite();
    let onefold = stock(store.url(), 1).await;
    assert_eq!(sold_of_the_last(&onefold, None).await, 1);
}

#[tokio::test]
async fn decision_behind_a_query_is_as_the_server_isolates() {
    for (isolation, sold) in
        [(Isolation::ReadCommitted, 2), (Isolation::RepeatableRead, 1), (Isolation::Serializable, 1)]
    {
        let what = "decisions of a closure on PostgreSQL";
        let Some(database) = Database::create(what, isolation).await else { return };
        let onefold = stock(&database.url(), 1).await;
        assert_eq!(sold_of_the_last(&onefold, Some(Barrier::new(2))).await, sold, "{isolation:?}");
    }
}
