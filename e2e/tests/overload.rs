//! Section 12 of the cases: pacing, floods, errors of the upstream. B107 concerns pools of database
//! connections, which SQLite has none of; the metrics of waiting stand in B106.

use std::time::{Duration, Instant};

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, gateway, order, order_of, parallel, setup};
use onefold_testkit::{Answer, Gate, Gateway, Reply, Request, Upstream, process, wait};
use tokio::runtime;

const BUSY: &str = "while_running = { busy = true }";

fn assert_paced(answer: &Answer) {
    let text = answer.header("retry-after").unwrap_or_default();
    assert!(text.parse::<u64>().is_ok_and(|seconds| seconds >= 1), "whole seconds, at least 1: {answer}");
}

#[tokio::test]
async fn b105_in_progress_says_when_to_come_again() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, &format!("{BUSY}\nlease = \"10s\"")).await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.received(ROUTE, 1).await;
    let answer = gateway.send(&order("k-1")).await;
    assert_problem(&answer, 409, "in-progress");
    assert_paced(&answer);
    assert!(answer.retry_after() <= Some(10), "derived from the lease that remains: {answer}");
    assert!(answer.json()["retry_after_ms"].as_u64().is_some_and(|ms| ms <= 10_000), "{answer}");
    gate.open();
    assert_fresh(&first.await.unwrap(), 200);
}

#[tokio::test]
async fn b105_quota_of_live_keys_says_when_to_come_again() {
    let upstream = Upstream::start().await;
    let setup = setup(&upstream, "").section("[limits]\nlive_keys_per_scope = 2");
    let gateway = setup.start().await;
    for key in ["k-1", "k-2"] {
        assert_fresh(&gateway.send(&order(key)).await, 200);
    }
    let answer = gateway.send(&order("k-3")).await;
    assert_problem(&answer, 429, "too-many-keys");
    assert_paced(&answer);
    assert!(gateway.send(&order("k-1")).await.is_replay(), "known keys are served");
    let other = Request::post(ROUTE).bearer("bob").key("k-3").json("{}");
    assert_fresh(&gateway.send(&other).await, 200);
    assert_eq!(upstream.count(ROUTE), 3);
}

#[tokio::test]
async fn b105_accepted_in_the_background_says_where_to_look_and_when() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "while_running = { accepted = true }").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.received(ROUTE, 1).await;
    let answer = gateway.send(&order("k-1")).await;
    assert_eq!(answer.status, 202, "{answer}");
    assert_paced(&answer);
    assert!(answer.header("location").is_some_and(|place| place.contains("/operations/")), "{answer}");
    gate.open();
    let _ = first.await.unwrap();
    wait::until_within(wait::DEADLINE, "the result is there", async || {
        gateway.send(&order("k-1")).await.status == 200
    })
    .await;
    assert_eq!(upstream.count(ROUTE), 1);
}

