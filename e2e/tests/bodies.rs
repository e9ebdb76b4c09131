//! Requests of protected routes: read whole, spooled, refused, cut.

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway, order, order_of, setup};
use onefold_testkit::{Connection, Gateway, H2Connection, Request, Upstream, wait};
use sha2::{Digest as _, Sha256};

fn upload(key: &str, body: &[u8]) -> Request {
    let request = Request::post(ROUTE).bearer("alice").key(key);
    request.header("Content-Type", "application/octet-stream").body(body)
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|nth| (nth * 7 % 251) as u8).collect()
}

#[tokio::test]
async fn spooled_request_reaches_the_upstream_whole_and_is_told_from_another() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let mut body = bytes(5 * 1024 * 1024 + 1);
    let first = gateway.send(&upload("k-1", &body)).await;
    assert_fresh(&first, 200);
    let seen = upstream.seen().pop().unwrap();
    assert_eq!(seen.body_bytes, body.len());
    assert_eq!(seen.body_sha256[..], Sha256::digest(&body)[..]);
    assert_replay(&gateway.send(&upload("k-1", &body).chunked()).await, &first);
    *body.last_mut().unwrap() ^= 1;
    assert_problem(&gateway.send(&upload("k-1", &body)).await, 422, "key-conflict");
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn sizes_around_the_spool_bound_arrive_whole() {
    const BOUND: usize = 256 * 1024;
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for size in [BOUND - 1, BOUND, BOUND + 1] {
        let body = bytes(size);
        assert_fresh(&gateway.send(&upload(&format!("k-{size}"), &body)).await, 200);
        assert_eq!(upstream.seen().pop().unwrap().body_sha256[..], Sha256::digest(&body)[..], "{size}");
    }
}

#[tokio::test]
async fn big_request_does_not_fill_the_memory() {
    const BIG: usize = 60 * 1024 * 1024;
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    assert_fresh(&gateway.send(&order("k-warm")).await, 200);
    let before = gateway.process().resident_bytes();
    let sent = onefold_e2e::parallel::send(upload("k-1", &bytes(BIG)), gateway.address());
    let mut most = before;
    while !sent.is_finished() {
        most = most.max(gateway.process().resident_bytes());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_fresh(&sent.await.unwrap(), 200);
    assert!(most - before < BIG as u64 / 2, "grew by {} bytes", most - before);
}

#[tokio::test]
async fn request_above_the_limit_is_413_and_takes_no_claim() {
    let upstream = Upstream::start().await;
    let gateway = setup(&upstream, "").server("max_request = \"1MiB\"").start().await;
    let big = bytes(1024 * 1024 + 1);
    for request in [upload("k-1", &big), upload("k-1", &big).chunked()] {
        assert_problem(&gateway.send(&request).await, 413, "request-too-large");
    }
    assert_eq!(upstream.seen().len(), 0);
    assert_fresh(&gateway.send(&upload("k-1", &big[1..])).await, 200);
}

async fn records(gateway: &Gateway) -> usize {
    let page = gateway.admin_get("/v1/operations").await.json();
    page["items"].as_array().map(Vec::len).expect("a list")
}

#[tokio::test]
async fn cut_request_takes_no_claim_and_never_reaches_the_upstream() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let request = order("k-1");
    for request in [request.clone(), request.clone().chunked()] {
        let mut connection = Connection::open(gateway.address()).await.unwrap();
        connection.send_head(&request).await.unwrap();
        let half = request.framed_body().len() / 2;
        connection.send_bytes(&request.framed_body()[..half]).await.unwrap();
        connection.hang_up();
    }
    // Another request's answer proves that the gateway still works; the cut ones have left nothing.
    assert_fresh(&gateway.send(&order("k-2")).await, 200);
    assert_eq!((upstream.seen().len(), records(&gateway).await), (1, 1));
    assert_fresh(&gateway.send(&request).await, 200);
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn reset_http2_request_is_either_whole_or_nothing() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let connection = H2Connection::open(gateway.address()).await;
    connection.reset_when(&order("k-1"), tokio::task::yield_now()).await;
    let answer = wait::some(wait::DEADLINE, "the key has its result", async || {
        let answer = connection.exchange(&order("k-1")).await.unwrap();
        (answer.status == 200).then_some(answer)
    })
    .await;
    assert_eq!(answer.n(), 1);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn caller_who_waits_for_100_is_told_to_go_on() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let request = order("k-1").header("Expect", "100-continue");
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    connection.send_head(&request).await.unwrap();
    assert_eq!(connection.read_any_head().await.unwrap().0, 100);
    connection.send_bytes(&request.framed_body()).await.unwrap();
    assert_fresh(&connection.read_answer().await.unwrap(), 200);
}

#[tokio::test]
async fn requests_of_one_connection_do_not_mix() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    for n in 1..=5 {
        let request = order_of(&format!("k-{n}"), &format!("[{n}]"));
        let first = connection.exchange(&request).await.unwrap();
        assert_eq!(first.n(), n);
        assert_replay(&connection.exchange(&request).await.unwrap(), &first);
    }
}

#[tokio::test]
async fn refusal_leaves_the_connection_in_order() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    let refused = connection.exchange(&order("\"broken")).await.unwrap();
    assert_problem(&refused, 400, "key-invalid");
    if refused.header("connection") != Some("close") {
        assert_fresh(&connection.exchange(&order("k-1")).await.unwrap(), 200);
    }
}

#[tokio::test]
async fn body_that_contradicts_its_framing_is_refused() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let smuggled = order("k-1").header("Content-Length", "3").header("Transfer-Encoding", "chunked");
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    connection.send_head(&smuggled).await.unwrap();
    connection.send_bytes(b"2\r\n{}\r\n0\r\n\r\n").await.unwrap();
    let answer = connection.read_answer().await.unwrap();
    let seen = upstream.seen();
    // RFC 9112, 6.1: either refuse it or let the chunks count and drop the length.
    match answer.status {
        400 => assert!(seen.is_empty()),
        _ => assert_eq!((answer.status, seen[0].body.as_ref()), (200, b"{}".as_slice())),
    }
}
