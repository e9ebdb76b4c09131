//! Section 5 of the cases, heads and bodies: what a replay gives back, byte for byte. Streams and limits are
//! in `replay_streams.rs`.

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, gateway, gateway_on, order};
use onefold_testkit::{
    Answer, Connection, RawUpstream, Reply, Request, Setup, Step, Store, Upstream, on_each_store,
};

on_each_store!(b52_empty_result_is_a_result, b52_falsy_results_are_results);

/// Sends one order twice and hands back both answers; the second one is a replay of the first.
async fn twice(reply: Reply) -> (Answer, Answer) {
    twice_on(&Store::sqlite(), reply).await
}

async fn twice_on(store: &Store, reply: Reply) -> (Answer, Answer) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, "").await;
    upstream.next(ROUTE, reply);
    let first = gateway.send(&order("k-1")).await;
    let second = gateway.send(&order("k-1")).await;
    assert!(!first.is_replay(), "{first}");
    assert_replay(&second, &first);
    assert_eq!(upstream.count(ROUTE), 1);
    (first, second)
}

#[tokio::test]
async fn b42_commas_within_header_values_stay() {
    let cookie = "s=1; Expires=Mon, 21 Oct 2030 07:28:00 GMT";
    let reply = Reply::count()
        .header("set-cookie", cookie)
        .header("set-cookie", "t=2; Path=/")
        .header("content-disposition", r#"attachment; filename="a,b.txt""#)
        .header("link", r#"<https://a.example/?x=1,2>; rel="next", <b>; rel="prev""#)
        .header("link", "<c>");
    let (first, second) = twice(reply).await;
    assert_eq!(first.lines("set-cookie"), [cookie.as_bytes(), b"t=2; Path=/".as_slice()]);
    assert_eq!(second.lines("set-cookie"), Vec::<&[u8]>::new(), "a cookie belongs to one exchange");
    assert_eq!(second.header("content-disposition"), Some(r#"attachment; filename="a,b.txt""#));
    let links = [br#"<https://a.example/?x=1,2>; rel="next", <b>; rel="prev""#.as_slice(), b"<c>"];
    assert_eq!(second.lines("link"), links);
}

#[tokio::test]
async fn b42_bytes_beyond_ascii_in_a_header_stay() {
    let (_, second) = twice(Reply::count().header("x-name", b"caf\xe9 \xff")).await;
    assert_eq!(second.lines("x-name"), [b"caf\xe9 \xff".as_slice()]);
}

#[tokio::test]
async fn b43_fields_that_describe_the_result_survive() {
    let fields = [
        ("location", "/orders/5001"),
        ("etag", "\"v1\""),
        ("content-location", "/orders/5001?v=1"),
        ("link", "</orders/5001/items>; rel=items"),
        ("x-custom", "anything"),
        ("cache-control", "no-store"),
    ];
    let reply = fields.iter().fold(Reply::status(201), |reply, (name, value)| reply.header(name, value));
    let (_, second) = twice(reply).await;
    for (name, value) in fields {
        assert_eq!(second.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn b43_fields_of_one_exchange_are_left_out() {
    let fields = [
        ("x-request-id", "r-1"),
        ("ratelimit-remaining", "7"),
        ("x-ratelimit-remaining", "7"),
        ("www-authenticate", "Bearer"),
        ("date", "Mon, 21 Oct 2030 07:28:00 GMT"),
    ];
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let reply = fields.iter().fold(Reply::count(), |reply, (name, value)| reply.header(name, value));
    upstream.next(ROUTE, reply);
    let first = gateway.send(&order("k-1")).await;
    let second = gateway.send(&order("k-1")).await;
    assert!(second.is_replay(), "{second}");
    for (name, value) in fields {
        assert_eq!(first.header(name), Some(value), "{name} reaches the first caller");
        assert_ne!(second.header(name), Some(value), "{name} is not replayed");
    }
}

#[tokio::test]
async fn b44_status_is_kept_and_the_connection_stays_usable() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let replies = [
        Reply::status(200),
        Reply::status(201),
        Reply::status(202).header("retry-after", "3"),
        Reply::status(204),
        Reply::status(205),
        Reply::status(207),
        Reply::status(303).header("location", "/orders/1"),
        Reply::status(304),
    ];
    let statuses = [200, 201, 202, 204, 205, 207, 303, 304];
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    for (status, reply) in statuses.into_iter().zip(replies) {
        upstream.next(ROUTE, reply);
        let request = order(&format!("k-{status}"));
        let first = connection.exchange(&request).await.unwrap();
        assert_fresh(&first, status);
        let second = connection.exchange(&request).await.unwrap();
        assert_replay(&second, &first);
        assert_eq!(second.header("retry-after"), first.header("retry-after"));
        if matches!(status, 204 | 205 | 304) {
            assert!(second.body.is_empty(), "{second}");
            assert!(matches!(second.header("content-length"), None | Some("0")), "{second}");
        }
    }
    assert_eq!(upstream.count(ROUTE), statuses.len() as u64);
    assert_fresh(&connection.exchange(&Request::get("/after")).await.unwrap(), 200);
}

#[tokio::test]
async fn b46_every_byte_survives() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let pdf = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<<>>\nendobj\n\0\r\n%%EOF";
    let not_utf8 = b"caf\xe9 \xc3\x28 \xff\xfe";
    let bodies: [(&str, &[u8]); 3] =
        [("application/octet-stream", &every_byte), ("application/pdf", pdf), ("text/plain", not_utf8)];
    for (media_type, body) in bodies {
        let (first, second) = twice(Reply::count().header("content-type", media_type).body(body)).await;
        assert_eq!(first.body, body, "{media_type}");
        assert_eq!(second.body, body, "{media_type}");
    }
}

#[tokio::test]
async fn b46_encoded_content_is_not_decoded() {
    let gzip_like = b"\x1f\x8b\x08\0\0\0\0\0\0\x03not really";
    let (first, second) = twice(Reply::count().header("content-encoding", "gzip").body(gzip_like)).await;
    assert_eq!((first.body.as_slice(), second.body.as_slice()), (gzip_like.as_slice(), gzip_like.as_slice()));
}

#[tokio::test]
async fn b51_marker_stands_on_replays_of_errors_too() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, Reply::status(400).json(r#"{"error":"no such book"}"#));
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 400);
    assert_replay(&gateway.send(&order("k-1")).await, &first);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b51_upstream_cannot_fake_the_marker() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, Reply::count().header("idempotent-replayed", "true"));
    let first = gateway.send(&order("k-1")).await;
    assert_eq!(first.lines("idempotent-replayed"), Vec::<&[u8]>::new());
    let second = gateway.send(&order("k-1")).await;
    assert_eq!(second.lines("idempotent-replayed"), [b"true".as_slice()], "once, by the layer");
}

async fn b52_empty_result_is_a_result(store: &Store) {
    let (first, second) = twice_on(store, Reply::count().body("")).await;
    assert_eq!((first.status, second.status), (200, 200));
    assert!(second.body.is_empty());
}

async fn b52_falsy_results_are_results(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = gateway_on(store, &upstream, "").await;
    for (nth, body) in ["0", "false", "\"\"", "[]", "null"].into_iter().enumerate() {
        upstream.next(ROUTE, Reply::count().json(body));
        let request = order(&format!("k-{nth}"));
        let first = gateway.send(&request).await;
        assert_fresh(&first, 200);
        let second = gateway.send(&request).await;
        assert_replay(&second, &first);
        assert_eq!(second.text(), body);
        assert_eq!(upstream.count(ROUTE), nth as u64 + 1);
    }
}

#[tokio::test]
async fn trailers_are_replayed() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
                   6\r\nplaced\r\n0\r\nX-Sum: 9\r\n\r\n";
    let upstream = RawUpstream::start(vec![vec![Step::Request, Step::send(chunked)]]).await;
    let gateway = Setup::new(&upstream.url()).operation("CreateOrder", "POST", ROUTE, "").start().await;
    let request = order("k-1").header("TE", "trailers");
    let first = gateway.send(&request).await;
    let second = gateway.send(&request).await;
    assert_replay(&second, &first);
    for answer in [&first, &second] {
        let trailers: Vec<_> =
            answer.trailers.iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
        assert_eq!(trailers, [("x-sum".to_owned(), &b"9".to_vec())], "{answer}");
    }
}

#[tokio::test]
async fn informational_answers_are_not_taken_for_the_result() {
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
    let placed = "HTTP/1.1 201 Created\r\nContent-Length: 6\r\n\r\nplaced";
    let script = vec![Step::Request, Step::send(early), Step::send(placed)];
    let upstream = RawUpstream::start(vec![script]).await;
    let gateway = Setup::new(&upstream.url()).operation("CreateOrder", "POST", ROUTE, "").start().await;
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 201);
    assert_replay(&gateway.send(&order("k-1")).await, &first);
}

#[tokio::test]
async fn order_of_header_lines_is_the_same_in_the_replay() {
    let answer =
        "HTTP/1.1 200 OK\r\nX-B: 1\r\nX-A: 2\r\nX-B: 3\r\nX-C: 4\r\nX-A: 5\r\nContent-Length: 0\r\n\r\n";
    let upstream = RawUpstream::start(vec![vec![Step::Request, Step::send(answer)]]).await;
    let gateway = Setup::new(&upstream.url()).operation("CreateOrder", "POST", ROUTE, "").start().await;
    let first = gateway.send(&order("k-1")).await;
    let second = gateway.send(&order("k-1")).await;
    assert_replay(&second, &first);
    assert_eq!(second.lines("x-b"), [b"1", b"3"]);
    assert_eq!(second.lines("x-a"), [b"2", b"5"]);
}

#[tokio::test]
async fn replay_by_reference_gives_the_status_and_the_place_without_the_body() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, r#"store_response = { mode = "reference" }"#).await;
    upstream.next(ROUTE, Reply::status(201).header("location", "/orders/5001").header("etag", "\"v1\""));
    assert_fresh(&gateway.send(&order("k-1")).await, 201);
    let second = gateway.send(&order("k-1")).await;
    assert!(second.is_replay() && second.status == 201, "{second}");
    assert!(second.body.is_empty(), "{second}");
    assert_eq!((second.header("location"), second.header("etag")), (Some("/orders/5001"), Some("\"v1\"")));
}

#[tokio::test]
async fn body_that_is_not_kept_is_said_so_and_nothing_runs_again() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, r#"store_response = { mode = "none" }"#).await;
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    let second = gateway.send(&order("k-1")).await;
    assert_problem(&second, 409, "response-not-kept");
    assert!(second.operation().is_some(), "{second}");
    assert_eq!(upstream.count(ROUTE), 1);
}
