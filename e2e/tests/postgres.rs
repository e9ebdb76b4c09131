//! Section 3 and section 15 of the cases over PostgreSQL: several gateways on one database, straight and behind
//! PgBouncer in transaction mode.

use std::time::Duration;

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, order, parallel, setup};
use onefold_testkit::postgres::{Database, Isolation, PostgresServer};
use onefold_testkit::skipped::skipped;
use onefold_testkit::{Gate, Gateway, Reply, Request, Setup, TestDirectory, Upstream, pgbouncer, wait};

/// The addresses of a database straight and behind the pooler.
struct Ways {
    database: Database,
    urls: Vec<String>,
}

async fn ways(what: &str) -> Option<Ways> {
    let database = Database::create(what, Isolation::ReadCommitted).await?;
    let mut urls = vec![database.url()];
    match pgbouncer::shared() {
        Ok(pooler) => urls.push(database.url_at(&pooler)),
        Err(why) => skipped(&format!("{what} behind PgBouncer"), &why),
    }
    Some(Ways { database, urls })
}

/// So many gateways, which all start at once.
async fn twins(setup: Setup, number: usize) -> Vec<Gateway> {
    let starts = tokio::task::LocalSet::new();
    let start = |_| starts.spawn_local(setup.clone().addresses("127.0.0.1:0", "127.0.0.1:0").start());
    let started: Vec<_> = (0..number).map(start).collect();
    starts.await;
    let mut gateways = Vec::new();
    for gateway in started {
        gateways.push(gateway.await.expect("every gateway starts"));
    }
    gateways
}

/// Migrations of several gateways at once are part of the case (B125): all of them start on an empty database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b30_duplicates_over_two_gateways_that_start_at_once_have_one_effect() {
    const ROUNDS: usize = 10;
    let Some(ways) = ways("two gateways on PostgreSQL").await else { return };
    for (way, url) in ways.urls.iter().enumerate() {
        let upstream = Upstream::start().await;
        upstream.always(ROUTE, Reply::count().delay_before(Duration::from_millis(200)).body("placed"));
        let gateways = twins(setup(&upstream, "").store_url(url), 2).await;
        let addresses: Vec<_> = gateways.iter().map(Gateway::address).collect();
        let rounds: Vec<_> = (0..ROUNDS)
            .map(|round| parallel::send_all(&order(&format!("k-{way}-{round}")), 50, &addresses))
            .collect();
        for round in rounds {
            parallel::assert_one_result(&parallel::answers(round).await, b"placed");
        }
        assert_eq!(upstream.count(ROUTE), ROUNDS as u64, "{url}");
        for gateway in &gateways {
            // B28: whoever lost the race is no error of the store.
            let errors = gateway.metrics().await.sum("onefold_store_errors_total");
            assert!(errors == 0.0, "{errors} store errors; {}", gateway.log());
        }
        let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database =
            (SELECT oid FROM pg_database WHERE datname = current_database())";
        wait::until_within(wait::DEADLINE, "no advisory lock is held", async || {
            ways.database.ask(locks).await == "0"
        })
        .await;
    }
}

#[tokio::test]
async fn b30_repeat_at_another_gateway_is_a_replay() {
    let Some(ways) = ways("a repeat at another gateway on PostgreSQL").await else { return };
    for (way, url) in ways.urls.iter().enumerate() {
        let upstream = Upstream::start().await;
        let gateways = twins(setup(&upstream, "").store_url(url), 2).await;
        let key = format!("k-{way}");
        let first = gateways[0].send(&order(&key)).await;
        assert_fresh(&first, 200);
        assert_replay(&gateways[1].send(&order(&key)).await, &first);
        assert_eq!(upstream.count(ROUTE), 1);
    }
}

