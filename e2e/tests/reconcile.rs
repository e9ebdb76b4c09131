//! What becomes of a lost outcome where the settings name a look-up: verdicts, fences, turns, and what duplicates get.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, order, order_of, setup, setup_on, twins};
use onefold_testkit::{Answer, Gate, Gateway, Reply, Setup, Store, Upstream, on_each_store, wait};
use serde_json::Value;

on_each_store!(
    b102_effect_whose_answer_never_came_is_found_and_settles_the_key,
    b58_late_answer_counts_more_than_the_look_up,
    negative_look_up_that_the_original_overtakes_has_no_second_effect,
    settled_negative_frees_the_key_at_the_second_answer,
    negative_behind_a_tombstone_frees_the_key_at_once,
    b98_same_key_sends_the_same_request_on_under_the_same_downstream_key,
    b101_authority_that_is_still_at_it_is_asked_again,
    negative_without_a_fence_is_kept_and_frees_nothing,
    attempt_of_a_killed_gateway_is_looked_up_after_its_lease,
    b102_outcome_that_a_killed_gateway_left_is_looked_up_by_one_of_the_others,
    of_two_gateways_on_one_store_one_looks_up_at_a_time,
);

/// Where orders are looked up.
const LOOK_UP: &str = "/lookup";

/// A short time-out, so that windows beyond the last possible sending are short too.
fn looks_up(upstream: &Upstream, fence: &str, lines: &str) -> Setup {
    let url = upstream.url();
    let reconcile = format!(
        "reconcile = {{ get = \"{url}{LOOK_UP}?key={{{{key}}}}&id={{{{operation_id}}}}\", happened = \"200\", \
         did_not_happen = \"404\"{fence} }}"
    );
    setup(upstream, &format!("while_running = {{ busy = true }}\n{reconcile}\n{lines}"))
        .upstream("timeout = \"200ms\"")
}

fn looks_up_on(store: &Store, upstream: &Upstream, fence: &str, lines: &str) -> Setup {
    looks_up(upstream, fence, lines).store_url(store.url())
}

const SETTLED: &str = ", fence = \"settled\", window = \"200ms\"";

