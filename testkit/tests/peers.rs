//! The rig's own peers, against each other: what the tests of the product rest on.

use std::time::Duration;

use onefold_testkit::wire::Wire;
use onefold_testkit::{
    Connection, Gate, H2Connection, Missing, RawUpstream, Reply, Request, ReservedAddress, Step, Upstream,
};
use tokio::io::AsyncWriteExt;

fn order() -> Request {
    Request::post("/orders").key("k-1").json("{}")
}

#[tokio::test]
async fn upstream_counts_by_route_and_tag() {
    let upstream = Upstream::start().await;
    assert_eq!(order().send(upstream.address()).await.n(), 1);
    assert_eq!(order().send(upstream.address()).await.n(), 2);
    assert_eq!(Request::post("/orders?tag=b").send(upstream.address()).await.n(), 1);
    assert_eq!(Request::get("/orders").send(upstream.address()).await.status, 200);
    assert_eq!((upstream.count("/orders"), upstream.count_tagged("/orders", "b")), (3, 1));
    assert_eq!(upstream.seen_at("/orders").len(), 4);
}

#[tokio::test]
async fn upstream_keeps_lines_of_one_name_in_order() {
    let upstream = Upstream::start().await;
    let reply = Reply::status(201).header("link", "<a>, <b>").header("link", "<c>").body([0, 255]);
    upstream.next("/orders", reply);
    let answer = order().send(upstream.address()).await;
    assert_eq!(answer.lines("Link"), [b"<a>, <b>".as_slice(), b"<c>"]);
    assert_eq!((answer.status, answer.body.as_slice()), (201, [0, 255].as_slice()));
    assert_eq!(upstream.seen()[0].header("idempotency-key"), Some("k-1"));
}

#[tokio::test]
async fn effect_happens_although_the_caller_hangs_up() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    upstream.next("/orders", Reply::count().hold_before(&gate));
    let mut connection = Connection::open(upstream.address()).await.unwrap();
    connection.send(&order()).await.unwrap();
    upstream.received("/orders", 1).await;
    connection.hang_up();
    gate.open();
    upstream.reached("/orders", 1).await;
}

#[tokio::test]
async fn closing_before_and_after_the_effect_differ_in_the_count_alone() {
    let upstream = Upstream::start().await;
    upstream.next("/orders", Reply::count().close_before_effect());
    upstream.next("/orders", Reply::count().close_after_effect());
    assert!(order().try_send(upstream.address()).await.is_err());
    assert_eq!(upstream.count("/orders"), 0);
    assert!(order().try_send(upstream.address()).await.is_err());
    assert_eq!(upstream.count("/orders"), 1);
}

#[tokio::test]
async fn cut_bodies_come_incomplete() {
    let upstream = Upstream::start().await;
    for missing in [Missing::Length(10), Missing::LastChunk] {
        upstream.next("/orders", Reply::count().cut("half", missing));
        let answer = order().send(upstream.address()).await;
        assert_eq!((answer.is_complete, answer.text().as_str()), (false, "half"), "{missing:?}");
    }
}

#[tokio::test]
async fn events_come_one_by_one() {
    let upstream = Upstream::start().await;
    let gate = Gate::closed();
    upstream.next("/orders", Reply::events_until(Duration::from_millis(10), 3, &gate));
    let mut connection = Connection::open(upstream.address()).await.unwrap();
    connection.send(&order()).await.unwrap();
    connection.wire.until_bytes(b"\"event\":2}").await;
    gate.open();
    let rest = connection.wire.until_bytes(b"\"event\":3}").await;
    assert!(rest.ends_with(b"\"event\":3}"));
}

#[tokio::test]
async fn trailers_arrive_over_both_versions() {
    let upstream = Upstream::start().await;
    upstream.always("/orders", Reply::count().body("x").trailer("x-sum", "9"));
    let by_h1 = order().header("TE", "trailers").send(upstream.address()).await;
    let by_h2 = H2Connection::open(upstream.address()).await.exchange(&order()).await.unwrap();
    for answer in [by_h1, by_h2] {
        assert_eq!(answer.trailers, [("x-sum".to_owned(), b"9".to_vec())], "{answer}");
    }
}

#[tokio::test]
async fn upgraded_connection_echoes() {
    let upstream = Upstream::start().await;
    upstream.next("/socket", Reply::upgrade().header("upgrade", "echo").header("connection", "upgrade"));
    let mut connection = Connection::open(upstream.address()).await.unwrap();
    let request = Request::get("/socket").header("Connection", "upgrade").header("Upgrade", "echo");
    connection.send(&request).await.unwrap();
    assert_eq!(connection.read_head().await.unwrap().0, 101);
    connection.send_bytes(b"ping").await.unwrap();
    assert_eq!(connection.wire.until_bytes(b"ping").await.as_ref(), b"ping");
}

#[tokio::test]
async fn echo_answers_while_the_request_is_sent() {
    let upstream = Upstream::start().await;
    upstream.always("/echo", Reply::echo());
    let mut connection = Connection::open(upstream.address()).await.unwrap();
    connection.send_head(&Request::post("/echo").chunked()).await.unwrap();
    connection.send_bytes(b"5\r\nfirst\r\n").await.unwrap();
    connection.wire.until_bytes(b"first").await;
    connection.send_bytes(b"4\r\nlast\r\n0\r\n\r\n").await.unwrap();
    assert!(connection.wire.until_bytes(b"0\r\n\r\n").await.starts_with(b"\r\n4\r\nlast"));
}

#[tokio::test]
async fn query_gives_orders() {
    let upstream = Upstream::start().await;
    let answer = Request::post("/orders?status=503&delay_ms=1").send(upstream.address()).await;
    assert_eq!(answer.status, 503);
}

#[tokio::test]
async fn reserved_address_refuses_until_it_is_served() {
    let reserved = ReservedAddress::take();
    let address = reserved.url().trim_start_matches("http://").parse().unwrap();
    assert!(Connection::open(address).await.is_err());
    let upstream = Upstream::start_on(reserved);
    assert_eq!(order().send(upstream.address()).await.status, 200);
}

#[tokio::test]
async fn raw_upstream_follows_its_scripts() {
    let answer = "HTTP/1.1 200 OK\r\nX-B: 1\r\nX-a: 2\r\nContent-Length: 0\r\n\r\n";
    let early = "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n";
    let second = vec![Step::Request, Step::send(early), Step::send(answer), Step::Again];
    let upstream = RawUpstream::start(vec![vec![Step::Reset], second]).await;
    let address = upstream.url().trim_start_matches("http://").parse().unwrap();
    assert!(order().try_send(address).await.is_err());
    let mut connection = Connection::open(address).await.unwrap();
    for _ in 0..2 {
        let answer = connection.exchange(&order()).await.unwrap();
        let names: Vec<&str> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["X-B", "X-a", "Content-Length"]);
    }
    assert_eq!((upstream.connections(), upstream.count()), (2, 2));
}

#[tokio::test]
async fn two_lines_of_one_name_go_out_as_two() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let peer = tokio::spawn(async move {
        let mut wire = Wire::new(listener.accept().await.unwrap().0);
        let head = wire.head().await.unwrap().unwrap();
        wire.stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nrest").await.unwrap();
        head
    });
    let answer = order().key("k-2").send(address).await;
    assert_eq!((answer.is_complete, answer.text().as_str()), (true, "rest"));
    let head = String::from_utf8(peer.await.unwrap().raw.to_vec()).unwrap();
    assert!(head.contains("Idempotency-Key: k-1\r\n") && head.contains("Idempotency-Key: k-2\r\n"));
}
