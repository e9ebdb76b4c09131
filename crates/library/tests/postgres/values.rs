//! Results come back as the values and types that they were, from memory and from the database.

use std::fmt::Debug;

use onefold::postgres::PostgresTx;
use onefold::{CallError, Verdict};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::shop::{Shop, call, insert};

async fn comes_back<T>(shop: &Shop, key: &str, value: T)
where
    T: Serialize + DeserializeOwned + Clone + PartialEq + Debug + Send + Sync + 'static,
{
    for (replayed, onefold) in
        [(false, shop.onefold.clone()), (true, shop.onefold.clone()), (true, shop.another_process().await)]
    {
        let result = value.clone();
        let work = async move |_: &mut PostgresTx| Ok(Verdict::succeeded(result));
        let done = onefold.atomic(call(key, "r"), work).await.unwrap();
        assert_eq!((done.value(), done.replayed()), (&value, replayed), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b52_empty_and_falsy_results_come_back_as_they_were() {
    let Some(shop) = Shop::open().await else { return };
    comes_back(&shop, "unit", ()).await;
    comes_back(&shop, "zero", 0_i32).await;
    comes_back(&shop, "false", false).await;
    comes_back(&shop, "empty text", String::new()).await;
    comes_back(&shop, "none", None::<String>).await;
    comes_back(&shop, "some empty", Some(String::new())).await;
    comes_back(&shop, "empty list", Vec::<u8>::new()).await;
    comes_back(&shop, "error", Err::<(), String>(String::new())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_would_not_come_back_is_refused_before_anything_is_committed() {
    let Some(shop) = Shop::open().await else { return };
    let work = async |tx: &mut PostgresTx| {
        insert(tx, "lamp").await?;
        Ok(Verdict::succeeded(f64::NAN))
    };
    let error = shop.onefold.atomic(call("k", "lamp"), work).await.unwrap_err();
    assert!(matches!(error, CallError::NotDone { retryable: false, .. }), "{error}");
    assert_eq!(shop.orders_and_records().await, (0, 0));
}
