//! The gateway is killed again and again under load; afterwards the books must balance.
//!
//! `ONEFOLD_KILL_ROUNDS` says how many kills there are (10 by default, 200 for the full run),
//! `ONEFOLD_KILL_SEED` repeats a run's moments of killing.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use onefold_e2e::kill_clients::{Clients, Ledger};
use onefold_e2e::order_service::{Keys, OrderService, confirmation};
use onefold_e2e::{ROUTE, assert_problem, assert_replay, order};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::{Connection, Gateway, Setup, wait};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

const CLIENTS: usize = 16;
const LIFE_MS: std::ops::Range<u64> = 20..400;
/// How many unknown operations are settled by the command; the others over HTTP, which starts no process.
const SETTLED_BY_COMMAND: usize = 20;
/// Far above the lease of 1 s and a sweep each second.
const SETTLING: Duration = Duration::from_secs(30);

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

fn seed() -> u64 {
    let now = || SystemTime::UNIX_EPOCH.elapsed().expect("after 1970").subsec_nanos().into();
    let seed = number("ONEFOLD_KILL_SEED").unwrap_or_else(now);
    eprintln!("ONEFOLD_KILL_SEED={seed}");
    seed
}

/// Kills the gateway once a round at a random moment, under clients at work.
async fn killed_under_load(setup: Setup, lines: &str, seed: u64) -> (Gateway, Ledger) {
    let rounds = number("ONEFOLD_KILL_ROUNDS").unwrap_or(10);
    let mut gateway = setup
        .store("sweep_every = \"1s\"")
        .operation("CreateOrder", "POST", ROUTE, &format!("lease = \"1s\"\n{lines}"))
        .start()
        .await;
    let clients = Clients::start(CLIENTS, gateway.address());
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..rounds {
        let life = Duration::from_millis(random.random_range(LIFE_MS));
        wait::pass_time(life, "the kill comes at a random moment").await;
        gateway.kill();
        gateway.restart().await;
    }
    let ledger = clients.finish(Duration::from_secs(90)).await;
    eprintln!(
        "{rounds} kills: {} acknowledged, {} unknown, {} in flight at a kill",
        ledger.acknowledged.len(),
        ledger.unknown.len(),
        ledger.lost.len()
    );
    (gateway, ledger)
}

fn assert_no_second_order(service: &OrderService) {
    let twice: Vec<_> = service.orders().into_iter().filter(|(_, numbers)| numbers.len() > 1).collect();
    assert!(twice.is_empty(), "keys with two orders: {twice:?}");
}

async fn assert_acknowledged_results_replay(gateway: &Gateway, ledger: &Ledger) {
    let mut connection = Connection::open(gateway.address()).await.expect("the gateway runs");
    for (key, first) in &ledger.acknowledged {
        let answer = connection.exchange(&order(key)).await.expect("answered");
        assert!(answer.is_replay(), "{key} was acknowledged: {answer}");
        assert_replay(&answer, first);
    }
}

