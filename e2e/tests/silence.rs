//! Callers who connect or begin and then say nothing. Slow: the gateway waits for them for half a minute, and so do
//! these tests, side by side.

use std::time::{Duration, Instant};

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, gateway, order};
use onefold_testkit::{Connection, Gateway, Upstream, wait};

/// Half a minute, which the gateway grants, and some more for a machine that is busy.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// How long the gateway holds a connection that brings `begun` and nothing more.
async fn held(gateway: &Gateway, begun: &[u8]) -> Duration {
    let mut connection = Connection::open(gateway.address()).await.expect("connects");
    connection.send_bytes(begun).await.expect("writes");
    let since = Instant::now();
    let what = format!("the end of a connection that brought {:?}", String::from_utf8_lossy(begun));
    // What the gateway may say before it closes does not count.
    wait::within(SILENCE_MAX, &what, connection.wire.until_bytes(b"never said")).await;
    since.elapsed()
}

#[tokio::test]
async fn silent_connections_are_closed() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let ((nothing, letter), (preface, head)) =
        tokio::join!(async { tokio::join!(held(&gateway, b""), held(&gateway, b"P")) }, async {
            tokio::join!(
                held(&gateway, b"PRI * HTTP/2.0\r\n\r"),
                held(&gateway, b"POST /orders HTTP/1.1\r\nHost: a\r\n")
            )
        },);
    for time in [nothing, letter, preface, head] {
        assert!(time >= Duration::from_secs(10), "a slow caller is no silent one: closed after {time:?}");
    }
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
}

#[tokio::test]
async fn body_that_falls_silent_is_refused_and_takes_no_claim() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let stalled = order("k-1");
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    connection.send_head(&stalled).await.unwrap();
    connection.send_bytes(&stalled.body[..5]).await.unwrap();
    let answer =
        wait::within(SILENCE_MAX, "an answer to half a body", connection.read_answer()).await.unwrap();
    assert_problem(&answer, 400, "request-invalid");
    assert_eq!(upstream.seen_at(ROUTE).len(), 0);
    let known = gateway.admin_get("/v1/operations").await.json();
    assert_eq!(known["items"].as_array().map(Vec::len), Some(0), "{known}");
    assert_fresh(&gateway.send(&stalled).await, 200);
}
