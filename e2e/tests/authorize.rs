//! Who may have a stored answer, where the settings name somebody to ask: rights may have been revoked since it was
//! made.

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, assert_replay, order, parallel, setup};
use onefold_testkit::{
    Answer, Gate, Reply, Request, ReservedAddress, Setup, Store, Upstream, on_each_store, wait,
};

on_each_store!(replay_is_not_given_after_rights_were_revoked, duplicates_that_waited_are_asked_about_too,);

/// Where the rights of callers are asked for.
const AUTH: &str = "/auth";

fn asking(upstream: &Upstream, lines: &str) -> Setup {
    let url = upstream.url();
    let authorize = format!("authorize = {{ url = \"{url}{AUTH}\", timeout = \"500ms\" }}");
    setup(upstream, &format!("{authorize}\n{lines}"))
}

fn asking_on(store: &Store, upstream: &Upstream, lines: &str) -> Setup {
    asking(upstream, lines).store_url(store.url())
}

fn assert_passed_on(answer: &Answer, status: u16, body: &str) {
    assert_fresh(answer, status);
    assert_eq!(answer.text(), body);
}

async fn replay_is_not_given_after_rights_were_revoked(store: &Store) {
    for response in ["original", "current", "status"] {
        let upstream = Upstream::start().await;
        let gateway = asking_on(store, &upstream, &format!("response = \"{response}\"")).start().await;
        // One store for all three.
        let order = || order(response);
        let first = gateway.send(&order()).await;
        assert_fresh(&first, 200);
        assert_eq!(upstream.seen_at(AUTH).len(), 0, "the upstream itself judges first requests");
        assert!(gateway.send(&order()).await.is_replay());
        for status in [401, 403] {
            upstream.next(AUTH, Reply::status(status).json(r#"{"error":"revoked"}"#));
            assert_passed_on(&gateway.send(&order()).await, status, r#"{"error":"revoked"}"#);
        }
        assert!(gateway.send(&order()).await.is_replay(), "nothing of a refusal is remembered");
        assert_eq!((upstream.count(ROUTE), upstream.seen_at(AUTH).len()), (1, 4));
    }
}

#[tokio::test]
async fn authorizer_gets_the_callers_credentials_and_what_was_asked_for() {
    let upstream = Upstream::start().await;
    let gateway = asking(&upstream, "").start().await;
    let request = Request::post("/orders?shop=4")
        .bearer("alice")
        .key("k-1")
        .header("Cookie", "sid=7")
        .header("X-Original-Method", "GET")
        .header("X-Original-URI", "/public")
        .json("{}");
    assert_fresh(&gateway.send(&request).await, 200);
    assert!(gateway.send(&request).await.is_replay());
    let [seen] = &upstream.seen_at(AUTH)[..] else { panic!("asked once") };
    let header = |name| seen.header(name);
    assert_eq!((seen.method.as_str(), seen.body_bytes), ("GET", 0));
    assert_eq!((header("authorization"), header("cookie")), (Some("Bearer alice"), Some("sid=7")));
    assert_eq!(
        (header("x-original-method"), header("x-original-uri")),
        (Some("POST"), Some("/orders?shop=4"))
    );
    assert_eq!((header("idempotency-key"), header("content-type")), (None, None));
    let forged =
        seen.headers.iter().filter(|(name, _)| name.to_ascii_lowercase().starts_with("x-original")).count();
    assert_eq!(forged, 2);
}

#[tokio::test]
async fn authorizer_that_cannot_be_asked_gives_nothing_away() {
    let replies = [
        Reply::status(500),
        Reply::status(404),
        Reply::status(302).header("location", "/yes"),
        Reply::count().hold_before(&Gate::closed()),
        Reply::count().close_before_effect(),
    ];
    for reply in replies {
        let upstream = Upstream::start().await;
        let gateway = asking(&upstream, "").start().await;
        let first = gateway.send(&order("k-1")).await;
        upstream.next(AUTH, reply);
        let answer = gateway.send(&order("k-1")).await;
        assert_problem(&answer, 503, "authorization-unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.json()["safe_to_use_new_key"], false);
        assert_eq!(upstream.seen_at("/yes").len(), 0);
        assert_replay(&gateway.send(&order("k-1")).await, &first);
        assert_eq!(upstream.count(ROUTE), 1);
    }
}

#[tokio::test]
async fn authorizer_that_is_not_there_holds_up_no_first_request() {
    let upstream = Upstream::start().await;
    let reserved = ReservedAddress::take();
    let lines = format!("authorize = {{ url = \"{}/auth\" }}", reserved.url());
    let gateway = setup(&upstream, &lines).start().await;
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    assert_problem(&gateway.send(&order("k-1")).await, 503, "authorization-unavailable");
    assert_fresh(&gateway.send(&order("k-2")).await, 200);
}

#[tokio::test]
async fn page_of_an_operation_is_asked_about_too() {
    let upstream = Upstream::start().await;
    let gateway = asking(&upstream, "").operation("Other", "POST", "/other", "").start().await;
    let place = gateway.send(&order("k-1")).await.header("onefold-operation").expect("a place").to_owned();
    let page = Request::get(&place).bearer("alice");
    assert_eq!(gateway.send(&page).await.json()["state"], "succeeded");
    let seen = upstream.seen_at(AUTH).pop().expect("asked");
    assert_eq!(
        (seen.header("x-original-method"), seen.header("x-original-uri")),
        (Some("GET"), Some(&*place))
    );
    upstream.next(AUTH, Reply::status(403).body("no"));
    assert_passed_on(&gateway.send(&page).await, 403, "no");
    // Another's page is not there, whoever is asked.
    let asked = upstream.seen_at(AUTH).len();
    assert_problem(&gateway.send(&Request::get(&place).bearer("bob")).await, 404, "not-found");
    let other = gateway.send(&Request::post("/other").bearer("alice").key("k-1")).await;
    let place = other.header("onefold-operation").expect("a place").to_owned();
    assert_eq!(gateway.send(&Request::get(&place).bearer("alice")).await.status, 200);
    assert_eq!(upstream.seen_at(AUTH).len(), asked, "the other contract asks nobody");
}

async fn duplicates_that_waited_are_asked_about_too(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = asking_on(store, &upstream, "while_running = { wait = \"10s\" }").start().await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_after(&gate));
    upstream.always(AUTH, Reply::status(403).body("revoked"));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.reached(ROUTE, 1).await;
    let waiting = parallel::send(order("k-1"), gateway.address());
    wait::pass_time(std::time::Duration::from_millis(200), "the duplicate has come to wait").await;
    gate.open();
    assert_fresh(&first.await.unwrap(), 200);
    assert_passed_on(&waiting.await.unwrap(), 403, "revoked");
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn conflict_and_unknown_outcome_give_nothing_away_and_ask_nobody() {
    let upstream = Upstream::start().await;
    let gateway = asking(&upstream, "").start().await;
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    let conflict = gateway.send(&onefold_e2e::order_of("k-1", "[2]")).await;
    assert_problem(&conflict, 422, "key-conflict");
    upstream.next(ROUTE, Reply::count().close_after_effect());
    assert_problem(&gateway.send(&order("k-2")).await, 502, "outcome-unknown");
    assert_problem(&gateway.send(&order("k-2")).await, 409, "outcome-unknown");
    assert_eq!(upstream.seen_at(AUTH).len(), 0);
}
