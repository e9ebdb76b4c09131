//! Section 15 of the cases: the store goes away and comes back (B129), a locked file and a killed server.

use std::time::{Duration, Instant};

use onefold_e2e::kill_clients::Clients;
use onefold_e2e::order_service::{Keys, OrderService};
use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, order, parallel, setup};
use onefold_testkit::{FragileStore, Gate, Reply, Request, Setup, Upstream, on_each_outage, wait};

on_each_outage!(
    b129_store_out_of_reach_fails_closed_and_recovers_by_itself,
    b129_outage_is_visible_to_operators,
    b129_result_that_cannot_be_stored_still_reaches_the_caller_and_nothing_runs_again,
    b129_outage_under_load_acknowledges_nothing_twice_and_ends_by_itself,
    log_that_nobody_reads_does_not_keep_the_store_from_coming_back,
);

const CLIENTS: usize = 8;

async fn b129_store_out_of_reach_fails_closed_and_recovers_by_itself(mut store: FragileStore) {
    let upstream = Upstream::start().await;
    let gateway = setup(&upstream, "").store_url(store.url()).start().await;
    let before = gateway.send(&order("k-before")).await;
    assert_fresh(&before, 200);
    store.go_away();
    for nth in 1..=3 {
        let answer = gateway.send(&order(&format!("k-{nth}"))).await;
        assert_eq!(
            (answer.status, answer.problem().as_deref()),
            (503, Some("store-unavailable")),
            "{answer}"
        );
        assert!(answer.retry_after().is_some_and(|seconds| seconds >= 1), "{answer}");
    }
    assert_eq!(upstream.count(ROUTE), 1, "nothing ran without a claim");
    assert_fresh(&gateway.send(&Request::post("/notes").json("{}")).await, 200);
    assert_fresh(&gateway.send(&Request::get("/notes")).await, 200);
    store.come_back();
    for nth in 1..=3 {
        let request = order(&format!("k-{nth}"));
        let again = wait::some(wait::DEADLINE, "the gateway has recovered", async || {
            let answer = gateway.send(&request).await;
            (answer.status == 200).then_some(answer)
        })
        .await;
        assert!(!again.is_replay(), "it was never executed: {again}");
    }
    assert_replay(&gateway.send(&order("k-before")).await, &before);
    assert_eq!(upstream.count(ROUTE), 4, "each key ran once");
}

async fn b129_outage_is_visible_to_operators(mut store: FragileStore) {
    let upstream = Upstream::start().await;
    let gateway = setup(&upstream, "").store_url(store.url()).start().await;
    assert_eq!(gateway.admin_get("/readyz").await.status, 200);
    store.go_away();
    assert_eq!(gateway.send(&order("k-1")).await.status, 503);
    assert!(gateway.metrics().await.sum("onefold_store_errors_total") >= 1.0);
    assert_eq!(gateway.admin_get("/readyz").await.status, 503, "writable is part of ready");
    assert_eq!(gateway.admin_get("/healthz").await.status, 200, "alive all the same");
    store.come_back();
    wait::until_within(wait::DEADLINE, "the gateway is ready again", async || {
        gateway.admin_get("/readyz").await.status == 200
    })
    .await;
}

async fn b129_result_that_cannot_be_stored_still_reaches_the_caller_and_nothing_runs_again(
    mut store: FragileStore,
) {
    let upstream = Upstream::start().await;
    let lines = "while_running = { busy = true }\nlease = \"1s\"";
    let gateway = setup(&upstream, lines).store_url(store.url()).start().await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_after(&gate));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.reached(ROUTE, 1).await;
    store.go_away();
    gate.open();
    let first = first.await.unwrap();
    assert_eq!((first.status, first.n()), (200, 1), "{first}");
    store.come_back();
    wait::until_within(wait::DEADLINE, "the key is settled", async || {
        let answer = gateway.send(&order("k-1")).await;
        answer.is_replay() || answer.problem().as_deref() == Some("outcome-unknown")
    })
    .await;
    assert_eq!(upstream.count(ROUTE), 1);
}

async fn b129_outage_under_load_acknowledges_nothing_twice_and_ends_by_itself(mut store: FragileStore) {
    let service = OrderService::start(Keys::Ignored, 7).await;
    let own = Setup::new(&service.url()).operation("CreateOrder", "POST", ROUTE, "lease = \"1s\"");
    let gateway = own.store_url(store.url()).start().await;
    let clients = Clients::start(CLIENTS, gateway.address());
    wait::until("orders are placed", || service.orders().len() > 16).await;
    store.go_away();
    let refused = wait::some(wait::DEADLINE, "the store is missed", async || {
        let answer = gateway.send(&order("during")).await;
        (answer.status == 503).then_some(answer)
    })
    .await;
    assert_problem(&refused, 503, "store-unavailable");
    wait::pass_time(Duration::from_secs(3), "the store is to be out of reach under load").await;
    let during = service.orders().len();
    for n in 0..20 {
        // Nothing that is not protected notices.
        assert_eq!(gateway.send(&Request::get(&format!("/notes/{n}"))).await.status, 200);
    }
    assert_eq!(service.orders().len(), during, "nothing runs without a claim");
    store.come_back();
    wait::until("orders are placed again", || service.orders().len() > during + 16).await;
    let ledger = clients.finish(Duration::from_secs(60)).await;
    assert!(ledger.unexpected.is_empty(), "{:?}", ledger.unexpected);
    // Of what ran when the store went away the answer could not be kept, and nobody runs it again.
    let mut unkept = 0;
    for (key, first) in &ledger.acknowledged {
        let again = gateway.send(&order(key)).await;
        match again.problem().as_deref() {
            Some("in-progress" | "outcome-unknown") => unkept += 1,
            _ => assert_replay(&again, first),
        }
    }
    assert!(unkept <= CLIENTS, "{unkept} of {}", ledger.acknowledged.len());
    let twice: Vec<_> = service.orders().into_iter().filter(|(_, numbers)| numbers.len() > 1).collect();
    assert!(twice.is_empty(), "keys with two orders: {twice:?}");
}

async fn log_that_nobody_reads_does_not_keep_the_store_from_coming_back(mut store: FragileStore) {
    let upstream = Upstream::start().await;
    let own = setup(&upstream, "").store_url(store.url());
    let gateway = own.arg("--log").arg("debug").log_reader_goes_away().start().await;
    assert_fresh(&gateway.send(&order("k-before")).await, 200);
    store.go_away();
    let begun = Instant::now();
    let refused = gateway.send(&order("k-1")).await;
    assert!((500..600).contains(&refused.status), "{refused}");
    let rest = Duration::from_secs(3).saturating_sub(begun.elapsed());
    wait::pass_time(rest, "the store is to be out of reach for three seconds").await;
    store.come_back();
    for nth in 2..=4 {
        let key = format!("k-{nth}");
        wait::until_within(wait::DEADLINE, "protected requests work again", async || {
            gateway.send(&order(&key)).await.status == 200
        })
        .await;
    }
    assert_eq!(upstream.count(ROUTE), 4, "each key ran once");
}
