//! What is not protected: it passes through as through any good proxy. And the key on its way upstream.

use std::time::Duration;

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway, order, parallel};
use onefold_testkit::{
    Connection, Gate, H2Connection, RawUpstream, Reply, Request, ReservedAddress, Setup, Step, Upstream, wait,
};

#[tokio::test]
async fn keyed_request_that_no_operation_names_passes_untouched() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for n in 1..=2 {
        let answer = gateway.send(&Request::post("/notes").bearer("alice").key("k-1").json("{}")).await;
        assert_fresh(&answer, 200);
        assert_eq!((answer.n(), answer.header("onefold-operation")), (n, None));
    }
    assert_eq!(upstream.seen_at("/notes")[1].header("idempotency-key"), Some("k-1"));
}

#[tokio::test]
async fn target_reaches_the_upstream_as_it_came() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for target in ["/a%2Fb/./c//d;v=1?x=%20&x=+&y", "/%7Euser/?", "/orders/?q=[1]"] {
        assert_fresh(&gateway.send(&Request::get(target)).await, 200);
        assert_eq!(upstream.seen().pop().unwrap().target, target);
    }
    let mut protected = order("k-1");
    protected.target = "/%6Frders/?b=2&a=1".to_owned();
    assert_fresh(&gateway.send(&protected).await, 200);
    assert_eq!(upstream.seen().pop().unwrap().target, "/%6Frders/?b=2&a=1");
}

#[tokio::test]
async fn header_lines_pass_and_those_of_the_connection_do_not() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let request = Request::get("/notes")
        .header("X-Many", "1")
        .header("X-Many", "2, 3")
        .header("Cookie", "a=1; b=2")
        .header("X-Hop", "mine")
        .header("Connection", "X-Hop")
        .header("X-Bytes", b"caf\xe9");
    assert_fresh(&gateway.send(&request).await, 200);
    let seen = upstream.seen().pop().unwrap();
    let many: Vec<&[u8]> =
        seen.headers.iter().filter(|(name, _)| name == "x-many").map(|(_, value)| value.as_slice()).collect();
    assert_eq!(many, [b"1".as_slice(), b"2, 3"]);
    assert_eq!((seen.header("cookie"), seen.header("x-hop")), (Some("a=1; b=2"), None));
    assert!(seen.headers.contains(&("x-bytes".to_owned(), b"caf\xe9".to_vec())));
}

#[tokio::test]
async fn upgraded_connection_passes_both_ways() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next("/socket", Reply::upgrade().header("upgrade", "websocket").header("connection", "upgrade"));
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    let request = Request::get("/socket").header("Connection", "Upgrade").header("Upgrade", "websocket");
    connection.send(&request).await.unwrap();
    let (status, head) = connection.read_head().await.unwrap();
    assert_eq!((status, head.text("upgrade")), (101, Some("websocket")), "{}", head.start);
    for word in ["ping-1", "ping-2"] {
        connection.send_bytes(word.as_bytes()).await.unwrap();
        let echo = connection.wire.until_bytes(word.as_bytes());
        assert_eq!(wait::within(wait::DEADLINE, "the echo", echo).await, word);
    }
}

#[tokio::test]
async fn bodies_stream_both_ways() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.always("/echo", Reply::echo());
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    connection.send_head(&Request::post("/echo").chunked()).await.unwrap();
    connection.send_bytes(b"5\r\nfirst\r\n").await.unwrap();
    let first = connection.wire.until_bytes(b"first");
    wait::within(wait::DEADLINE, "the first part, before the last one was sent", first).await;
    connection.send_bytes(b"4\r\nlast\r\n0\r\n\r\n").await.unwrap();
    let rest = connection.wire.until_bytes(b"0\r\n\r\n").await;
    assert!(onefold_testkit::wire::find(&rest, b"last").is_some(), "{rest:?}");
}

#[tokio::test]
async fn events_pass_one_by_one() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let gate = Gate::closed();
    upstream.next("/events", Reply::events_until(Duration::from_millis(10), 3, &gate));
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    connection.send(&Request::get("/events")).await.unwrap();
    let second = connection.wire.until_bytes(b"{\"event\":2}");
    wait::within(wait::DEADLINE, "the second event, before the last one", second).await;
    gate.open();
    let rest = connection.wire.until_bytes(b"{\"event\":3}").await;
    assert!(rest.ends_with(b"{\"event\":3}"));
}

#[tokio::test]
async fn trailers_of_the_request_pass() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let request = Request::post("/notes").header("Trailer", "X-Sent").body("note").trailer("X-Sent", "7");
    assert_fresh(&gateway.send(&request).await, 200);
    assert_eq!(upstream.seen().pop().unwrap().trailers, [("x-sent".to_owned(), b"7".to_vec())]);
}

