//! Section 15: the store goes away and comes back.

use onefold_testkit::{FragileStore, Supplier, on_each_outage, wait};

use crate::service::{Service, assert_fresh, assert_problem, assert_replay, operation, order};

on_each_outage!(b129_store_out_of_reach_fails_closed_and_recovers_by_itself);

async fn b129_store_out_of_reach_fails_closed_and_recovers_by_itself(mut store: FragileStore) {
    let supplier = Supplier::default();
    let service = Service::start(store.url(), &supplier, &operation()).await;
    let before = service.send(&order("before")).await;
    assert_fresh(&before, 1);
    store.go_away();
    for nth in 1..=2 {
        let answer = service.send(&order(&format!("k-{nth}"))).await;
        assert_problem(&answer, 503, "store-unavailable");
        assert!(answer.retry_after().is_some_and(|seconds| seconds >= 1), "{answer}");
    }
    assert_eq!(supplier.times(), 1, "nothing ran without a claim");
    store.come_back();
    for nth in 1..=2 {
        let answer = wait::some(wait::DEADLINE, "the service has recovered", async || {
            let answer = service.send(&order(&format!("k-{nth}"))).await;
            (answer.status == 200).then_some(answer)
        })
        .await;
        assert_fresh(&answer, nth + 1);
    }
    assert_replay(&service.send(&order("before")).await, &before);
    assert_eq!(supplier.times(), 3);
}
