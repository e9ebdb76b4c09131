//! Many operations and one destination: budget, circuit, journal.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold_client::{
    BudgetSettings, CircuitSettings, CircuitState, Client, ClientBuilder, ClientError, Destinations,
    Intentions, OperationKey, Policy, Profile, Stopped, Verdict, reqwest::Method,
};
use onefold_testkit::{Reply, ReservedAddress, Upstream, wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::{ROUTE, Watched, client, key, order, policy, request};

/// Fails with a lost connection, a 500 and a 503 in turn.
fn failure(nth: u64) -> Reply {
    match nth % 3 {
        0 => Reply::count().close_after_effect(),
        1 => Reply::status(500),
        _ => Reply::status(503).header("retry-after", "0"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_clients_of_a_destination_that_fails_half_of_the_time_stay_within_the_budget() {
    const CLIENTS: u64 = 50;
    const EACH: u64 = 20;
    let share = 0.2;
    let server = Upstream::start().await;
    let served = AtomicU64::new(0);
    server.responds(ROUTE, move |_| {
        let nth = served.fetch_add(1, Ordering::Relaxed);
        // No pattern that the order of the callers could hide.
        let fails = nth.wrapping_mul(0x9e37_79b9_7f4a_7c15).count_ones().is_multiple_of(2);
        if fails { failure(nth) } else { Reply::count() }
    });
    let budget = BudgetSettings { share, window: Duration::from_secs(3600), ..BudgetSettings::default() };
    let never = CircuitSettings { failures: 0, ..CircuitSettings::default() };
    let destinations = Destinations::new(budget, never);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let client = Watched::default().builder().destinations(destinations.clone()).build().unwrap();
            let url = server.url();
            tokio::spawn(async move {
                let mut sent = 0;
                for order_number in 0..EACH {
                    sent += order(&client, &url, &key(&format!("order-{n}-{order_number}"))).await.attempts;
                }
                u64::from(sent)
            })
        })
        .collect();
    let mut sent = 0;
    for client in clients {
        sent += client.await.unwrap();
    }
    let operations = CLIENTS * EACH;
    let allowed = ((1.0 + share) * operations as f64) as u64;
    let snapshot = destinations.snapshot().remove(0);
    assert_eq!(sent, server.seen_at(ROUTE).len() as u64);
    assert!(sent <= allowed, "{sent} attempts, {allowed} allowed");
    assert!(snapshot.retries > 0 && snapshot.refused > 0, "{snapshot:?}");
    assert_eq!(snapshot.attempts, sent);
}

#[tokio::test]
async fn operation_whose_retry_the_budget_refuses_ends_at_once_with_what_is_known() {
    let server = Upstream::start().await;
    server.always(ROUTE, Reply::status(503).header("retry-after", "0"));
    let none = BudgetSettings { share: 0.0, reserve: 0, ..BudgetSettings::default() };
    let destinations = Destinations::new(none, CircuitSettings::default());
    let client = Watched::default().builder().destinations(destinations).build().unwrap();
    let ended = order(&client, &server.url(), &key("payout-1")).await;
    assert_eq!((ended.verdict, ended.stopped), (Verdict::NotDone, Stopped::BudgetSpent));
    assert_eq!((ended.attempts, ended.answer.unwrap().status.as_u16()), (1, 503));
}

#[tokio::test]
async fn open_circuit_leaves_the_destination_alone_and_can_be_seen() {
    let nobody = ReservedAddress::take();
    let circuit = CircuitSettings { failures: 4, rest: Duration::from_secs(3600) };
    let destinations = Destinations::new(BudgetSettings::default(), circuit);
    let client = Watched::default().builder().destinations(destinations.clone()).build().unwrap();
    assert_eq!(order(&client, &nobody.url(), &key("payout-1")).await.attempts, 4);
    let known = destinations.snapshot();
    assert_eq!((known[0].circuit, known[0].origin.as_str()), (CircuitState::Open, nobody.url().as_str()));
    let ended = order(&client, &nobody.url(), &key("payout-2")).await;
    assert_eq!((ended.attempts, ended.stopped), (0, Stopped::CircuitOpen));
    assert_eq!((ended.verdict, ended.safe_to_use_new_key), (Verdict::NotDone, false));
}

/// A server with few workers, each with one connection from its request to its answer. Whoever asks a key for the
/// first and second time is told that it is in progress.
async fn few_workers(workers: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (free, asked) =
        (Arc::new(Semaphore::new(workers)), Arc::new(Mutex::new(HashMap::<String, u32>::new())));
    tokio::spawn(async move {
        loop {
            let worker = free.clone().acquire_owned().await.unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = asked.clone();
            tokio::spawn(async move {
                let mut seen = Vec::new();
                while !seen.ends_with(b"}") && stream.read_buf(&mut seen).await.is_ok_and(|read| read > 0) {}
                let head = String::from_utf8(seen).unwrap();
                let key = head.lines().find(|line| line.starts_with("idempotency-key")).unwrap().to_owned();
                let times = {
                    let mut asked = asked.lock().unwrap();
                    let times = asked.entry(key).or_insert(0);
                    *times += 1;
                    *times
                };
                let (status, body) = match times {
                    1 | 2 => ("409 Conflict", r#"{"type":"https://onefold.dev/problems/in-progress"}"#),
                    _ => ("200 OK", "{}"),
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
                drop(worker);
            });
        }
    });
    url
}

/// Whoever waits for something in progress must not sit on what the others need.
#[tokio::test(flavor = "multi_thread")]
async fn b107_those_who_wait_hold_nothing_and_all_finish() {
    const WORKERS: usize = 5;
    let url = few_workers(WORKERS).await;
    for callers in [WORKERS, WORKERS + 1, 10 * WORKERS] {
        let client = client();
        let all: Vec<_> = (0..callers)
            .map(|n| {
                let (client, url) = (client.clone(), url.clone());
                // Half of them are duplicates.
                let key = key(&format!("{callers}-{}", n / 2));
                tokio::spawn(async move { order(&client, &url, &key).await.verdict })
            })
            .collect();
        for one in all {
            let verdict = wait::within(wait::DEADLINE, "every caller to finish", one).await.unwrap();
            assert_eq!(verdict, Verdict::Succeeded);
        }
    }
}

#[tokio::test]
async fn intention_stays_while_the_outcome_is_unknown_and_goes_with_its_end() {
    let server = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let intentions = Intentions::open(folder.path().join("journal")).unwrap();
    let mut policy = policy();
    policy.attempts_max = 1;
    let client = Watched::default().builder().policy(policy).intentions(intentions.clone()).build().unwrap();
    let payout = || request(&client, Method::POST, &server.url());
    server.next(ROUTE, Reply::count().close_after_effect());
    let first = client.send_intention(payout(), "payout-1").await.unwrap();
    assert_eq!(first.verdict, Verdict::OutcomeUnknown);
    assert_eq!(intentions.open_intentions().len(), 1);
    let second = client.send_intention(payout(), "payout-1").await.unwrap();
    assert_eq!((second.verdict, &second.key), (Verdict::Succeeded, &first.key));
    assert!(intentions.open_intentions().is_empty());
    let third = client.send_intention(payout(), "payout-1").await.unwrap();
    assert_ne!(third.key, first.key, "a finished intention's name is new again");
}

/// For a provider that remembers keys for so long, with a deadline.
fn remembered(window: &str, deadline_s: u64) -> ClientBuilder {
    let key = "name = \"p\"\nsource = \"a test\"\nkey = { header = \"k\", max = 99 }";
    let profile = Profile::from_toml(&format!("{key}\nwindow = \"{window}\"")).unwrap();
    let policy = Policy { deadline: Duration::from_secs(deadline_s), ..Policy::default() };
    Watched::default().builder().profile(profile).policy(policy)
}

#[test]
fn client_that_would_repeat_for_longer_than_its_provider_remembers_is_refused() {
    let refused = remembered("30s", 31).build().err().unwrap();
    let told = "attempts go on for up to 31s and the provider remembers a key for 30s only";
    assert!(
        matches!(&refused, ClientError::Outlasts { .. }) && refused.to_string().contains(told),
        "{refused}"
    );
    assert!(remembered("30s", 30).build().is_ok());
}

#[tokio::test]
async fn intention_older_than_the_providers_memory_is_not_sent_again() {
    let server = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let intentions = Intentions::open(folder.path().join("journal")).unwrap();
    intentions.begin("payout-1").unwrap();
    wait::until("it was begun before", || !intentions.begin("payout-1").unwrap().age.is_zero()).await;
    let client = remembered("30s", 30).intentions(intentions.clone()).build().unwrap();
    let payout = request(&client, Method::POST, &server.url());
    let refused = client.send_intention(payout, "payout-1").await;
    assert!(matches!(refused, Err(ClientError::TooOld { .. })), "{refused:?}");
    assert!(server.seen().is_empty());
    assert_eq!(intentions.open_intentions().len(), 1, "a person finds out, then finishes it");
}

#[tokio::test]
async fn client_without_a_journal_does_not_pretend_to_keep_intentions() {
    let client: Client = client();
    let payout = request(&client, Method::POST, "http://127.0.0.1:1");
    assert!(matches!(client.send_intention(payout, "payout-1").await, Err(ClientError::KeepsNone)));
    let long = OperationKey::business("k".repeat(60)).unwrap();
    let square = Watched::default().builder().profile(Profile::shipped("square").unwrap()).build().unwrap();
    let refused = square.send(request(&square, Method::POST, "http://127.0.0.1:1"), &long).await;
    assert!(matches!(refused, Err(ClientError::DoesNotFit(_))));
}