/// B101, B102: the look-up of the one settles what the other left, and of both one asks at a time.
#[tokio::test]
async fn b102_outcome_that_a_killed_gateway_left_is_looked_up_by_one_of_the_others() {
    const LOOK_UP: &str = "/lookup";
    let Some(ways) = ways("a look-up on PostgreSQL").await else { return };
    for (way, url) in ways.urls.iter().enumerate() {
        let upstream = Upstream::start().await;
        let lines = format!(
            "lease = \"1s\"\non_stale = \"reconcile\"\nwhile_running = {{ busy = true }}\n\
             reconcile = {{ get = \"{}{LOOK_UP}?key={{{{key}}}}\", happened = \"200\" }}",
            upstream.url()
        );
        let mut gateways = twins(setup(&upstream, &lines).store_url(url), 3).await;
        upstream.next(ROUTE, Reply::count().delay_after(Duration::from_secs(60)));
        let gate = Gate::closed();
        upstream.always(LOOK_UP, Reply::status(200).hold_before(&gate).json("{}"));
        let key = format!("k-{way}");
        let sent = parallel::send(order(&key), gateways[0].address());
        upstream.reached(ROUTE, 1).await;
        gateways[0].kill();
        sent.abort();
        upstream.received(LOOK_UP, 1).await;
        // Both look for work every second; the turn is with one of them.
        for gateway in &gateways[1..] {
            assert_problem(&gateway.send(&order(&key)).await, 409, "outcome-unknown");
        }
        gate.open();
        for gateway in &gateways[1..] {
            let answer = wait::some(wait::DEADLINE, "the outcome is known", async || {
                let answer = gateway.send(&order(&key)).await;
                (answer.problem().as_deref() != Some("outcome-unknown")).then_some(answer)
            })
            .await;
            assert_problem(&answer, 409, "response-not-kept");
        }
        assert_eq!((upstream.count(ROUTE), upstream.seen_at(LOOK_UP).len()), (1, 1), "{url}");
    }
}

#[tokio::test]
async fn b125_crash_of_one_gateway_is_seen_by_the_other_behind_the_pooler() {
    let Some(ways) = ways("a crash behind PgBouncer").await else { return };
    let upstream = Upstream::start().await;
    let url = ways.urls.last().expect("a way");
    let lines = "lease = \"1s\"\nwhile_running = { busy = true }";
    let mut gateways = twins(setup(&upstream, lines).store_url(url), 2).await;
    upstream.next(ROUTE, Reply::count().delay_after(Duration::from_secs(60)));
    let sent = parallel::send(order("k-1"), gateways[0].address());
    upstream.reached(ROUTE, 1).await;
    gateways[0].kill();
    sent.abort();
    let other = &gateways[1];
    wait::until_within(wait::DEADLINE, "the outcome is unknown", async || {
        other.send(&order("k-1")).await.problem().as_deref() == Some("outcome-unknown")
    })
    .await;
    assert_eq!(upstream.count(ROUTE), 1);
    let item = other.operations_in("outcome_unknown").await.pop().expect("it is listed");
    let id = item["id"].as_str().expect("an id");
    let args = ["operations", "resolve", id, "--as", "failed", "--reason", "looked", "--evidence", "books"];
    other.command(&args).await.assert_code(0);
    assert_fresh(&other.send(&order("k-1")).await, 200);
}

