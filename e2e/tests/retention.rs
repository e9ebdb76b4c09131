//! Section 7 of the cases: leases, retention, expiry. B67 concerns the inbox.

use std::time::{Duration, Instant};

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway, order, order_of, setup};
use onefold_testkit::{Answer, Gate, Gateway, Reply, Upstream, wait};

/// Repeats the order until it is answered otherwise than as a replay; the answer, and how long after `since`.
async fn end_of_replays(gateway: &Gateway, since: Instant) -> (Answer, Duration) {
    let answer = wait::some(wait::DEADLINE, "the replays end", async || {
        let answer = gateway.send(&order("k-1")).await;
        (!answer.is_replay()).then_some(answer)
    })
    .await;
    (answer, since.elapsed())
}

#[tokio::test]
async fn b62_lease_of_seconds_lasts_seconds() {
    let upstream = Upstream::start().await;
    let lines = "while_running = { busy = true }\nlease = \"3s\"";
    let mut gateway = gateway(&upstream, lines).await;
    upstream.next(ROUTE, Reply::count().hold_after(&Gate::closed()));
    let address = gateway.address();
    let first = tokio::spawn(async move { order("k-1").try_send(address).await });
    upstream.reached(ROUTE, 1).await;
    let begun = Instant::now();
    gateway.kill();
    let _ = first.await;
    gateway.restart().await;
    let mut busy = 0;
    let unknown = wait::some(wait::DEADLINE, "the lease is over", async || {
        let answer = gateway.send(&order("k-1")).await;
        busy += usize::from(answer.problem().as_deref() == Some("in-progress"));
        (answer.problem().as_deref() == Some("outcome-unknown")).then_some(answer)
    })
    .await;
    let lasted = begun.elapsed();
    assert_problem(&unknown, 409, "outcome-unknown");
    // A renewal may have come up to the kill, so that three seconds count from there.
    assert!(lasted >= Duration::from_millis(2500), "over after {lasted:?}, busy {busy} times");
    assert!(lasted <= Duration::from_secs(15), "over only after {lasted:?}");
}

#[tokio::test]
async fn b62_retention_of_seconds_lasts_seconds() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "retention = \"3s\"").await;
    let before = Instant::now();
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 200);
    let (answer, lasted) = end_of_replays(&gateway, before).await;
    assert_problem(&answer, 410, "key-expired");
    assert!((Duration::from_secs(3)..Duration::from_secs(6)).contains(&lasted), "lasted {lasted:?}");
}

#[tokio::test]
async fn b62_times_are_shown_with_their_unit() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "retention = \"60s\"").await;
    let id = gateway.send(&order("k-1")).await.operation().expect("an operation");
    let record = gateway.admin_get(&format!("/v1/operations/{id}")).await.json();
    for field in ["created_at", "completed_at", "expires_at"] {
        let time = record[field].as_str().unwrap_or_default();
        // 2027-01-02T03:04:05.678Z
        let is_rfc3339_ms = time.len() == 24 && time.as_bytes()[10] == b'T' && time.ends_with('Z');
        assert!(is_rfc3339_ms && time.as_bytes()[19] == b'.', "{field}: {record}");
    }
}

#[tokio::test]
async fn b63_expiry_does_not_depend_on_the_sweeper() {
    let upstream = Upstream::start().await;
    for sweep in ["sweep_every = \"1s\"", "sweep_every = \"1h\""] {
        let gateway = setup(&upstream, "retention = \"1s\"").store(sweep).start().await;
        let before = Instant::now();
        assert_fresh(&gateway.send(&order_of("k-1", "[1]")).await, 200);
        let expired = |body: &'static str| {
            let gateway = &gateway;
            async move {
                let answer = gateway.send(&order_of("k-1", body)).await;
                (answer.problem().as_deref() == Some("key-expired")).then_some(answer)
            }
        };
        let same = wait::some(wait::DEADLINE, "the key expires", async || expired("[1]").await).await;
        assert!(before.elapsed() >= Duration::from_secs(1), "{sweep}: early");
        assert_problem(&same, 410, "key-expired");
        let other = gateway.send(&order_of("k-1", "[2]")).await;
        assert_problem(&other, 410, "key-expired");
    }
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn b63_expired_key_begins_anew_where_it_is_so_configured() {
    let upstream = Upstream::start().await;
    for sweep in ["sweep_every = \"1s\"", "sweep_every = \"1h\""] {
        let lines = "retention = \"1s\"\nafter_expiry = \"new\"";
        let gateway = setup(&upstream, lines).store(sweep).start().await;
        assert_fresh(&gateway.send(&order_of("k-1", "[1]")).await, 200);
        wait::pass_time(Duration::from_millis(1500), "the retention is to be over").await;
        assert_fresh(&gateway.send(&order_of("k-1", "[2]")).await, 200);
    }
    assert_eq!(upstream.count(ROUTE), 4);
}

#[tokio::test]
async fn b63_retention_is_published() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "retention = \"36h\"").await;
    let published = gateway.send(&onefold_testkit::Request::get("/.well-known/idempotency")).await;
    assert_eq!(published.status, 200, "{published}");
    let text = published.text();
    assert!(text.contains("CreateOrder") && text.contains("one effect for each key"), "{text}");
    assert!(["36h", "129600", "PT36H"].iter().any(|spelling| text.contains(spelling)), "{text}");
}

#[tokio::test]
async fn b64_replays_do_not_prolong_the_retention() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "retention = \"3s\"\nafter_expiry = \"new\"").await;
    let first = gateway.send(&order("k-1")).await;
    let completed = Instant::now();
    assert_replay(&gateway.send(&order("k-1")).await, &first);
    let (second, lasted) = end_of_replays(&gateway, completed).await;
    assert_fresh(&second, 200);
    assert_eq!(second.n(), 2);
    assert!(lasted < Duration::from_secs(6), "replays went on for {lasted:?}");
}

#[tokio::test]
async fn key_that_says_itself_that_it_is_too_old_is_refused() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "retention = \"7d\"").await;
    // A UUIDv7 of the first days of 2024.
    let answer = gateway.send(&order("018cc251-f400-7000-8000-000000000001")).await;
    assert_problem(&answer, 410, "key-expired");
    assert!(answer.text().contains("2024"), "names the time that it read: {answer}");
    assert_fresh(&gateway.send(&order("not-a-uuid-018cc251")).await, 200);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn smallest_lease_and_retention_are_one_second() {
    let upstream = Upstream::start().await;
    for line in ["lease = \"999ms\"", "retention = \"500ms\""] {
        let ended = setup(&upstream, line).run().await;
        ended.assert_code(2);
        assert!(ended.stderr.contains("1s") || ended.stderr.contains("1 s"), "{ended:?}");
    }
}
