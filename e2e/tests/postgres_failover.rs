//! B128: a replica is no store, and what was acknowledged survives the loss of a primary whose replica is synchronous.

use std::time::Duration;

use onefold_e2e::kill_clients::Clients;
use onefold_e2e::order_service::{Keys, OrderService};
use onefold_e2e::{ROUTE, assert_fresh, assert_replay, order, setup};
use onefold_testkit::postgres::{PostgresServer, ask_at};
use onefold_testkit::{Setup, TestDirectory, Upstream, wait};

const CLIENTS: usize = 16;

#[tokio::test]
async fn b128_replica_is_refused_as_a_store() {
    let directory = TestDirectory::create();
    let what = "a replica as a store";
    let Some(primary) = PostgresServer::start(what, &directory, "") else { return };
    let replica = primary.synchronous_replica_in(&directory.file("replica")).await;
    let upstream = Upstream::start().await;
    let refused = setup(&upstream, "").store_url(&format!("{}/postgres", replica.url())).run().await;
    refused.assert_code(69);
    assert!(
        refused.stderr.contains("read-only") || refused.stderr.contains("does not allow writes"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b128_nobody_reads_from_a_late_replica_although_it_is_named_first() {
    const LATE: Duration = Duration::from_secs(5);
    const LATER: &str = "SELECT pg_last_wal_replay_lsn() < pg_last_wal_receive_lsn()";
    const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
        AND pid <> pg_backend_pid()";
    let directory = TestDirectory::create();
    let Some(primary) = PostgresServer::start("a late replica", &directory, "") else { return };
    let replica = primary.late_replica_in(&directory.file("replica"), LATE).await;
    let upstream = Upstream::start().await;
    let url =
        format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", replica.port(), primary.port());
    let first = setup(&upstream, "").store_url(&url).start().await;
    let second = first.twin().await;
    for n in 0..20 {
        let placed = order(&format!("k-{n}"));
        let answer = first.send(&placed).await;
        assert_fresh(&answer, 200);
        // Long before the replica has it.
        for gateway in [&first, &second] {
            assert_replay(&gateway.send(&placed).await, &answer);
            let shown = gateway.command(&["operations", "show", &answer.operation().expect("an id")]).await;
            assert_eq!(shown.json()["state"], "succeeded", "{shown:?}");
        }
    }
    let at_replica = format!("{}/postgres", replica.url());
    assert_eq!(ask_at(&at_replica, LATER).await, "t", "it is late");
    assert_eq!(ask_at(&at_replica, SESSIONS).await, "0", "nobody stays there");
    assert_eq!(upstream.count(ROUTE), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b128_acknowledged_operations_replay_on_a_promoted_synchronous_replica() {
    let directory = TestDirectory::create();
    let what = "the failover of PostgreSQL";
    let Some(mut primary) = PostgresServer::start(what, &directory, "") else { return };
    let replica = primary.synchronous_replica_in(&directory.file("replica")).await;
    let service = OrderService::start(Keys::Ignored, 7).await;
    let url =
        format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", primary.port(), replica.port());
    let gateway = Setup::new(&service.url())
        .store_url(&url)
        .operation("CreateOrder", "POST", ROUTE, "lease = \"1s\"")
        .start()
        .await;
    let clients = Clients::start(CLIENTS, gateway.address());
    wait::pass_time(Duration::from_secs(2), "clients are to be at work when the primary is lost").await;
    primary.kill();
    replica.promote().await;
    // The new primary waits for no replica: it has none.
    replica.forget_replicas().await;
    wait::until_within(wait::DEADLINE, "the gateway finds the new primary", async || {
        gateway.send(&order("after")).await.status == 201
    })
    .await;
    let ledger = clients.finish(Duration::from_secs(90)).await;
    assert!(ledger.unexpected.is_empty(), "{:?}", ledger.unexpected);
    assert!(!ledger.acknowledged.is_empty(), "nothing was ordered");
    for (key, first) in &ledger.acknowledged {
        assert_replay(&gateway.send(&order(key)).await, first);
    }
    let twice: Vec<_> = service.orders().into_iter().filter(|(_, numbers)| numbers.len() > 1).collect();
    assert!(twice.is_empty(), "keys with two orders: {twice:?}");
}