#[tokio::test]
async fn b129_server_down_fails_closed_and_recovers_without_a_restart() {
    let directory = TestDirectory::create();
    let what = "a PostgreSQL server that is killed";
    let Some(mut server) = PostgresServer::start(what, &directory, "") else { return };
    let upstream = Upstream::start().await;
    let gateway = setup(&upstream, "").store_url(&format!("{}/postgres", server.url())).start().await;
    let first = gateway.send(&order("before")).await;
    assert_fresh(&first, 200);
    server.kill();
    for key in ["during-1", "during-2"] {
        let refused = gateway.send(&order(key)).await;
        assert_problem(&refused, 503, "store-unavailable");
        assert!(refused.retry_after().is_some(), "{refused}");
    }
    assert_fresh(&gateway.send(&Request::get("/catalogue")).await, 200);
    assert_eq!(gateway.admin_get("/readyz").await.status, 503);
    assert_eq!(upstream.count(ROUTE), 1, "nothing protected was executed");
    server.restart();
    let again = wait::some(wait::DEADLINE, "the gateway finds the server again", async || {
        let answer = gateway.send(&order("during-1")).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert!(!again.is_replay(), "it was never executed: {again}");
    assert_replay(&gateway.send(&order("before")).await, &first);
    assert_eq!(gateway.admin_get("/readyz").await.status, 200);
    assert_eq!(upstream.count(ROUTE), 2);
}

/// A million records take minutes to be made on a small machine; the number is a matter of time only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b132_sweepers_of_many_gateways_do_not_disturb_each_other() {
    const RECORDS: u32 = 20_000;
    let what = "sweepers of many gateways on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let upstream = Upstream::start().await;
    let own = setup(&upstream, "").store_url(&database.url());
    own.clone().start().await.kill();
    // Expired, and their tombstones due as well.
    database
        .execute(&format!(
            "INSERT INTO onefold.operations (place, created_at, nonce, ended_at, expires_at, due_at, retention_ms,
                tombstone_ms, bucket, shard, attempt, state, on_stale, id, operation, scope, key)
            SELECT n, 1, 0, 1, 1000, 1000, 999, CASE WHEN n % 2 = 0 THEN 0 ELSE 4000000000000 END, 7, 0, 1, 2, 0,
                sha256(n::text::bytea), 'CreateOrder'::bytea, '\\x010000000000000000'::bytea, n::text::bytea
            FROM generate_series(1, {RECORDS}) n;
            INSERT INTO onefold.scopes (bucket, shard, live) VALUES (7, 0, {RECORDS});"
        ))
        .await;
    let gateways = twins(own.store("sweep_every = \"1s\""), 4).await;
    // A sweeper whose session ends in between leaves nothing behind that stops the next one.
    let end_sweepers = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%SKIP LOCKED%'";
    let left = "SELECT count(*) FROM onefold.operations WHERE due_at <= 1000";
    let mut orders = 0;
    wait::until_within(Duration::from_secs(60), "everything is swept", async || {
        if orders == 3 {
            database.ask(end_sweepers).await;
        }
        let answer = gateways[orders % gateways.len()].send(&order(&format!("k-{orders}"))).await;
        assert!([200, 503].contains(&answer.status), "the foreground goes on: {answer}");
        orders += 1;
        database.ask(left).await == "0"
    })
    .await;
    let tombstones = "SELECT count(*) FROM onefold.operations WHERE scope IS NULL";
    assert_eq!(database.ask(tombstones).await, (RECORDS / 2).to_string(), "each was swept once");
    assert_eq!(database.ask("SELECT count(*) FROM onefold.scopes WHERE bucket = 7 AND live <> 0").await, "0");
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(database.ask(deadlocks).await, "0");
    for gateway in &gateways {
        assert!(!gateway.log().contains("40P01"), "{}", gateway.log());
    }
    wait::until_within(wait::DEADLINE, "the lag is gone", async || {
        gateways[0].metrics().await.sum("onefold_sweep_lag_seconds") == 0.0
    })
    .await;
}

#[tokio::test]
async fn commands_look_after_a_store_on_postgresql() {
    let what = "commands on a PostgreSQL store";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let upstream = Upstream::start().await;
    let own = setup(&upstream, "").store_url(&database.url());
    let refused = own.clone().store("migrate = false").run().await;
    refused.assert_code(69);
    assert!(refused.stderr.contains("onefold store migrate"), "{refused:?}");
    let gateway = own.start().await;
    gateway.command(&["store", "migrate"]).await.assert_code(0);
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    let checked = gateway.command(&["store", "check"]).await;
    checked.assert_code(0);
    let checks = checked.json()["checks"].as_array().expect("a list").clone();
    // The server of the tests flushes nothing, and that is said.
    let durability = checks.iter().find(|check| check["check"] == "durability").expect("it is looked at");
    assert!(["warning", "ok"].contains(&durability["result"].as_str().expect("a word")), "{durability}");
    assert!(checks.iter().any(|check| check["check"] == "keys" && check["result"] == "ok"), "{checks:?}");
    let stats = gateway.command(&["store", "stats"]).await;
    stats.assert_code(0);
    assert_eq!(stats.json()["records"]["succeeded"], 1, "{stats:?}");
    assert!(stats.json()["bytes"]["operations"].as_u64() > Some(0), "{stats:?}");
    let swept = gateway.command(&["store", "sweep"]).await;
    swept.assert_code(0);
    assert_eq!(swept.json()["tombstones"], 0, "{swept:?}");
    assert_eq!(gateway.operations_in("succeeded").await.len(), 1);
    database.execute("INSERT INTO onefold.migrations (version) VALUES (99)").await;
    let newer = gateway.command(&["store", "check"]).await;
    newer.assert_code(69);
    assert!(newer.stdout.contains("schema 99"), "{newer:?}");
}
