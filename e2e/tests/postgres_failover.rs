//! B128: a replica is no store, and what was acknowledged survives the loss of a primary whose replica is synchronous.
//!
//! And of a primary that comes back after its replica was promoted, what the operator's page says: one whose replica was
//! synchronous acknowledges nothing, any other is a second store that nobody tells from the first.

use std::time::Duration;

use onefold_e2e::kill_clients::Clients;
use onefold_e2e::order_service::{Keys, OrderService};
use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, order, setup};
use onefold_testkit::postgres::{PostgresServer, ask_at};
use onefold_testkit::{Answer, Gateway, Setup, TestDirectory, Upstream, wait};

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

/// A primary that came back after the promotion of its replica, and gateways for which it is named first.
struct TwoWriters {
    old: PostgresServer,
    upstream: Upstream,
    /// It was there before, and has connections to the new primary.
    before: Gateway,
    /// It was started afterwards, and is connected to the old one.
    after: Gateway,
    /// Of an order that the old primary knows, and of one that it does not.
    known: Answer,
    unknown: Answer,
    _new: PostgresServer,
    _directory: TestDirectory,
}

#[derive(Clone, Copy, PartialEq)]
enum Replica {
    Synchronous,
    Asynchronous,
}

impl TwoWriters {
    async fn make(what: &str, kind: Replica) -> Option<TwoWriters> {
        let directory = TestDirectory::create();
        let mut old = PostgresServer::start(what, &directory, "")?;
        let folder = directory.file("replica");
        let new = match kind {
            Replica::Synchronous => old.synchronous_replica_in(&folder).await,
            Replica::Asynchronous => old.late_replica_in(&folder, Duration::ZERO).await,
        };
        let upstream = Upstream::start().await;
        let url = format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres", old.port(), new.port());
        let before = setup(&upstream, "").store_url(&url).start().await;
        let known = before.send(&order("known")).await;
        assert_fresh(&known, 200);
        wait::until_within(wait::DEADLINE, "the replica has the order", async || {
            let at_replica = format!("{}/postgres", new.url());
            ask_at(&at_replica, "SELECT count(*) FROM onefold.operations WHERE state = 2").await == "1"
        })
        .await;
        old.kill();
        new.promote().await;
        new.forget_replicas().await;
        let unknown = answered_in_the_end(&before, "unknown").await;
        old.restart();
        let after = before.twin().await;
        Some(TwoWriters { old, upstream, before, after, known, unknown, _new: new, _directory: directory })
    }
}

async fn answered_in_the_end(gateway: &Gateway, key: &str) -> Answer {
    wait::some(wait::DEADLINE, "the gateway finds the new primary", async || {
        let answer = gateway.send(&order(key)).await;
        (answer.status == 200).then_some(answer)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b128_old_primary_whose_replica_was_synchronous_comes_back_and_acknowledges_nothing() {
    let what = "a primary that comes back beside its synchronous replica";
    let Some(mut two) = TwoWriters::make(what, Replica::Synchronous).await else { return };
    assert_replay(&two.after.send(&order("known")).await, &two.known);
    assert_problem(&two.after.send(&order("unknown")).await, 503, "store-unavailable");
    assert_eq!(two.upstream.count(ROUTE), 2, "nothing ran by the old primary's word");
    two.old.kill();
    for gateway in [&two.after, &two.before] {
        assert_replay(&answered_in_the_end(gateway, "known").await, &two.known);
        assert_replay(&answered_in_the_end(gateway, "unknown").await, &two.unknown);
    }
    assert_eq!(two.upstream.count(ROUTE), 2, "each ran once");
}

/// Why the operator's page says that an old primary must be fenced: nothing here prevents the second effect.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b128_old_primary_that_nobody_fences_is_a_second_store_that_knows_nothing_of_the_first() {
    let what = "a primary that comes back beside its asynchronous replica";
    let Some(mut two) = TwoWriters::make(what, Replica::Asynchronous).await else { return };
    assert_fresh(&two.after.send(&order("unknown")).await, 200);
    assert_eq!(two.upstream.count(ROUTE), 3, "a second effect");
    two.old.kill();
    let later = two.before.twin().await;
    assert_replay(&later.send(&order("unknown")).await, &two.unknown);
}
