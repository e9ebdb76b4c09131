//! What goes on to the upstream, against callers who would have it otherwise: the key, the credential and the scope
//! that the layer counted on get there, and what only proxies may say does not come from others.

use onefold_e2e::{ROUTE, assert_fresh, assert_replay, gateway, order, setup};
use onefold_testkit::{
    Connection, H2Connection, RawUpstream, Reply, Request, Seen, Setup, Step, Upstream, wait,
};

const TRUSTED: &str = "trusted_proxies = [\"127.0.0.0/8\"]";

fn lines(seen: &Seen, name: &str) -> Vec<String> {
    let named = seen.headers.iter().filter(|(line, _)| line == name);
    named.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
}

fn last(upstream: &Upstream) -> Seen {
    upstream.seen().pop().expect("a request")
}

fn hiding(request: Request) -> Request {
    request
        .header("Cookie", "session=s-1")
        .header("X-Tenant", "t-1")
        .header("X-Hop", "mine")
        .header("Connection", "Idempotency-Key, Authorization, Cookie")
        .header("Connection", "x-tenant, Content-Type, X-Hop")
}

fn assert_nothing_hidden(seen: &Seen) {
    for (name, value) in [
        ("idempotency-key", "k-1"),
        ("authorization", "Bearer alice"),
        ("cookie", "session=s-1"),
        ("x-tenant", "t-1"),
        ("content-type", "application/json"),
    ] {
        assert_eq!(lines(seen, name), [value], "{name}");
    }
    assert_eq!(lines(seen, "x-hop"), Vec::<String>::new(), "what else the caller names is of its connection");
}

#[tokio::test]
async fn connection_hides_nothing_that_the_layer_counted_on() {
    let upstream = Upstream::start().await;
    let scope = "scope = [\"credential\", \"cookie:session\", \"header:X-Tenant\"]";
    let gateway = setup(&upstream, scope).server(TRUSTED).start().await;
    assert_fresh(&gateway.send(&hiding(order("k-1"))).await, 200);
    assert_nothing_hidden(&last(&upstream));
    let unprotected = Request::post("/notes").bearer("alice").key("k-1").json("{}");
    assert_fresh(&gateway.send(&hiding(unprotected)).await, 200);
    assert_nothing_hidden(&last(&upstream));
}

#[tokio::test]
async fn connection_hides_no_key_without_configuration_either() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream.url()).start().await;
    let request = order("k-1").header("Connection", "close, idempotency-key, authorization");
    assert_fresh(&gateway.send(&request).await, 200);
    let seen = last(&upstream);
    assert_eq!(lines(&seen, "idempotency-key"), ["k-1"]);
    assert_eq!(lines(&seen, "authorization"), ["Bearer alice"]);
}

#[tokio::test]
async fn connection_hides_no_header_that_the_contract_names() {
    let upstream = Upstream::start().await;
    let lines_of_contract =
        "key = { header = \"X-Order-Key\" }\nfingerprint = { headers = [\"X-Price-List\"] }";
    let gateway = gateway(&upstream, lines_of_contract).await;
    let request = Request::post(ROUTE)
        .bearer("alice")
        .header("X-Order-Key", "k-1")
        .header("X-Price-List", "2027")
        .header("Connection", "X-Order-Key, X-Price-List")
        .json("{}");
    assert_fresh(&gateway.send(&request).await, 200);
    let seen = last(&upstream);
    assert_eq!(
        (lines(&seen, "x-order-key"), lines(&seen, "x-price-list")),
        (vec!["k-1".into()], vec!["2027".into()])
    );
}

#[tokio::test]
async fn chain_of_a_trusted_proxy_survives_in_all_its_lines() {
    let upstream = Upstream::start().await;
    let gateway = setup(&upstream, "").server(TRUSTED).start().await;
    for request in [order("k-1"), Request::get("/notes")] {
        let request =
            request.header("X-Forwarded-For", "203.0.113.7").header("X-Forwarded-For", "198.51.100.2");
        assert_fresh(&gateway.send(&request).await, 200);
        let chain = lines(&last(&upstream), "x-forwarded-for").join(", ");
        assert_eq!(chain, "203.0.113.7, 198.51.100.2, 127.0.0.1");
    }
}

#[tokio::test]
async fn chain_of_anybody_else_goes_no_further() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let request =
        order("k-1").header("X-Forwarded-For", "203.0.113.7").header("Forwarded", "for=203.0.113.7");
    assert_fresh(&gateway.send(&request).await, 200);
    let seen = last(&upstream);
    assert_eq!(lines(&seen, "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(lines(&seen, "forwarded"), Vec::<String>::new());
}

#[tokio::test]
async fn tenant_from_an_untrusted_peer_goes_no_further_in_any_spelling() {
    let upstream = Upstream::start().await;
    let setup = Setup::new(&upstream.url()).server("trusted_proxies = [\"10.0.0.0/8\"]").operation(
        "CreateOrder",
        "POST",
        ROUTE,
        "scope = [\"header:X-Tenant-Id\"]",
    );
    let gateway = setup.start().await;
    let mut request = Request::post("/notes").header("X-Tenants-Id", "of another name").json("{}");
    for spelling in ["X-Tenant-Id", "X_Tenant_Id", "x_tenant-id", "X-TENANT_ID"] {
        request = request.header(spelling, "victim");
    }
    assert_fresh(&gateway.send(&request).await, 200);
    let tenants: Vec<_> =
        last(&upstream).headers.into_iter().filter(|(name, _)| name.starts_with("x")).collect();
    assert!(tenants.iter().all(|(_, value)| value != b"victim"), "{tenants:?}");
    assert!(tenants.iter().any(|(name, _)| name == "x-tenants-id"), "{tenants:?}");
}

#[tokio::test]
async fn cookies_that_http2_splits_are_one_line_over_http1() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let connection = H2Connection::open(gateway.address()).await;
    for request in [order("k-1"), Request::get("/notes")] {
        let request = request.header("cookie", "a=1").header("cookie", "b=2").header("cookie", "c=3");
        assert_fresh(&connection.exchange(&request).await.unwrap(), 200);
        assert_eq!(lines(&last(&upstream), "cookie"), ["a=1; b=2; c=3"]);
    }
}

