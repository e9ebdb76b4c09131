//! Section 5 of the cases, streams and limits: B48 and B49.

use std::time::Duration;

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway, order, parallel};
use onefold_testkit::{Connection, Gate, Missing, Reply, Upstream, wait};

const EVERY: Duration = Duration::from_millis(50);
const BUSY: &str = "while_running = { busy = true }";

fn last_event(answer: &onefold_testkit::Answer) -> bool {
    answer.text().ends_with("data: {\"event\":10}\n\n")
}

#[tokio::test]
async fn b48_events_reach_the_first_caller_as_they_come() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, BUSY).await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::events_until(EVERY, 10, &gate));
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    connection.send(&order("k-1")).await.unwrap();
    let ninth = connection.wire.until_bytes(b"{\"event\":9}");
    wait::within(wait::DEADLINE, "the events before the last one", ninth).await;
    assert_problem(&gateway.send(&order("k-1")).await, 409, "in-progress");
    gate.open();
    let rest = connection.wire.until_bytes(b"0\r\n\r\n").await;
    assert!(rest.ends_with(b"0\r\n\r\n"), "comes to its proper end");
}

#[tokio::test]
async fn b48_repeat_after_the_stream_replays_all_of_it() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, Reply::events(EVERY, 10));
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 200);
    assert!(last_event(&first), "{first}");
    assert_replay(&gateway.send(&order("k-1")).await, &first);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b48_caller_who_leaves_the_stream_finds_all_of_it_later() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::events_until(EVERY, 10, &gate));
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    connection.send(&order("k-1")).await.unwrap();
    connection.wire.until_bytes(b"{\"event\":2}").await;
    connection.hang_up();
    gate.open();
    let answer = wait::some(wait::DEADLINE, "the stream is recorded", async || {
        let answer = gateway.send(&order("k-1")).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert!(answer.is_replay() && last_event(&answer), "{answer}");
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b48_partial_recording_is_never_replayed_as_complete() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for (key, missing) in [("k-1", Missing::LastChunk), ("k-2", Missing::Length(100))] {
        upstream.next(ROUTE, Reply::count().cut("data: {\"event\":1}\n\n", missing));
        let first = order(key).try_send(gateway.address()).await;
        assert!(!first.is_ok_and(|answer| answer.is_complete), "the caller sees that it was cut");
        assert_problem(&gateway.send(&order(key)).await, 409, "response-not-kept");
    }
    assert_eq!(upstream.count(ROUTE), 2);
}

const LIMIT: usize = 256 * 1024;
const LIMITED: &str = r#"store_response = { mode = "full", max = "256KiB" }"#;

#[tokio::test]
async fn b49_answer_above_the_limit_reaches_the_first_caller_whole_and_is_not_kept() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, LIMITED).await;
    let big = vec![b'x'; 10 * 1024 * 1024];
    upstream.next(ROUTE, Reply::status(201).body(&big));
    upstream.next(ROUTE, Reply::status(201).chunked(&big));
    for key in ["k-announced", "k-chunked"] {
        let first = gateway.send(&order(key)).await;
        assert_fresh(&first, 201);
        assert!(first.body == big, "all bytes");
        assert_problem(&gateway.send(&order(key)).await, 409, "response-not-kept");
    }
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn b49_limit_itself_is_kept_and_one_byte_more_is_not() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, LIMITED).await;
    for (key, size) in [("k-below", LIMIT - 1), ("k-limit", LIMIT), ("k-above", LIMIT + 1)] {
        upstream.next(ROUTE, Reply::count().body(vec![b'x'; size]));
        let first = gateway.send(&order(key)).await;
        assert_eq!(first.body.len(), size);
        let second = gateway.send(&order(key)).await;
        match size > LIMIT {
            true => assert_problem(&second, 409, "response-not-kept"),
            false => assert_replay(&second, &first),
        }
    }
}

#[tokio::test]
async fn b49_big_answer_does_not_fill_the_memory() {
    const BIG: usize = 96 * 1024 * 1024;
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, LIMITED).await;
    assert_fresh(&gateway.send(&order("k-warm")).await, 200);
    let before = gateway.process().resident_bytes();
    upstream.next(ROUTE, Reply::count().chunked(vec![b'x'; BIG]));
    let first = parallel::send(order("k-1"), gateway.address());
    let mut most = before;
    while !first.is_finished() {
        most = most.max(gateway.process().resident_bytes());
        tokio::task::yield_now().await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(first.await.unwrap().body.len(), BIG);
    let grown = most - before;
    assert!(grown < BIG as u64 / 3, "grew by {grown} bytes");
}