async fn assert_nothing_stays_processing(gateway: &Gateway) {
    wait::until_within(SETTLING, "nothing is processing beyond its lease", async || {
        gateway.operations_in("processing").await.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_rounds() {
    let seed = seed();
    let service = OrderService::start(Keys::Ignored, seed).await;
    books_balance(Setup::new(&service.url()), &service, seed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_rounds_over_postgresql() {
    let what = "kill rounds over PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let seed = seed();
    let service = OrderService::start(Keys::Ignored, seed).await;
    books_balance(Setup::new(&service.url()).store_url(&database.url()), &service, seed).await;
}

/// No effect twice, every acknowledged result replays, every lost one is known to be lost and can be settled.
async fn books_balance(setup: Setup, service: &OrderService, seed: u64) {
    let (gateway, ledger) = killed_under_load(setup, "", seed).await;
    assert!(ledger.unexpected.is_empty(), "{:?}", ledger.unexpected);
    assert!(!ledger.acknowledged.is_empty(), "nothing was ordered");
    assert_no_second_order(service);
    assert_acknowledged_results_replay(&gateway, &ledger).await;
    assert_nothing_stays_processing(&gateway).await;
    let without_a_kill: Vec<_> = ledger.unknown.keys().filter(|key| !ledger.lost.contains(*key)).collect();
    assert!(without_a_kill.is_empty(), "unknown without having been in flight: {without_a_kill:?}");
    assert_unknown_are_listed(&gateway, &ledger).await;
    settle(&gateway, service, &ledger).await;
    assert_no_second_order(service);
    let orders = service.orders();
    let keys = ledger.acknowledged.keys().chain(ledger.unknown.keys());
    let without_order: Vec<_> = keys.filter(|key| !orders.contains_key(*key)).collect();
    assert!(without_order.is_empty(), "settled, and no order: {without_order:?}");
}

async fn assert_unknown_are_listed(gateway: &Gateway, ledger: &Ledger) {
    let listed = gateway.operations_in("outcome_unknown").await;
    let listed: BTreeSet<&str> = listed.iter().filter_map(|item| item["id"].as_str()).collect();
    let told: BTreeSet<&str> = ledger.unknown.values().map(String::as_str).collect();
    let untold: Vec<_> = listed.difference(&told).collect();
    let unlisted: Vec<_> = told.difference(&listed).collect();
    assert!(
        unlisted.is_empty(),
        "callers were told that it is unknown, and operators do not see: {unlisted:?}"
    );
    assert!(untold.is_empty(), "operators see as unknown, and no caller was told: {untold:?}");
}

/// Settles every unknown operation by what the order service's books say, and asks again under its key.
async fn settle(gateway: &Gateway, service: &OrderService, ledger: &Ledger) {
    let orders = service.orders();
    for (nth, (key, id)) in ledger.unknown.iter().enumerate() {
        let placed = orders.get(key).map(|numbers| numbers[0]);
        let verdict = if placed.is_some() { "succeeded" } else { "failed" };
        let is_by_command = nth < SETTLED_BY_COMMAND;
        match is_by_command {
            true => resolve_by_command(gateway, id, verdict).await,
            false => resolve_over_http(gateway, id, verdict, placed).await,
        }
        let answer = gateway.send(&order(key)).await;
        match placed {
            None => assert!(answer.status == 201 && !answer.is_replay(), "{key} is free: {answer}"),
            Some(_) if is_by_command => assert_problem(&answer, 409, "response-not-kept"),
            Some(number) => {
                assert!(answer.is_replay(), "{key} has its result: {answer}");
                assert_eq!((answer.status, answer.text()), (201, confirmation(number)));
            }
        }
    }
    assert!(gateway.operations_in("outcome_unknown").await.is_empty(), "all is settled");
}

async fn resolve_by_command(gateway: &Gateway, id: &str, verdict: &str) {
    let why = ["--reason", "looked into the books", "--evidence", "order service"];
    let mut args = vec!["operations", "resolve", id, "--as", verdict];
    args.extend(why);
    gateway.command(&args).await.assert_code(0);
}

async fn resolve_over_http(gateway: &Gateway, id: &str, verdict: &str, placed: Option<u64>) {
    let mut body = json!({"as": verdict, "reason": "looked into the books", "evidence": "order service"});
    if let Some(number) = placed {
        body["response"] = json!({
            "status": 201,
            "headers": [["content-type", "application/json"]],
            "body": confirmation(number),
        });
    }
    let resolved = gateway.admin_post(&format!("/v1/operations/{id}/resolve"), &body).await;
    assert_eq!(resolved.status, 200, "{resolved}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_rounds_before_an_upstream_that_honours_keys_leave_nothing_unknown() {
    let seed = seed();
    let service = OrderService::start(Keys::Honoured, seed).await;
    let (gateway, ledger) =
        killed_under_load(Setup::new(&service.url()), "on_stale = \"resume\"", seed).await;
    assert!(ledger.unexpected.is_empty(), "{:?}", ledger.unexpected);
    assert!(ledger.unknown.is_empty(), "{:?}", ledger.unknown);
    assert_acknowledged_results_replay(&gateway, &ledger).await;
    assert_nothing_stays_processing(&gateway).await;
    assert!(gateway.operations_in("outcome_unknown").await.is_empty());
    assert_no_second_order(&service);
    let ordered: Vec<String> = service.orders().into_keys().collect();
    let acknowledged: Vec<String> = ledger.acknowledged.into_keys().collect();
    assert_eq!(ordered, acknowledged, "an order for each key");
}
