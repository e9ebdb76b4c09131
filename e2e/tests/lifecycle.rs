//! Starting and ending: signals, graces, restarts, ports.

use std::time::Duration;

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway, order, parallel, setup};
use onefold_testkit::{Connection, Gate, Reply, Upstream, wait};

#[tokio::test]
async fn idle_gateway_ends_with_0_on_sigterm_and_on_sigint() {
    let upstream = Upstream::start().await;
    let mut gateway = gateway(&upstream, "").await;
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    gateway.process().terminate();
    assert_eq!(gateway.ended(Duration::from_secs(10)).await.code(), Some(0));
    gateway.restart().await;
    gateway.process().interrupt();
    assert_eq!(gateway.ended(Duration::from_secs(10)).await.code(), Some(0));
}

#[tokio::test]
async fn idle_keep_alive_connections_do_not_hold_up_the_end() {
    let upstream = Upstream::start().await;
    let mut gateway = setup(&upstream, "").server("shutdown_grace = \"60s\"").start().await;
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    assert_fresh(&connection.exchange(&order("k-1")).await.unwrap(), 200);
    gateway.process().terminate();
    assert_eq!(gateway.ended(Duration::from_secs(10)).await.code(), Some(0));
}

#[tokio::test]
async fn running_request_finishes_within_the_grace() {
    let upstream = Upstream::start().await;
    let mut gateway = gateway(&upstream, "").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.received(ROUTE, 1).await;
    gateway.process().terminate();
    let address = gateway.address();
    wait::until_within(wait::DEADLINE, "new connections are refused", async || {
        Connection::open(address).await.is_err()
    })
    .await;
    assert!(gateway.is_running(), "ended before its request");
    let ready = gateway.admin_get("/readyz").await;
    assert_eq!((ready.status, ready.text().as_str()), (503, "not ready: stopping\n"));
    gate.open();
    let first = first.await.unwrap();
    assert_fresh(&first, 200);
    assert_eq!(gateway.ended(Duration::from_secs(10)).await.code(), Some(0));
    gateway.restart().await;
    assert_replay(&gateway.send(&order("k-1")).await, &first);
}

#[tokio::test]
async fn request_cut_by_the_grace_is_unknown_and_the_exit_code_says_so() {
    let upstream = Upstream::start().await;
    let mut gateway = setup(&upstream, "").server("shutdown_grace = \"1s\"").start().await;
    upstream.next(ROUTE, Reply::count().hold_after(&Gate::closed()));
    let address = gateway.address();
    let first = tokio::spawn(async move { order("k-1").try_send(address).await });
    upstream.reached(ROUTE, 1).await;
    gateway.process().terminate();
    assert_eq!(gateway.ended(Duration::from_secs(15)).await.code(), Some(1));
    if let Ok(answer) = first.await.unwrap() {
        assert!(answer.status >= 500, "nothing is known to have succeeded: {answer}");
    }
    // Marked at the end, not only after the lease of 30 s.
    assert_eq!(gateway.operations_in("outcome_unknown").await.len(), 1);
    gateway.restart().await;
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn results_survive_a_kill() {
    let upstream = Upstream::start().await;
    let mut gateway = gateway(&upstream, "").await;
    let first = gateway.send(&order("k-1")).await;
    gateway.kill();
    gateway.restart().await;
    assert_replay(&gateway.send(&order("k-1")).await, &first);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn port_in_use_is_named() {
    let upstream = Upstream::start().await;
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (listen, admin_listen) in [(address.as_str(), "127.0.0.1:0"), ("127.0.0.1:0", address.as_str())] {
        let ended = setup(&upstream, "").addresses(listen, admin_listen).run().await;
        assert!(matches!(ended.code, Some(1 | 2 | 69)), "{ended:?}");
        assert!(ended.stderr.contains(&address), "names the address: {ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
    }
}

#[tokio::test]
async fn flags_alone_are_enough_and_what_they_protect_is_said() {
    let upstream = Upstream::start().await;
    let gateway = onefold_testkit::Setup::new(&upstream.url()).by_flags().start().await;
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&order("k-1")).await, &first);
    let log = gateway.log();
    assert!(log.contains("POST") && log.contains("PATCH"), "says what it protects: {log}");
}

#[tokio::test]
async fn health_readiness_and_metrics_answer() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for target in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(gateway.admin_get(target).await.status, 200, "{target}");
    }
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    assert!(gateway.metrics().await.has("onefold_attempts_begun_total"));
}

#[tokio::test]
async fn files_and_memory_stay_bounded_over_many_connections() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    assert_fresh(&gateway.send(&order("k-warm")).await, 200);
    let before = gateway.process().open_files();
    for nth in 0..200 {
        assert_fresh(&gateway.send(&order(&format!("k-{nth}"))).await, 200);
    }
    wait::until_within(wait::DEADLINE, "the connections are given back", async || {
        gateway.process().open_files() <= before + 20
    })
    .await;
}
