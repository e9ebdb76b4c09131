//! Atomic mode: one committed effect, whoever asks and how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold::{CallError, KeyTime, Onefold, Scope, State, Verdict};
use tokio::task::JoinSet;

use crate::shop::{Shop, call, insert, operation};

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_gets_the_first_ones_result_from_memory_and_from_the_file() {
    let shop = Shop::open();
    let first = shop.place("k", "lamp").await.unwrap();
    assert!(!first.replayed());
    let other_process = Onefold::sqlite(&shop.path).unwrap();
    for onefold in [shop.onefold.clone(), other_process] {
        let again =
            onefold.atomic::<i64, _>(call("k", "lamp"), |_| unreachable!("it is done")).await.unwrap();
        assert_eq!((again.value(), again.replayed(), again.id()), (first.value(), true, first.id()));
    }
    assert_eq!(shop.orders(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn b22_another_request_under_the_key_is_a_conflict_from_memory_and_from_the_file() {
    let shop = Shop::open();
    shop.place("k", "lamp").await.unwrap();
    let other_process = Onefold::sqlite(&shop.path).unwrap();
    for onefold in [&shop.onefold, &shop.onefold, &other_process, &other_process] {
        let conflict = onefold.atomic::<i64, _>(call("k", "chair"), |_| unreachable!("a conflict")).await;
        let error = conflict.unwrap_err();
        assert!(matches!(error, CallError::Conflict { original: State::Succeeded, .. }), "{error}");
        assert!(!error.new_key_is_safe());
        assert!(onefold.atomic::<i64, _>(call("k", "lamp"), |_| unreachable!()).await.unwrap().replayed());
    }
    assert_eq!(shop.orders(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_a_panic_and_not_done_leave_nothing_and_the_key_is_free_for_any_request() {
    let shop = Shop::open();
    for end in 0..4 {
        let ended = shop.onefold.atomic::<i64, _>(call("k", &format!("request {end}")), move |tx| {
            insert(tx, "lamp")?;
            match end {
                0 => Err("the supplier is closed".into()),
                1 => panic!("a bug of the business"),
                2 => Ok(Verdict::not_done("no stock")),
                _ => Ok(Verdict::unknown("the rollback knows better")),
            }
        });
        let error = ended.await.unwrap_err();
        assert!(matches!(error, CallError::NotDone { .. }) && error.new_key_is_safe(), "{error}");
    }
    assert_eq!(shop.orders(), 0);
    assert!(!shop.place("k", "lamp").await.unwrap().replayed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_is_remembered_with_its_value_and_without_its_writes() {
    let shop = Shop::open();
    for replayed in [false, true] {
        let refused = shop.onefold.atomic(call("k", "lamp"), |tx| {
            insert(tx, "lamp")?;
            Ok(Verdict::rejected("no such article".to_owned()))
        });
        let refused = refused.await.unwrap();
        assert_eq!((refused.rejected(), refused.replayed()), (true, replayed));
        assert_eq!(refused.value(), "no such article");
    }
    assert_eq!(shop.orders(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_winners_rollback_the_next_of_those_who_waited_goes_in() {
    let shop = Arc::new(Shop::open());
    let runs = Arc::new(AtomicUsize::new(0));
    let mut calls = JoinSet::new();
    for _ in 0..16 {
        let (shop, runs) = (shop.clone(), runs.clone());
        calls.spawn(async move {
            let placed = shop.onefold.atomic(call("k", "lamp"), move |tx| {
                let number = insert(tx, "lamp")?;
                if runs.fetch_add(1, Ordering::SeqCst) < 3 {
                    Err("not yet".into())
                } else {
                    Ok(Verdict::succeeded(number))
                }
            });
            placed.await
        });
    }
    let ended = calls.join_all().await;
    assert_eq!(ended.iter().filter(|ended| ended.is_err()).count(), 3);
    assert_eq!((runs.load(Ordering::SeqCst), shop.orders()), (4, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_error_runs_the_whole_closure_again_and_no_other_error_does() {
    let shop = Shop::open();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let placed = shop.onefold.atomic(call("k", "lamp"), move |tx| {
        let number = insert(tx, "lamp")?;
        if counted.fetch_add(1, Ordering::SeqCst) < 2 {
            let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
            return Err(rusqlite::Error::SqliteFailure(busy, None).into());
        }
        Ok(Verdict::succeeded(number))
    });
    assert!(!placed.await.unwrap().replayed());
    assert_eq!((runs.swap(0, Ordering::SeqCst), shop.orders()), (3, 1));

    let counted = runs.clone();
    let failed = shop.onefold.atomic::<(), _>(call("other", "lamp"), move |tx| {
        counted.fetch_add(1, Ordering::SeqCst);
        tx.execute("INSERT INTO nowhere VALUES (1)", [])?;
        Ok(Verdict::succeeded(()))
    });
    assert!(matches!(failed.await, Err(CallError::NotDone { .. })));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn reruns_are_bounded_and_end_in_an_error_that_frees_nothing() {
    let shop = Shop::open();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let placed = shop.onefold.atomic::<(), _>(call("k", "lamp"), move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        Err(rusqlite::Error::SqliteFailure(busy, None).into())
    });
    assert!(matches!(placed.await, Err(CallError::StoreUnavailable(_))));
    assert!((2..=10).contains(&runs.load(Ordering::SeqCst)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_call_is_committed_whole_or_not_at_all() {
    let shop = Shop::open();
    for n in 0..50 {
        let key = format!("dropped-{n}");
        let mut placing = Box::pin(shop.place(&key, "lamp"));
        // Polled as often as it takes to be somewhere on its way.
        for _ in 0..n % 5 {
            if futures_poll(&mut placing).await {
                break;
            }
        }
        drop(placing);
        shop.place(&key, "lamp").await.unwrap();
    }
    assert_eq!(shop.orders(), 50);
}

async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
    tokio::select! {
        biased;
        _ = future => true,
        () = tokio::task::yield_now() => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b107_ten_times_more_calls_than_connections_end_and_hold_nothing() {
    let shop = Arc::new(Shop::open());
    let mut calls = JoinSet::new();
    for n in 0..400 {
        let shop = shop.clone();
        // Half of them are duplicates, and all of them read beside the writer too.
        calls.spawn(async move {
            let placed = shop.place(&format!("k-{}", n / 2), "lamp").await.unwrap();
            shop.onefold.engine().look(placed.id()).await.unwrap().expect("it has a record")
        });
    }
    assert_eq!(calls.join_all().await.len(), 400);
    assert_eq!(shop.orders(), 200);
    // Nobody is left in a transaction: another connection writes at once.
    shop.connection().execute_batch("PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; COMMIT").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_scopes_are_what_they_say() {
    let shop = Shop::open();
    for (scope, key) in [
        (Scope::new([("a", "b:c")]), "k"),
        (Scope::new([("a:b", "c")]), "k"),
        (Scope::shared(), "k"),
        (Scope::shared(), "K"),
        (Scope::shared(), "k "),
    ] {
        let call = operation().call(scope, key, "lamp").unwrap();
        let placed =
            shop.onefold.atomic(call, |tx| Ok(Verdict::succeeded(insert(tx, "lamp")?))).await.unwrap();
        assert!(!placed.replayed());
    }
    assert_eq!(shop.orders(), 5);
    for key in [String::new(), "x".repeat(256)] {
        assert!(matches!(operation().call(Scope::shared(), key, "lamp"), Err(CallError::KeyInvalid(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_says_itself_that_it_is_too_old_runs_nothing() {
    let shop = Shop::open();
    let made_in_2024 = "0190163d-8694-739b-aea5-966c26f8ad91";
    let expired = shop.place(made_in_2024, "lamp").await.unwrap_err();
    assert!(matches!(expired, CallError::Expired { .. }), "{expired}");
    let off = operation().key_time(KeyTime::Off).call(Scope::shared(), made_in_2024, "lamp").unwrap();
    shop.onefold.atomic(off, |tx| Ok(Verdict::succeeded(insert(tx, "lamp")?))).await.unwrap();
    assert_eq!(shop.orders(), 1);
}
