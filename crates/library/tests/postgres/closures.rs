//! What a closure may do to its transaction, and what it leaves when it does something else.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use onefold::postgres::{Options, PostgresTx, TxError};
use onefold::{CallError, Verdict};
use onefold_testkit::postgres::Isolation;
use onefold_testkit::wait;
use tokio::time::timeout;

use crate::shop::{Runs, Shop, call, insert};

/// A pool of one: the connection of a closure that came to grief is the next one's, if it is not closed.
fn one_connection() -> Options {
    Options { connections_max: 1, closure_time_max: Duration::from_millis(300), ..Options::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_and_not_done_leave_nothing_and_the_key_is_free_for_any_request() {
    let Some(shop) = Shop::open().await else { return };
    for end in 0..3 {
        let work = async move |tx: &mut PostgresTx| {
            insert(tx, "lamp").await?;
            match end {
                0 => Err("the supplier is closed".into()),
                1 => Ok(Verdict::<i64>::not_done("no stock")),
                _ => Ok(Verdict::unknown("the rollback knows better")),
            }
        };
        let error = shop.onefold.atomic(call("k", &format!("request {end}")), work).await.unwrap_err();
        assert!(matches!(error, CallError::NotDone { retryable: true, .. }), "{error}");
        assert!(error.new_key_is_safe());
    }
    assert_eq!(shop.orders_and_records().await, (0, 0));
    assert!(!shop.place("k", "lamp").await.unwrap().replayed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_would_end_the_transaction_is_refused_and_nothing_is_written() {
    let Some(shop) = Shop::open_with(Isolation::ReadCommitted, one_connection()).await else { return };
    for sql in ["COMMIT", " ;/* for good */ End", "ROLLBACK", "SET SESSION synchronous_commit = off"] {
        let work = async move |tx: &mut PostgresTx| {
            insert(tx, "lamp").await?;
            match tx.execute(sql, &[]).await {
                Err(refused @ TxError::Refused(_)) => Err(refused.into()),
                other => Err(format!("{sql} was sent: {other:?}").into()),
            }
        };
        let error = shop.onefold.atomic::<(), _>(call("k", "lamp"), work).await.unwrap_err();
        assert!(matches!(error, CallError::NotDone { .. }), "{error}");
        assert_eq!(shop.orders_and_records().await, (0, 0), "{sql}: {error}");
        assert!(error.to_string().contains("is not for a closure"), "{error}");
    }
    shop.place("k", "lamp").await.unwrap();
    assert_eq!(shop.orders_and_records().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_behind_another_statement_or_in_a_block_is_an_error_of_the_server() {
    let Some(shop) = Shop::open().await else { return };
    for sql in ["SELECT 1; COMMIT", "DO $$ BEGIN COMMIT; END $$"] {
        let work = async move |tx: &mut PostgresTx| {
            insert(tx, "lamp").await?;
            let _ = tx.execute(sql, &[]).await;
            Ok(Verdict::succeeded(()))
        };
        let error = shop.onefold.atomic(call("k", "lamp"), work).await.unwrap_err();
        assert!(matches!(error, CallError::NotDone { retryable: false, .. }), "{error}");
        assert_eq!(shop.orders_and_records().await, (0, 0), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_and_an_overrun_leave_nothing_and_the_pool_is_of_use() {
    let Some(shop) = Shop::open_with(Isolation::ReadCommitted, one_connection()).await else { return };
    for panics in [true, false, true, false] {
        let work = async move |tx: &mut PostgresTx| {
            insert(tx, "lamp").await?;
            assert!(!panics, "a bug of the business");
            std::future::pending::<()>().await;
            Ok(Verdict::succeeded(()))
        };
        let ended = timeout(wait::DEADLINE, shop.onefold.atomic(call("k", "lamp"), work)).await;
        let error = ended.expect("it is stopped").unwrap_err();
        assert!(matches!(error, CallError::NotDone { retryable: false, .. }), "{error}");
        let told = if panics { "a bug of the business" } else { "for longer than 300ms" };
        assert!(error.to_string().contains(told), "{error}");
    }
    shop.has_no_open_transaction().await;
    assert_eq!(shop.orders_and_records().await, (0, 0));
    assert!(!shop.place("k", "lamp").await.unwrap().replayed());
    assert_eq!(shop.orders_and_records().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_statement_whose_error_is_swallowed_commits_nothing() {
    let Some(shop) = Shop::open().await else { return };
    let work = async |tx: &mut PostgresTx| {
        insert(tx, "lamp").await?;
        let _ = tx.execute("INSERT INTO nowhere VALUES (1)", &[]).await;
        Ok(Verdict::succeeded(()))
    };
    let error = shop.onefold.atomic(call("k", "lamp"), work).await.unwrap_err();
    assert!(matches!(error, CallError::NotDone { retryable: false, .. }), "{error}");
    assert!(error.to_string().contains("a statement of the closure failed"), "{error}");
    assert_eq!(shop.orders_and_records().await, (0, 0));
    assert!(!shop.place("k", "lamp").await.unwrap().replayed());
}

#[tokio::test(flavor = "multi_thread")]
async fn b60_a_serialization_failure_runs_the_whole_closure_again_and_no_other_error_does() {
    let Some(shop) = Shop::open_with(Isolation::RepeatableRead, Options::default()).await else { return };
    shop.database.execute("CREATE TABLE stock (n int); INSERT INTO stock VALUES (10)").await;
    let outside = Arc::new(shop.connection().await);
    for swallows in [false, true] {
        let (runs, sold) = (Runs::default(), outside.clone());
        let counted = runs.clone();
        let work = async move |tx: &mut PostgresTx| {
            let number = insert(tx, "lamp").await?;
            if counted.fetch_add(1, Ordering::SeqCst) < 2 {
                sold.execute("UPDATE stock SET n = n - 1", &[]).await?;
            }
            let taken = tx.execute("UPDATE stock SET n = n - 1", &[]).await;
            if !swallows {
                taken?;
            }
            Ok(Verdict::succeeded(number))
        };
        let done = shop.onefold.atomic(call(&format!("swallows-{swallows}"), "lamp"), work).await.unwrap();
        assert!(!done.replayed());
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    }
    assert_eq!(shop.orders_and_records().await, (2, 2));
    assert_eq!(shop.count("stock WHERE n = 4").await, 1);

    let runs = Runs::default();
    let counted = runs.clone();
    let failed = shop.onefold.atomic::<(), _>(call("other", "lamp"), async move |tx: &mut PostgresTx| {
        counted.fetch_add(1, Ordering::SeqCst);
        tx.execute("INSERT INTO nowhere VALUES (1)", &[]).await?;
        Ok(Verdict::succeeded(()))
    });
    assert!(matches!(failed.await, Err(CallError::NotDone { .. })));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
