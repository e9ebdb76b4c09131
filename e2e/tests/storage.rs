//! Section 15 of the cases: the store goes away and comes back (B129, for SQLite).

use std::time::{Duration, Instant};

use onefold_e2e::{ROUTE, assert_fresh, gateway, order, setup};
use onefold_testkit::{Gateway, Request, Upstream, wait};
use rusqlite::Connection;

/// Takes the store's write lock, as a runaway program would; dropping the connection gives it back.
fn lock(gateway: &Gateway) -> Connection {
    let connection = Connection::open(gateway.setup().store_path()).expect("opens the store");
    connection.busy_timeout(Duration::from_secs(10)).expect("a patient connection");
    connection.execute_batch("BEGIN EXCLUSIVE").expect("takes the lock");
    connection
}

#[tokio::test]
async fn b129_store_out_of_reach_fails_closed_and_recovers_by_itself() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    assert_fresh(&gateway.send(&order("k-before")).await, 200);
    let outage = lock(&gateway);
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
    drop(outage);
    for nth in 1..=3 {
        let key = format!("k-{nth}");
        wait::until_within(wait::DEADLINE, "the gateway has recovered", async || {
            gateway.send(&order(&key)).await.status == 200
        })
        .await;
    }
    assert_eq!(upstream.count(ROUTE), 4, "each key ran once");
}

#[tokio::test]
async fn b129_outage_is_visible_to_operators() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    assert_eq!(gateway.admin_get("/readyz").await.status, 200);
    let outage = lock(&gateway);
    assert_eq!(gateway.send(&order("k-1")).await.status, 503);
    assert!(gateway.metrics().await.sum("onefold_store_errors_total") >= 1.0);
    assert_eq!(gateway.admin_get("/readyz").await.status, 503, "writable is part of ready");
    assert_eq!(gateway.admin_get("/healthz").await.status, 200, "alive all the same");
    drop(outage);
    wait::until_within(wait::DEADLINE, "the gateway is ready again", async || {
        gateway.admin_get("/readyz").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn result_that_cannot_be_stored_still_reaches_the_caller_and_nothing_runs_again() {
    let upstream = Upstream::start().await;
    let lines = "while_running = { busy = true }\nlease = \"1s\"";
    let gateway = gateway(&upstream, lines).await;
    let gate = onefold_testkit::Gate::closed();
    upstream.next(ROUTE, onefold_testkit::Reply::count().hold_after(&gate));
    let first = onefold_e2e::parallel::send(order("k-1"), gateway.address());
    upstream.reached(ROUTE, 1).await;
    let outage = lock(&gateway);
    gate.open();
    let first = first.await.unwrap();
    assert_eq!((first.status, first.n()), (200, 1), "{first}");
    drop(outage);
    wait::until_within(wait::DEADLINE, "the key is settled", async || {
        let answer = gateway.send(&order("k-1")).await;
        answer.is_replay() || answer.problem().as_deref() == Some("outcome-unknown")
    })
    .await;
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn log_that_nobody_reads_does_not_keep_the_store_from_coming_back() {
    let upstream = Upstream::start().await;
    let gateway = setup(&upstream, "").arg("--log").arg("debug").log_reader_goes_away().start().await;
    assert_fresh(&gateway.send(&order("k-before")).await, 200);
    let outage = lock(&gateway);
    let begun = Instant::now();
    let refused = gateway.send(&order("k-1")).await;
    assert!((500..600).contains(&refused.status), "{refused}");
    let rest = Duration::from_secs(3).saturating_sub(begun.elapsed());
    wait::pass_time(rest, "the store is to be out of reach for three seconds").await;
    drop(outage);
    for nth in 2..=4 {
        let key = format!("k-{nth}");
        wait::until_within(wait::DEADLINE, "protected requests work again", async || {
            gateway.send(&order(&key)).await.status == 200
        })
        .await;
    }
    assert_eq!(upstream.count(ROUTE), 4, "each key ran once");
}
