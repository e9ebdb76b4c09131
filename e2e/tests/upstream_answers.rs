//! Answers of an upstream that say more than they may: statuses that are none, two framings, fields of its
//! connection, trailers that mark or authorize. What reaches the first caller reaches the duplicates too.

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, dump, gateway, order};
use onefold_testkit::{Answer, Gateway, H2Connection, RawUpstream, Reply, Request, Setup, Step, Upstream};

async fn before_raw(answer: &str, lines: &str) -> (RawUpstream, Gateway) {
    // Again: a connection that is just being closed is another test's matter.
    let script = vec![Step::Request, Step::send(answer), Step::Again];
    let upstream = RawUpstream::start(vec![script]).await;
    let gateway = Setup::new(&upstream.url()).operation("CreateOrder", "POST", ROUTE, lines).start().await;
    (upstream, gateway)
}

#[tokio::test]
async fn status_that_is_none_leaves_the_outcome_unknown() {
    for status in [600, 999] {
        let answer = format!("HTTP/1.1 {status} Odd\r\nContent-Length: 3\r\n\r\nodd");
        let (upstream, gateway) = before_raw(&answer, "").await;
        let first = gateway.send(&order("k-1")).await;
        assert_fresh(&first, status);
        assert_eq!(first.text(), "odd");
        let second = gateway.send(&order("k-1")).await;
        assert_problem(&second, 409, "outcome-unknown");
        assert_eq!(second.json()["safe_to_use_new_key"], false, "{second}");
        assert_eq!(upstream.count(), 1);
    }
}

fn assert_one_framing(answer: &Answer) {
    assert!(answer.is_complete && answer.text() == "placed twice", "{answer}");
    let length = answer.header("content-length");
    assert!(length.is_none_or(|length| length == "12"), "{answer}");
    assert!(length.is_none() || answer.header("transfer-encoding").is_none(), "{answer}");
}

#[tokio::test]
async fn body_of_two_framings_is_whole_for_everybody() {
    for length in [3, 12, 500] {
        let answer = format!(
            "HTTP/1.1 201 Created\r\nContent-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n\
             6\r\nplaced\r\n6\r\n twice\r\n0\r\n\r\n"
        );
        let (upstream, gateway) = before_raw(&answer, "").await;
        let first = gateway.send(&order("k-1")).await;
        assert_fresh(&first, 201);
        let second = gateway.send(&order("k-1")).await;
        assert_replay(&second, &first);
        assert_eq!(upstream.count(), 1);
        let by_h2 = H2Connection::open(gateway.address()).await.exchange(&order("k-2")).await.unwrap();
        let unprotected = gateway.send(&Request::post("/notes").json("{}")).await;
        for answer in [&first, &second, &by_h2, &unprotected] {
            assert_one_framing(answer);
        }
    }
}

#[tokio::test]
async fn fields_of_the_upstreams_connection_are_in_no_answer() {
    let answer = "HTTP/1.1 201 Created\r\nConnection: X-Internal, keep-alive\r\nKeep-Alive: timeout=5\r\n\
                  X-Internal: node-17.internal\r\nX-Public: kept\r\nContent-Length: 6\r\n\r\nplaced";
    let (_upstream, gateway) = before_raw(answer, "").await;
    let first = gateway.send(&order("k-1")).await;
    let second = gateway.send(&order("k-1")).await;
    assert_replay(&second, &first);
    let unprotected = gateway.send(&Request::post("/notes").json("{}")).await;
    for answer in [&first, &second, &unprotected] {
        assert_eq!(answer.header("x-public"), Some("kept"), "{answer}");
        assert_eq!((answer.header("x-internal"), answer.header("keep-alive")), (None, None), "{answer}");
    }
    assert!(dump::contains(gateway.setup(), "x-public"), "the dump shows what is stored");
    assert!(!dump::contains(gateway.setup(), "node-17.internal"), "in the store");
}

const FORGED: &str = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\
                      Trailer: X-Sum, Idempotent-Replayed, Onefold-Operation, Set-Cookie\r\n\r\n6\r\nplaced\r\n0\r\n\
                      X-Sum: 9\r\nIdempotent-Replayed: true\r\nOnefold-Operation: /operations/forged\r\n\
                      Set-Cookie: session=forged\r\n\r\n";

fn trailers(answer: &Answer) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    answer.trailers.iter().map(|(name, value)| (name.to_lowercase(), text(value))).collect()
}

#[tokio::test]
async fn trailers_that_mark_or_authorize_reach_nobody() {
    let (_upstream, gateway) = before_raw(FORGED, "").await;
    let h2 = H2Connection::open(gateway.address()).await;
    let allowed = [("x-sum".to_owned(), "9".to_owned())];
    let requests = [order("k-1"), order("k-1"), order("k-2"), Request::post("/notes").json("{}")];
    for request in requests.map(|request| request.header("TE", "trailers")) {
        for answer in [gateway.send(&request).await, h2.exchange(&request).await.unwrap()] {
            assert!(answer.status == 201 && answer.text() == "placed", "{answer}");
            assert_eq!(trailers(&answer), allowed, "{answer}");
        }
    }
    assert!(!dump::contains(gateway.setup(), "forged"), "in the store");
}

#[tokio::test]
async fn trailers_are_not_kept_where_something_is_redacted() {
    let answer = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\
                  Trailer: X-Token\r\n\r\n1e\r\n{\"ok\":true,\"token\":\"secret-1\"}\r\n0\r\nX-Token: secret-2\r\n\r\n";
    let redacted = r#"store_response = { mode = "full", redact = ["/token"] }"#;
    let (upstream, gateway) = before_raw(answer, redacted).await;
    let request = order("k-1").header("TE", "trailers");
    let first = gateway.send(&request).await;
    assert_eq!(first.json()["token"], "secret-1", "{first}");
    assert_eq!(
        trailers(&first),
        [("x-token".to_owned(), "secret-2".to_owned())],
        "the first caller gets them"
    );
    let second = gateway.send(&request).await;
    assert!(second.is_replay() && second.json()["ok"] == true, "{second}");
    assert_eq!(trailers(&second), [], "{second}");
    for secret in ["secret-1", "secret-2"] {
        assert!(!dump::contains(gateway.setup(), secret), "{secret} in the store");
    }
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn many_header_lines_lose_no_answer() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let many = (0..300).fold(Reply::status(201), |reply, nth| reply.header("x-link", format!("<{nth}>")));
    upstream.next(ROUTE, many);
    let first = gateway.send(&order("k-1")).await;
    assert_fresh(&first, 201);
    assert_eq!(first.lines("x-link").len(), 300);
    assert_replay(&gateway.send(&order("k-1")).await, &first);
}
