//! Results come back as the values and types that they were.

use std::fmt::Debug;

use onefold::{CallError, Onefold, State, Verdict};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::shop::{Shop, call, operation};

async fn comes_back<T>(onefold: &Onefold, key: &str, value: T)
where
    T: Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync + 'static,
{
    for replayed in [false, true, true] {
        let result = value.clone();
        let done =
            onefold.atomic(call(key, "r"), move |_| Ok(Verdict::succeeded(result.clone()))).await.unwrap();
        assert_eq!((done.value(), done.replayed()), (&value, replayed), "{key}");
    }
    let (reserved, result) = (format!("{key}-reserved"), value.clone());
    let work = move |_| async move { Ok(Verdict::succeeded(result)) };
    onefold.reserved(call(&reserved, "r"), work).await.unwrap();
    let again = onefold.reserved::<T, _, _>(call(&reserved, "r"), |_| async { unreachable!("it is done") });
    assert_eq!(again.await.unwrap().value(), &value, "{key}");
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    id: u64,
    note: Option<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn b52_empty_and_falsy_results_come_back_as_they_were() {
    let shop = Shop::open();
    let onefold = &shop.onefold;
    comes_back(onefold, "unit", ()).await;
    comes_back(onefold, "zero", 0_i32).await;
    comes_back(onefold, "false", false).await;
    comes_back(onefold, "empty text", String::new()).await;
    comes_back(onefold, "none", None::<String>).await;
    comes_back(onefold, "some empty", Some(String::new())).await;
    comes_back(onefold, "empty list", Vec::<u8>::new()).await;
    comes_back(onefold, "error", Err::<(), String>(String::new())).await;
    comes_back(onefold, "order", Order { id: u64::MAX, note: None }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_an_unknown_version_is_an_error_that_names_it_and_nothing_runs_again() {
    let shop = Shop::open();
    let make = |version| operation().value_version(version).call(onefold::Scope::shared(), "k", "r").unwrap();
    shop.onefold.atomic(make(3), |_| Ok(Verdict::succeeded(7))).await.unwrap();
    for known in [2, 4] {
        let read = shop.onefold.atomic::<i32, _>(make(known), |_| unreachable!("it is done")).await;
        let error = read.unwrap_err();
        assert!(matches!(error, CallError::ValueUnreadable { stored: 3, .. }), "{error}");
        assert!(error.to_string().contains("version 3"), "{error}");
        assert!(!error.new_key_is_safe());
    }
    let other_type = shop.onefold.atomic::<Order, _>(make(3), |_| unreachable!("it is done")).await;
    assert!(matches!(other_type, Err(CallError::ValueUnreadable { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_an_older_version_is_upgraded_where_the_operation_says_how() {
    let shop = Shop::open();
    let old = operation().call(onefold::Scope::shared(), "k", "r").unwrap();
    shop.onefold.atomic(old, |_| Ok(Verdict::succeeded(7_u64))).await.unwrap();
    let newer = operation()
        .value_version(2)
        .upgrade(|version, id| (version == 1).then(|| serde_json::json!({"id": id, "note": null})));
    let call = newer.call(onefold::Scope::shared(), "k", "r").unwrap();
    let order = shop.onefold.atomic::<Order, _>(call, |_| unreachable!("it is done")).await.unwrap();
    assert_eq!(order.value(), &Order { id: 7, note: None });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_would_not_come_back_is_refused_before_anything_is_committed() {
    let shop = Shop::open();
    let refused = shop.onefold.atomic(call("k", "r"), |tx| {
        crate::shop::insert(tx, "lamp")?;
        Ok(Verdict::succeeded(f64::NAN))
    });
    assert!(matches!(refused.await, Err(CallError::NotDone { retryable: false, .. })));
    assert_eq!(shop.orders(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_cannot_be_kept_after_an_effect_elsewhere_is_given_and_nothing_runs_again() {
    let shop = Shop::open();
    for (key, value) in [("nan", f64::NAN), ("number", 1.5)] {
        let done =
            shop.onefold.reserved(call(key, "r"), move |_| async move { Ok(Verdict::succeeded(value)) });
        assert_eq!(done.await.unwrap().value().is_nan(), key == "nan");
    }
    let again =
        shop.onefold.reserved::<f64, _, _>(call("nan", "r"), |_| async { unreachable!("it is done") });
    assert!(matches!(again.await, Err(CallError::ValueNotKept { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_longer_than_the_operation_keeps_is_given_to_the_first_caller_alone() {
    let shop = Shop::open();
    let long = "x".repeat(2 << 20);
    let result = long.clone();
    let done =
        shop.onefold.atomic(call("k", "r"), move |_| Ok(Verdict::succeeded(result.clone()))).await.unwrap();
    assert_eq!(done.value(), &long);
    let again = shop.onefold.atomic::<String, _>(call("k", "r"), |_| unreachable!("it is done")).await;
    let Err(CallError::ValueNotKept { state, reason, .. }) = again else { panic!("{again:?}") };
    assert_eq!((state, reason), (State::Succeeded, "too_big"));
}