const FLOOD: usize = 2000;
const WAITERS: usize = 100;
const NORMAL_CLIENTS: usize = 20;
const REQUESTS_OF_A_CLIENT: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b106_flood_of_duplicates_is_bounded_and_leaves_the_others_alone() {
    process::raise_open_files_limit();
    let upstream = Upstream::start().await;
    let lines = "while_running = { wait = \"120s\" }";
    let gateway = setup(&upstream, lines)
        .section(&format!("[limits]\nwaiters_per_key = {WAITERS}"))
        .operation("CreateNote", "POST", "/notes", "")
        .start()
        .await;
    let calm = latencies(&gateway, "calm").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let first = parallel::send(order("k-slow"), gateway.address());
    upstream.received(ROUTE, 1).await;
    let (files, memory) = (gateway.process().open_files(), gateway.process().resident_bytes());
    // On a thread of its own: otherwise the normal clients would queue behind it before they are sent at all.
    let flooding = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let flood = {
        let _within = flooding.enter();
        parallel::send_all(&order("k-slow"), FLOOD, &[gateway.address()])
    };
    let stormy = latencies(&gateway, "stormy").await;
    let refused = FLOOD - WAITERS;
    wait::until_within(Duration::from_secs(60), "all but the waiters are answered", async || {
        flood.iter().filter(|answer| answer.is_finished()).count() >= refused
    })
    .await;
    let files_grown = gateway.process().open_files() - files;
    let memory_grown = gateway.process().resident_bytes().saturating_sub(memory);
    gate.open();
    assert_fresh(&first.await.unwrap(), 200);
    let answers = parallel::answers(flood).await;
    flooding.shutdown_background();
    let (replays, busy): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.is_replay());
    for answer in &busy {
        assert_problem(answer, 409, "in-progress");
    }
    eprintln!("p99 of normal clients: calm {calm:?}, in the flood {stormy:?}");
    assert_eq!(upstream.count(ROUTE), 1);
    assert_eq!((replays.len(), busy.len()), (WAITERS, refused));
    assert!(files_grown <= WAITERS + 200, "{files_grown} more open files for {WAITERS} waiters");
    assert!(memory_grown <= 200 * 1024 * 1024, "grew by {memory_grown} bytes");
}

/// The 99th percentile of normal clients' latencies; each client has one connection for each request.
async fn latencies(gateway: &Gateway, tag: &str) -> Duration {
    let clients = (0..NORMAL_CLIENTS).map(|client| {
        let (address, tag) = (gateway.address(), tag.to_owned());
        tokio::spawn(async move {
            let mut taken = Vec::new();
            for nth in 0..REQUESTS_OF_A_CLIENT {
                let begun = Instant::now();
                let key = format!("{tag}-{client}-{nth}");
                let request = Request::post("/notes").bearer("carol").key(&key).json("{}");
                assert_fresh(&request.send(address).await, 200);
                taken.push(begun.elapsed());
            }
            taken
        })
    });
    let mut all = Vec::new();
    for client in clients.collect::<Vec<_>>() {
        all.extend(client.await.expect("a normal client is served"));
    }
    all.sort();
    all[all.len() * 99 / 100]
}

const UNAVAILABLE: &str = r#"{"error":"overloaded","hint":"later"}"#;

#[tokio::test]
async fn b108_unkeyed_request_is_sent_once_and_its_error_passes_through() {
    let upstream = Upstream::start().await;
    let gateway = onefold_testkit::Setup::new(&upstream.url()).start().await;
    upstream.always(ROUTE, Reply::status(503).json(UNAVAILABLE));
    for method in ["POST", "PUT"] {
        let request = Request::new(method, ROUTE).bearer("alice").json("{}");
        let answer = gateway.send(&request).await;
        assert_fresh(&answer, 503);
        assert_eq!(answer.text(), UNAVAILABLE);
    }
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn b108_keyed_request_is_not_retried_unless_the_route_says_so() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.always(ROUTE, Reply::status(503).json(UNAVAILABLE));
    let answer = gateway.send(&order_of("k-1", "{}")).await;
    assert_fresh(&answer, 503);
    assert_eq!(answer.text(), UNAVAILABLE);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b108_put_is_retried_where_its_route_says_so() {
    let upstream = Upstream::start().await;
    let lines = "retry_failed = { attempts = 2, backoff = \"10ms\" }\nremember = { \"503\" = \"not_done\" }";
    let gateway =
        onefold_testkit::Setup::new(&upstream.url()).operation("PutOrder", "PUT", ROUTE, lines).start().await;
    upstream.next(ROUTE, Reply::status(503).json(UNAVAILABLE));
    let put = Request::new("PUT", ROUTE).bearer("alice").key("k-1").json("{}");
    assert_fresh(&gateway.send(&put).await, 200);
    assert_eq!(upstream.seen_at(ROUTE).len(), 2, "the refused attempt and the one that was done");
}