fn found() -> Reply {
    Reply::status(200).header("content-location", "/orders/5001").json(r#"{"order":5001}"#)
}

async fn lose(gateway: &Gateway) -> String {
    let lost = gateway.send(&order("k-1")).await;
    assert_eq!(lost.problem().as_deref(), Some("outcome-unknown"), "{lost}");
    lost.operation().expect("an operation")
}

/// What the caller gets once it is something else than "nobody knows".
async fn known(gateway: &Gateway) -> Answer {
    wait::some(wait::DEADLINE, "the outcome is known", async || {
        let answer = gateway.send(&order("k-1")).await;
        (answer.problem().as_deref() != Some("outcome-unknown")).then_some(answer)
    })
    .await
}

fn assert_found(answer: &Answer) {
    assert_problem(answer, 409, "response-not-kept");
    let problem = answer.json();
    assert_eq!(problem["state"], "succeeded", "{problem}");
    assert_eq!(problem["reason"], "settled_by_a_reconciler", "{problem}");
    assert_eq!(problem["resource"]["id"], "/orders/5001", "{problem}");
}

async fn shown(gateway: &Gateway, id: &str) -> Value {
    let shown = gateway.command(&["operations", "show", id]).await;
    shown.assert_code(0);
    shown.json()
}

async fn history(gateway: &Gateway, id: &str) -> Vec<String> {
    let shown = shown(gateway, id).await;
    let kinds = shown["history"].as_array().expect("a history").iter();
    kinds.map(|event| event["kind"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn b102_effect_whose_answer_never_came_is_found_and_settles_the_key(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = looks_up_on(store, &upstream, SETTLED, "").start().await;
    upstream.next(ROUTE, Reply::count().hold_after(&Gate::closed()));
    upstream.always(LOOK_UP, found());
    let id = lose(&gateway).await;
    let page = gateway.admin_get(&format!("/v1/operations/{id}")).await.json();
    assert_eq!(page["answers"]["new_key"], "danger_of_a_second_effect", "{page}");
    assert_found(&known(&gateway).await);
    assert_eq!(upstream.count(ROUTE), 1);
    let record = shown(&gateway, &id).await;
    assert_eq!((&record["state"], &record["reconciliation"]), (&"succeeded".into(), &"settled".into()));
    let event = record["history"].as_array().and_then(|events| events.last()).expect("an event");
    assert_eq!((&event["kind"], &event["who"]), (&"happened".into(), &"reconciler".into()));
    assert_eq!(event["evidence"], r#"status 200, 14 bytes: {"order":5001}"#, "{event}");
    let seen = &upstream.seen_at(LOOK_UP)[0];
    assert_eq!(seen.target, format!("{LOOK_UP}?key=k-1&id={id}"));
    assert_eq!(seen.header("authorization"), None, "nobody's credentials go there");
    let metrics = gateway.metrics().await;
    assert!(metrics.text().contains("verdict=\"happened\""), "{}", metrics.text());
}

async fn b58_late_answer_counts_more_than_the_look_up(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = looks_up_on(store, &upstream, SETTLED, "").start().await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::status(201).hold_after(&gate));
    upstream.always(LOOK_UP, found());
    lose(&gateway).await;
    assert_found(&known(&gateway).await);
    gate.open();
    let answer = wait::some(wait::DEADLINE, "the original answer is there", async || {
        let answer = gateway.send(&order("k-1")).await;
        answer.is_replay().then_some(answer)
    })
    .await;
    assert_eq!((answer.status, answer.n()), (201, 1));
    assert_eq!(gateway.metrics().await.sum("onefold_late_successes_total"), 0.0);
}

async fn negative_look_up_that_the_original_overtakes_has_no_second_effect(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = looks_up_on(store, &upstream, SETTLED, "").start().await;
    let (gate, landed) = (Gate::closed(), Arc::new(AtomicBool::new(false)));
    upstream.next(ROUTE, Reply::count().hold_before(&gate).close_after_effect());
    let has_landed = landed.clone();
    upstream.responds(LOOK_UP, move |_| match has_landed.load(Ordering::SeqCst) {
        true => found(),
        false => Reply::status(404),
    });
    let id = lose(&gateway).await;
    upstream.received(LOOK_UP, 1).await;
    wait::until_within(wait::DEADLINE, "the negative is noted", async || {
        history(&gateway, &id).await.contains(&"did_not_happen".to_owned())
    })
    .await;
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    gate.open();
    upstream.reached(ROUTE, 1).await;
    landed.store(true, Ordering::SeqCst);
    assert_found(&known(&gateway).await);
    assert_eq!(upstream.count(ROUTE), 1);
    let expected = ["outcome_unknown", "did_not_happen", "happened"];
    assert_eq!(history(&gateway, &id).await, expected);
}

async fn settled_negative_frees_the_key_at_the_second_answer(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = looks_up_on(store, &upstream, SETTLED, "").start().await;
    upstream.next(ROUTE, Reply::count().close_before_effect());
    upstream.always(LOOK_UP, Reply::status(404));
    lose(&gateway).await;
    let answer = known(&gateway).await;
    assert_fresh(&answer, 200);
    assert_eq!((answer.n(), upstream.seen_at(LOOK_UP).len()), (1, 2));
    let [first, second] = &upstream.seen_at(LOOK_UP)[..] else { panic!("two look-ups") };
    // Eleven time-outs in which the request may still be sent, and the window.
    assert!(second.at - first.at >= Duration::from_millis(200));
    let begun = upstream.seen_at(ROUTE)[0].at;
    assert!(second.at - begun >= Duration::from_millis(12 * 200), "{:?}", second.at - begun);
}

async fn negative_behind_a_tombstone_frees_the_key_at_once(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = looks_up_on(store, &upstream, ", fence = \"tombstoned\"", "").start().await;
    upstream.next(ROUTE, Reply::count().close_before_effect());
    upstream.always(LOOK_UP, Reply::status(404));
    lose(&gateway).await;
    assert_fresh(&known(&gateway).await, 200);
    assert_eq!((upstream.count(ROUTE), upstream.seen_at(LOOK_UP).len()), (1, 1));
}

async fn b98_same_key_sends_the_same_request_on_under_the_same_downstream_key(store: &Store) {
    let upstream = Upstream::start().await;
    let url = upstream.url();
    let lines = format!(
        "forward_key = \"derived\"\nwhile_running = {{ busy = true }}\non_stale = \"reconcile\"\n\
         reconcile = {{ get = \"{url}{LOOK_UP}?key={{{{downstream_key}}}}\", happened = \"200\", did_not_happen = \"404\", fence = \"same_key\" }}"
    );
    let mut gateway = setup_on(store, &upstream, &lines).start().await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    upstream.always(LOOK_UP, Reply::status(404));
    let id = lose(&gateway).await;
    wait::until_within(wait::DEADLINE, "a retry is allowed", async || {
        shown(&gateway, &id).await["reconciliation"] == "may_retry"
    })
    .await;
    let page = gateway.admin_get(&format!("/v1/operations/{id}")).await.json();
    assert_eq!((&page["state"], &page["answers"]["new_attempt"]), (&"outcome_unknown".into(), &"yes".into()));
    assert_eq!(page["safe_to_use_new_key"], false, "the original may still arrive: {page}");
    let other = gateway.send(&order_of("k-1", r#"{"sku":"another"}"#)).await;
    assert_problem(&other, 422, "key-conflict");
    gateway.restart().await;
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    let seen = upstream.seen_at(ROUTE);
    let keys: Vec<_> = seen.iter().map(|seen| seen.header("idempotency-key").unwrap_or_default()).collect();
    assert!(keys.len() == 2 && keys[0] == keys[1] && keys[0] != "k-1", "{keys:?}");
    let asked = upstream.seen_at(LOOK_UP)[0].target.clone();
    assert_eq!(asked, format!("{LOOK_UP}?key={}", keys[0].trim_matches('"')));
}

async fn b101_authority_that_is_still_at_it_is_asked_again(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = looks_up_on(store, &upstream, SETTLED, "").start().await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    for _ in 0..2 {
        upstream.next(LOOK_UP, Reply::status(409).json(r#"{"state":"in progress"}"#));
    }
    upstream.always(LOOK_UP, found());
    let id = lose(&gateway).await;
    assert_found(&known(&gateway).await);
    assert_eq!(upstream.count(ROUTE), 1);
    let expected = ["outcome_unknown", "inconclusive", "inconclusive", "happened"];
    assert_eq!(history(&gateway, &id).await, expected);
}

#[tokio::test]
async fn answer_that_says_nothing_frees_nothing_and_redirects_are_not_followed() {
    let replies = [
        Reply::status(302).header("location", "/elsewhere"),
        Reply::status(403),
        Reply::status(500),
        Reply::count().hold_before(&Gate::closed()),
        Reply::count().close_before_effect(),
        Reply::status(200).cut("{", onefold_testkit::Missing::Length(10)),
        Reply::status(200).body(vec![b'x'; (1 << 20) + 1]),
    ];
    for reply in replies {
        let upstream = Upstream::start().await;
        let gateway = looks_up(&upstream, ", fence = \"tombstoned\"", "").start().await;
        upstream.next(ROUTE, Reply::count().close_after_effect());
        upstream.always(LOOK_UP, reply.clone());
        let id = lose(&gateway).await;
        wait::until_within(wait::DEADLINE, "the verdict is kept", async || {
            history(&gateway, &id).await.contains(&"inconclusive".to_owned())
        })
        .await;
        assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
        assert_eq!((upstream.count(ROUTE), upstream.seen_at("/elsewhere").len()), (1, 0), "{reply:?}");
    }
}

async fn negative_without_a_fence_is_kept_and_frees_nothing(store: &Store) {
    let upstream = Upstream::start().await;
    let gateway = looks_up_on(store, &upstream, "", "").start().await;
    assert!(gateway.log().contains("without a fence"), "{}", gateway.log());
    upstream.next(ROUTE, Reply::count().close_before_effect());
    upstream.always(LOOK_UP, Reply::status(404));
    let id = lose(&gateway).await;
    upstream.received(LOOK_UP, 2).await;
    wait::until_within(wait::DEADLINE, "both are kept", async || history(&gateway, &id).await.len() == 3)
        .await;
    assert_eq!(history(&gateway, &id).await[1..], ["did_not_happen", "did_not_happen"]);
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    assert_eq!(upstream.count(ROUTE), 0);
}

#[tokio::test]
async fn key_stays_in_its_place_in_the_url() {
    let upstream = Upstream::start().await;
    let gateway = looks_up(&upstream, SETTLED, "").start().await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    let lost = gateway.send(&order("\"a/../b?c=d&e#f %\"")).await;
    assert_problem(&lost, 502, "outcome-unknown");
    upstream.received(LOOK_UP, 1).await;
    let target = upstream.seen_at(LOOK_UP)[0].target.clone();
    assert!(target.starts_with("/lookup?key=a%2F..%2Fb%3Fc%3Dd%26e%23f%20%25&id="), "{target}");
}

#[tokio::test]
async fn current_gives_what_the_look_up_found() {
    let upstream = Upstream::start().await;
    let gateway = looks_up(&upstream, SETTLED, "response = \"current\"").start().await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    upstream.always(LOOK_UP, Reply::status(200).json(r#"{"order":5001}"#));
    lose(&gateway).await;
    let answer = known(&gateway).await;
    assert!(answer.is_replay(), "{answer}");
    assert_eq!((answer.status, answer.text().as_str()), (200, r#"{"order":5001}"#));
}

async fn attempt_of_a_killed_gateway_is_looked_up_after_its_lease(store: &Store) {
    let upstream = Upstream::start().await;
    let lines = "on_stale = \"reconcile\"\nlease = \"1s\"";
    let mut gateway = looks_up_on(store, &upstream, SETTLED, lines).start().await;
    upstream.next(ROUTE, Reply::count().hold_after(&Gate::closed()));
    upstream.always(LOOK_UP, found());
    let address = gateway.address();
    let first = tokio::spawn(async move { order("k-1").try_send(address).await });
    upstream.reached(ROUTE, 1).await;
    gateway.kill();
    let _ = first.await;
    gateway.restart().await;
    let answer = wait::some(wait::DEADLINE, "the outcome is known", async || {
        let answer = gateway.send(&order("k-1")).await;
        (!matches!(answer.problem().as_deref(), Some("outcome-unknown" | "in-progress"))).then_some(answer)
    })
    .await;
    assert_found(&answer);
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn gateway_killed_between_verdict_and_write_asks_again() {
    let upstream = Upstream::start().await;
    let mut gateway = looks_up(&upstream, ", fence = \"tombstoned\"", "").start().await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    let gate = Gate::closed();
    upstream.next(LOOK_UP, found().hold_before(&gate));
    upstream.always(LOOK_UP, found());
    let id = lose(&gateway).await;
    upstream.received(LOOK_UP, 1).await;
    let store = rusqlite::Connection::open(gateway.setup().store_path()).unwrap();
    store.execute_batch("BEGIN IMMEDIATE").unwrap();
    gate.open();
    wait::pass_time(Duration::from_millis(50), "the verdict waits for the locked store").await;
    gateway.kill();
    drop(store);
    gateway.restart().await;
    let before = history(&gateway, &id).await;
    assert_eq!(before, ["outcome_unknown"], "nothing of the verdict was written");
    assert_found(&known(&gateway).await);
    assert_eq!((upstream.count(ROUTE), upstream.seen_at(LOOK_UP).len()), (1, 2));
}

async fn b102_outcome_that_a_killed_gateway_left_is_looked_up_by_one_of_the_others(store: &Store) {
    let upstream = Upstream::start().await;
    let lines = format!(
        "lease = \"1s\"\non_stale = \"reconcile\"\nwhile_running = {{ busy = true }}\n\
         reconcile = {{ get = \"{}{LOOK_UP}?key={{{{key}}}}\", happened = \"200\" }}",
        upstream.url()
    );
    let mut gateways = twins(setup_on(store, &upstream, &lines), 3).await;
    upstream.next(ROUTE, Reply::count().hold_after(&Gate::closed()));
    let gate = Gate::closed();
    upstream.always(LOOK_UP, found().hold_before(&gate));
    let address = gateways[0].address();
    let first = tokio::spawn(async move { order("k-1").try_send(address).await });
    upstream.reached(ROUTE, 1).await;
    gateways[0].kill();
    assert!(first.await.unwrap().is_err(), "nobody was there to answer");
    upstream.received(LOOK_UP, 1).await;
    // Both look for work every second; the turn is with one of them.
    for gateway in &gateways[1..] {
        assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    }
    gate.open();
    for gateway in &gateways[1..] {
        assert_found(&known(gateway).await);
    }
    assert_eq!((upstream.count(ROUTE), upstream.seen_at(LOOK_UP).len()), (1, 1));
}

async fn of_two_gateways_on_one_store_one_looks_up_at_a_time(store: &Store) {
    let upstream = Upstream::start().await;
    let first = looks_up_on(store, &upstream, SETTLED, "").start().await;
    let second = first.twin().await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    let held = Reply::status(503).delay_before(Duration::from_millis(150));
    for _ in 0..2 {
        upstream.next(LOOK_UP, held.clone());
    }
    upstream.always(LOOK_UP, found());
    lose(&first).await;
    assert_found(&known(&second).await);
    assert_found(&known(&first).await);
    let asked: Vec<_> = upstream.seen_at(LOOK_UP).iter().map(|seen| seen.at).collect();
    assert_eq!(asked.len(), 3, "each probe was made once");
    let apart = asked.windows(2).map(|two| two[1] - two[0]).min().unwrap();
    assert!(apart >= Duration::from_millis(900), "paced over both: {apart:?}");
}

#[tokio::test]
async fn reconcile_without_a_look_up_stops_the_start() {
    let upstream = Upstream::start().await;
    let ended = setup(&upstream, "on_stale = \"reconcile\"").run().await;
    ended.assert_code(2);
    assert!(ended.stderr.contains("needs somebody to ask"), "{}", ended.stderr);
    let no_fence = looks_up(&upstream, "", "").arg("--strict").run().await;
    no_fence.assert_code(2);
    let no_key = looks_up(&upstream, ", fence = \"same_key\"", "forward_key = \"none\"").run().await;
    no_key.assert_code(2);
}
