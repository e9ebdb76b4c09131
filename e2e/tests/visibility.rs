//! What callers see of operations: the operation's URL, its owner, the published contracts.

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, gateway, order, order_of, parallel, setup};
use onefold_testkit::wire::Line;
use onefold_testkit::{Answer, Gate, Reply, Request, Setup, Upstream, wait};

#[tokio::test]
async fn every_protected_answer_names_its_operation() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let first = gateway.send(&order("k-1")).await;
    let replay = gateway.send(&order("k-1")).await;
    let conflict = gateway.send(&order_of("k-1", "[2]")).await;
    assert_problem(&conflict, 422, "key-conflict");
    let names = [first, replay, conflict].map(|answer| answer.header("onefold-operation").map(str::to_owned));
    assert!(names[0].as_ref().is_some_and(|name| name.starts_with("/operations/")), "{names:?}");
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
}

#[tokio::test]
async fn operation_is_visible_to_its_own_scope_alone() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let place = gateway.send(&order("k-1")).await.header("onefold-operation").unwrap().to_owned();
    let own = gateway.send(&Request::get(&place).bearer("alice")).await;
    assert_eq!(own.status, 200, "{own}");
    assert_problem(&gateway.send(&Request::get(&place).bearer("bob")).await, 404, "not-found");
    assert_problem(&gateway.send(&Request::get(&place)).await, 401, "scope-missing");
    let none = format!("{}0000", &place[..place.len() - 4]);
    let missing = gateway.send(&Request::get(&none).bearer("alice")).await;
    assert_problem(&missing, 404, "not-found");
    assert_eq!(upstream.total(), 1);
}

/// The answer but for what says when it was given and which page was asked for.
fn told(answer: &Answer) -> (u16, Vec<Line>, String) {
    let lines = answer.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date"));
    (answer.status, lines.cloned().collect(), answer.text())
}

#[tokio::test]
async fn page_of_a_foreign_operation_tells_no_more_than_a_missing_one() {
    let upstream = Upstream::start().await;
    // Without configuration nobody is a scope of its own, on loopback.
    for (setup, nobody) in
        [(setup(&upstream, ""), (401, "scope-missing")), (Setup::new(&upstream.url()), (404, "not-found"))]
    {
        let gateway = setup.start().await;
        let place = gateway.send(&order("k-1")).await.header("onefold-operation").unwrap().to_owned();
        let none = format!("{}0000", &place[..place.len() - 4]);
        let by_bob = |place: &str| Request::get(place).bearer("bob");
        let foreign = gateway.send(&by_bob(&place)).await;
        assert_problem(&foreign, 404, "not-found");
        assert_eq!(told(&foreign), told(&gateway.send(&by_bob(&none)).await));
        let foreign = gateway.send(&Request::get(&place)).await;
        assert_problem(&foreign, nobody.0, nobody.1);
        assert_eq!(told(&foreign), told(&gateway.send(&Request::get(&none)).await));
    }
}

#[tokio::test]
async fn operation_tells_its_state_and_what_to_do() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "while_running = { busy = true }").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.received(ROUTE, 1).await;
    let busy = gateway.send(&order("k-1")).await;
    let place = busy.header("onefold-operation").expect("an operation").to_owned();
    let look = Request::get(&place).bearer("alice");
    let running = gateway.send(&look).await.json();
    assert_eq!((&running["state"], &running["attempt"]), (&"processing".into(), &1.into()), "{running}");
    assert!(running["retry_after_ms"].is_number(), "{running}");
    assert_eq!(running["safe_to_use_new_key"], false, "{running}");
    gate.open();
    assert_fresh(&first.await.unwrap(), 200);
    let done = gateway.send(&look).await.json();
    assert_eq!((&done["state"], &done["operation"]), (&"succeeded".into(), &"CreateOrder".into()), "{done}");
    assert!(done["completed_at"].is_string() && done["expires_at"].is_string(), "{done}");
    assert!(done["answers"].is_object(), "{done}");
    assert!(!done.to_string().contains("k-1"), "digests only: {done}");
}

#[tokio::test]
async fn contracts_are_published() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let published = gateway.send(&Request::get("/.well-known/idempotency")).await;
    assert_eq!(published.status, 200, "{published}");
    let text = published.text();
    for word in ["CreateOrder", "Idempotency-Key", "/orders"] {
        assert!(text.contains(word), "{word} in {text}");
    }
    assert_eq!(upstream.seen().len(), 0, "answered by the gateway itself");
}

/// A tombstone has forgotten whose it was, so nobody may take it for theirs: on an unconfigured gateway those without
/// credentials share a scope, and that is not the scope of everybody's forgotten operations.
#[tokio::test]
async fn tombstone_is_shown_to_nobody() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new(&upstream.url())
        .store("sweep_every = \"1s\"")
        .section("[defaults]\nretention = \"1s\"")
        .start()
        .await;
    let first = gateway.send(&order("k-1")).await;
    let page = first.header("onefold-operation").expect("the operation is named").to_owned();
    wait::until_within(wait::DEADLINE, "the record is a tombstone", async || {
        let listed = gateway.admin_get("/v1/operations").await;
        listed.json()["items"][0]["key"].is_null()
    })
    .await;
    assert_problem(&gateway.send(&Request::get(&page)).await, 404, "not-found");
}
