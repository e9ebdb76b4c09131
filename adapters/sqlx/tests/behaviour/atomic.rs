//! A transaction of the adapter's over the service's pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold::sqlx::Error;
use onefold::{BoxError, CallError, Verdict};
use onefold_testkit::postgres::Isolation;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::shop::{LEVELS, Shop, call, insert};

async fn place(shop: &Shop, key: &str) -> Result<(i64, bool), Error> {
    let done = shop.boundary.atomic(&shop.pool, call(key, "lamp"), |connection| {
        Box::pin(async move { Ok(Verdict::succeeded(insert(connection).await?)) })
    });
    let done = done.await?;
    Ok((*done.value(), done.replayed()))
}

#[tokio::test(flavor = "multi_thread")]
async fn b25_fifty_duplicates_at_once_are_one_row_at_every_level_of_isolation() {
    for level in LEVELS {
        let Some(shop) = Shop::open(level).await else { return };
        let shop = Arc::new(shop);
        let mut calls = JoinSet::new();
        for _ in 0..50 {
            let shop = shop.clone();
            calls.spawn(async move { place(&shop, "k").await });
        }
        let placed: Vec<_> = calls.join_all().await.into_iter().map(|placed| placed.unwrap()).collect();
        assert_eq!(placed.iter().filter(|(_, replayed)| !replayed).count(), 1);
        assert!(placed.iter().all(|(number, _)| *number == placed[0].0));
        assert_eq!((shop.orders().await, shop.records().await), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_database_wants_run_again_is_run_again_whole_and_nothing_else_is() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    for (code, runs_wanted) in [("40001", 3), ("40P01", 3), ("23505", 1)] {
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let done = shop.boundary.atomic(&shop.pool, call(code, "lamp"), move |connection| {
            let run = counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                let number = insert(connection).await?;
                if run < 2 {
                    let raise = format!("DO $$ BEGIN RAISE 'no' USING ERRCODE = '{code}'; END $$");
                    sqlx::query(sqlx::AssertSqlSafe(raise)).execute(&mut *connection).await?;
                }
                Ok(Verdict::succeeded(number))
            })
        });
        let done = done.await;
        assert_eq!(runs.load(Ordering::SeqCst), runs_wanted, "{code}");
        assert_eq!(done.is_ok(), runs_wanted > 1, "{code}");
    }
    assert_eq!((shop.orders().await, shop.records().await), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_and_a_panic_and_a_swallowed_error_leave_nothing_and_the_key_is_free() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    for end in 0..4 {
        let done = shop.boundary.atomic::<i64, _>(&shop.pool, call("k", "lamp"), move |connection| {
            Box::pin(async move {
                let number = insert(connection).await?;
                match end {
                    0 => Err("the supplier is closed".into()),
                    1 => panic!("a bug of the business"),
                    2 => Ok(Verdict::not_done("no stock")),
                    _ => {
                        let _ = sqlx::query("SELECT 1 / 0").execute(&mut *connection).await;
                        Ok(Verdict::succeeded(number))
                    }
                }
            })
        });
        let error = done.await.unwrap_err();
        let not_done = matches!(&error, Error::Call(CallError::NotDone { .. }));
        assert!(not_done || end == 3 && matches!(&error, Error::Database(_)), "{end}: {error}");
    }
    assert_eq!((shop.orders().await, shop.records().await), (0, 0));
    assert!(!place(&shop, "k").await.unwrap().1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_remembered_without_its_writes() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    for replayed in [false, true] {
        let done = shop.boundary.atomic(&shop.pool, call("k", "lamp"), |connection| {
            Box::pin(async move {
                insert(connection).await?;
                Ok(Verdict::rejected("no such article".to_owned()))
            })
        });
        let done = done.await.unwrap();
        assert_eq!(
            (done.rejected(), done.replayed(), done.value().as_str()),
            (true, replayed, "no such article")
        );
    }
    assert_eq!((shop.orders().await, shop.records().await), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn b38_a_caller_that_goes_away_cancels_nothing() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    let shop = Arc::new(shop);
    let (begun, begins) = tokio::sync::oneshot::channel();
    let (lets_go, goes_on) = tokio::sync::oneshot::channel::<()>();
    let mut once = Some((begun, goes_on));
    let (pool, boundary) = (shop.pool.clone(), shop.boundary.clone());
    let caller = tokio::spawn(async move {
        let work = boundary.atomic(&pool, call("k", "lamp"), move |connection| {
            let (begun, goes_on) = once.take().expect("one run");
            Box::pin(async move {
                begun.send(()).unwrap();
                goes_on.await?;
                Ok(Verdict::succeeded(insert(connection).await?))
            })
        });
        work.await.map(|done| *done.value())
    });
    begins.await.unwrap();
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    lets_go.send(()).expect("the work still runs");
    assert!(place(&shop, "k").await.unwrap().1, "the duplicate waits for it");
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b52_empty_results_come_back_as_they_were() {
    let Some(shop) = Shop::open(Isolation::ReadCommitted).await else { return };
    async fn twice<T>(shop: &Shop, key: &str, value: T)
    where
        T: Serialize + DeserializeOwned + Clone + PartialEq + std::fmt::Debug + Send + Sync + 'static,
    {
        for replayed in [false, true] {
            let given = value.clone();
            let done = shop.boundary.atomic(&shop.pool, call(key, "lamp"), move |_| {
                let given = given.clone();
                Box::pin(async move { Ok::<_, BoxError>(Verdict::succeeded(given)) })
            });
            let done = done.await.unwrap();
            assert_eq!((done.value(), done.replayed()), (&value, replayed));
        }
    }
    twice(&shop, "unit", ()).await;
    twice(&shop, "zero", 0_i64).await;
    twice(&shop, "no", false).await;
    twice(&shop, "text", String::new()).await;
    twice(&shop, "list", Vec::<i64>::new()).await;
    twice(&shop, "none", None::<i64>).await;
}