#[tokio::test]
async fn resource_is_read_again_without_the_conditions_of_the_request() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "response = \"current\"").await;
    upstream.next(ROUTE, Reply::status(201).header("location", "/orders/7"));
    upstream.next("/orders/7", Reply::count().json(r#"{"state":"paid"}"#));
    let request = order("k-1")
        .header("If-None-Match", "*")
        .header("If-Match", "\"v1\"")
        .header("If-Modified-Since", "Mon, 30 Nov 2026 00:00:00 GMT")
        .header("If-Unmodified-Since", "Mon, 30 Nov 2026 00:00:00 GMT")
        .header("If-Range", "\"v1\"")
        .header("Range", "bytes=0-3")
        .header("Accept-Language", "de");
    assert_fresh(&gateway.send(&request).await, 201);
    let read = gateway.send(&request).await;
    assert!(read.is_replay() && read.status == 200 && read.text() == r#"{"state":"paid"}"#, "{read}");
    let seen = last(&upstream);
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("GET", "/orders/7"));
    let conditions: Vec<_> =
        seen.headers.iter().filter(|(name, _)| name.starts_with("if-") || name == "range").collect();
    assert!(conditions.is_empty(), "{conditions:?}");
    assert_eq!(lines(&seen, "idempotency-key"), Vec::<String>::new(), "a read is no attempt");
    assert_eq!(lines(&seen, "content-type"), Vec::<String>::new(), "a read has no body");
    assert_eq!(lines(&seen, "authorization"), ["Bearer alice"], "with the caller's own credential");
    assert_eq!(lines(&seen, "accept-language"), ["de"]);
}

#[tokio::test]
async fn only_websocket_is_upgraded() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let asks = |request: Request, protocol: &str| {
        let connection = request.header("Connection", "Upgrade, HTTP2-Settings");
        connection.header("Upgrade", protocol).header("HTTP2-Settings", "AAMAAABkAAQAAP__")
    };
    for request in [
        asks(Request::post("/notes").json(r#"{"note":1}"#), "h2c"),
        asks(Request::post("/notes").json(r#"{"note":1}"#), "websocket"),
        asks(Request::get("/notes"), "h2c"),
        asks(Request::get("/notes"), "websocket, h2c"),
    ] {
        let answer = gateway.send(&request).await;
        assert_fresh(&answer, 200);
        let seen = last(&upstream);
        assert_eq!((&seen.method, seen.body.as_ref()), (&request.method, request.body.as_slice()));
        for name in ["upgrade", "http2-settings"] {
            assert_eq!(lines(&seen, name), Vec::<String>::new(), "{name}");
        }
    }
    let protected = asks(order("k-1"), "h2c");
    let first = gateway.send(&protected).await;
    assert_fresh(&first, 200);
    assert_replay(&gateway.send(&order("k-1")).await, &first);
}

#[tokio::test]
async fn websocket_is_still_upgraded() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next("/socket", Reply::upgrade().header("upgrade", "websocket").header("connection", "upgrade"));
    let mut connection = Connection::open(gateway.address()).await.unwrap();
    let request =
        Request::get("/socket").header("Connection", "keep-alive, Upgrade").header("Upgrade", "WebSocket");
    connection.send(&request).await.unwrap();
    let (status, head) = connection.read_head().await.unwrap();
    assert_eq!(status, 101, "{}", head.start);
    connection.send_bytes(b"ping").await.unwrap();
    assert_eq!(
        wait::within(wait::DEADLINE, "the echo", connection.wire.until_bytes(b"ping")).await,
        b"ping".as_slice()
    );
}

#[tokio::test]
async fn upstream_that_switches_unasked_opens_no_tunnel() {
    let switches = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
    let upstream = RawUpstream::start(vec![vec![Step::Request, Step::send(switches), Step::Request]]).await;
    let gateway = Setup::new(&upstream.url()).operation("CreateOrder", "POST", ROUTE, "").start().await;
    let request = Request::post("/notes").header("Connection", "Upgrade").header("Upgrade", "h2c");
    let answer = gateway.send(&request).await;
    assert_eq!(answer.status, 502, "{answer}");
    let protected = gateway.send(&order("k-1")).await;
    assert_eq!(protected.problem().as_deref(), Some("outcome-unknown"), "{protected}");
}