#[tokio::test]
async fn trailers_of_the_answer_pass() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
                   4\r\nnote\r\n0\r\nX-Sum: 9\r\n\r\n";
    let upstream = RawUpstream::start(vec![vec![Step::Request, Step::send(chunked)]]).await;
    let gateway = Setup::new(&upstream.url()).start().await;
    let request = Request::post("/notes").header("TE", "trailers").body("note");
    let answer = gateway.send(&request).await;
    let trailers: Vec<_> =
        answer.trailers.iter().map(|(name, value)| (name.to_lowercase(), value.as_slice())).collect();
    assert_eq!(trailers, [("x-sum".to_owned(), b"9".as_slice())], "{answer}");
}

#[tokio::test]
async fn upstream_learns_that_the_caller_takes_trailers() {
    // Without this word an upstream may leave them out, as gRPC servers and strict HTTP/1.1 ones do.
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    assert_fresh(&gateway.send(&Request::get("/notes").header("TE", "trailers")).await, 200);
    assert_eq!(upstream.seen().pop().unwrap().header("te"), Some("trailers"));
}

#[tokio::test]
async fn http2_callers_are_served() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let connection = H2Connection::open(gateway.address()).await;
    let unprotected = connection.exchange(&Request::post("/notes").json("{}")).await.unwrap();
    assert_fresh(&unprotected, 200);
    let first = connection.exchange(&order("k-1")).await.unwrap();
    assert_fresh(&first, 200);
    assert_replay(&connection.exchange(&order("k-1")).await.unwrap(), &first);
    let conflict = connection.exchange(&onefold_e2e::order_of("k-1", "[2]")).await.unwrap();
    assert_problem(&conflict, 422, "key-conflict");
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn http2_streams_of_one_connection_share_one_execution() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.always(ROUTE, Reply::count().delay_before(Duration::from_millis(200)).body("placed"));
    let connection = H2Connection::open(gateway.address()).await;
    let sent: Vec<_> = (0..20)
        .map(|_| {
            let connection = connection.clone();
            tokio::spawn(async move { connection.exchange(&order("k-1")).await.unwrap() })
        })
        .collect();
    parallel::assert_one_result(&parallel::answers(sent).await, b"placed");
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn unreachable_upstream_is_502_on_every_route() {
    let reserved = ReservedAddress::take();
    let gateway = Setup::new(&reserved.url()).operation("CreateOrder", "POST", ROUTE, "").start().await;
    for request in [Request::get("/notes"), Request::post("/notes").json("{}"), order("k-1")] {
        assert_problem(&gateway.send(&request).await, 502, "upstream-unreachable");
    }
}

#[tokio::test]
async fn unprotected_request_is_not_sent_again_either() {
    let upstream = RawUpstream::start(vec![vec![Step::Request]]).await;
    let gateway = Setup::new(&upstream.url()).start().await;
    let answer = gateway.send(&Request::post("/notes").json("{}")).await;
    assert!(matches!(answer.status, 502 | 504), "{answer}");
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn head_keeps_the_length_that_get_would_have() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n";
    let upstream = RawUpstream::start(vec![vec![Step::Request, Step::send(head)]]).await;
    let gateway = Setup::new(&upstream.url()).start().await;
    let answer = gateway.send(&Request::new("HEAD", "/notes")).await;
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("1234")), "{answer}");
}

#[tokio::test]
async fn key_goes_on_unchanged_by_default() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    for key in ["\"k-1\"", "k-2"] {
        assert_fresh(&gateway.send(&order(key)).await, 200);
        assert_eq!(upstream.seen().pop().unwrap().header("idempotency-key"), Some(key));
    }
}

#[tokio::test]
async fn key_goes_on_derived_or_not_at_all_where_it_is_so_configured() {
    let upstream = Upstream::start().await;
    let derived =
        gateway(&upstream, "forward_key = \"derived\"\nremember = { \"5xx\" = \"not_done\" }").await;
    upstream.next(ROUTE, Reply::status(500));
    assert_fresh(&derived.send(&order("k-1")).await, 500);
    assert_fresh(&derived.send(&order("k-1")).await, 200);
    let keys: Vec<_> =
        upstream.seen().iter().map(|seen| seen.header("idempotency-key").map(str::to_owned)).collect();
    assert!(keys[0].is_some() && keys[0].as_deref() != Some("k-1"), "{keys:?}");
    assert_eq!(keys[0], keys[1], "the same in every attempt");
    let none = gateway(&upstream, "forward_key = \"none\"").await;
    assert_fresh(&none.send(&order("k-1")).await, 200);
    assert_eq!(upstream.seen().pop().unwrap().header("idempotency-key"), None);
}
