//! What operators do through the admin listener: look, resolve, release.

use onefold_e2e::{ROUTE, assert_fresh, assert_problem, gateway, order, parallel, setup};
use onefold_testkit::{Gate, Gateway, Reply, Request, Setup, Upstream, wait};
use serde_json::{Value, json};

/// A gateway with one operation whose outcome is unknown, and its id.
async fn with_unknown(upstream: &Upstream, setup: Setup) -> (Gateway, String) {
    let gateway = setup.start().await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    let lost = gateway.send(&order("k-1")).await;
    assert_eq!(lost.problem().as_deref(), Some("outcome-unknown"), "{lost}");
    let id = lost.operation().expect("an operation");
    (gateway, id)
}

fn items(page: &Value) -> &[Value] {
    page["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn done(more: Value) -> Value {
    let mut body = json!({"as": "succeeded", "reason": "asked the warehouse", "evidence": "ticket 7"});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

#[tokio::test]
async fn list_is_filtered_by_state_and_operation() {
    let upstream = Upstream::start().await;
    let (gateway, id) = with_unknown(&upstream, setup(&upstream, "")).await;
    assert_fresh(&gateway.send(&order("k-2")).await, 200);
    let unknown = gateway.admin_get("/v1/operations?state=outcome_unknown").await.json();
    assert_eq!(items(&unknown).len(), 1, "{unknown}");
    assert_eq!(items(&unknown)[0]["id"], id.as_str());
    let named = gateway.admin_get("/v1/operations?operation=CreateOrder").await.json();
    assert_eq!(items(&named).len(), 2, "{named}");
    let others = gateway.admin_get("/v1/operations?operation=Another").await.json();
    assert_eq!(items(&others).len(), 0, "{others}");
}

#[tokio::test]
async fn record_shows_what_is_known() {
    let upstream = Upstream::start().await;
    let (gateway, id) = with_unknown(&upstream, setup(&upstream, "")).await;
    let record = gateway.admin_get(&format!("/v1/operations/{id}")).await.json();
    assert_eq!((&record["id"], &record["operation"]), (&id.as_str().into(), &"CreateOrder".into()));
    assert_eq!(record["state"], "outcome_unknown", "{record}");
    assert!(record["fingerprint"]["version"].is_number() || record["fingerprint"]["version"].is_string());
    for answer in ["new_attempt", "previous_result", "wait", "reconciliation", "new_key"] {
        assert!(!record["answers"][answer].is_null(), "{answer}: {record}");
    }
    let none = gateway.admin_get("/v1/operations/00000000000000000000000000000000").await;
    assert_problem(&none, 404, "not-found");
}

#[tokio::test]
async fn resolving_with_a_response_makes_it_the_replay() {
    let upstream = Upstream::start().await;
    let (gateway, id) = with_unknown(&upstream, setup(&upstream, "")).await;
    let response = json!({"status": 201, "headers": [["location", "/orders/5001"]], "body": "placed"});
    let resolve = format!("/v1/operations/{id}/resolve");
    let resolved = gateway.admin_post(&resolve, &done(json!({"response": response}))).await;
    assert_eq!(resolved.status, 200, "{resolved}");
    let answer = gateway.send(&order("k-1")).await;
    assert!(answer.is_replay() && answer.status == 201, "{answer}");
    assert_eq!((answer.header("location"), answer.text().as_str()), (Some("/orders/5001"), "placed"));
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn resolving_as_failed_frees_the_key() {
    let upstream = Upstream::start().await;
    let (gateway, id) = with_unknown(&upstream, setup(&upstream, "")).await;
    let body = json!({"as": "failed", "reason": "asked the warehouse", "evidence": "ticket 7"});
    let resolved = gateway.admin_post(&format!("/v1/operations/{id}/resolve"), &body).await;
    assert_eq!(resolved.status, 200, "{resolved}");
    assert_fresh(&gateway.send(&order("k-1")).await, 200);
    assert_eq!(upstream.count(ROUTE), 2);
}

#[tokio::test]
async fn resolving_needs_a_reason_and_evidence() {
    let upstream = Upstream::start().await;
    let (gateway, id) = with_unknown(&upstream, setup(&upstream, "")).await;
    let resolve = format!("/v1/operations/{id}/resolve");
    let lacking = [
        json!({"as": "succeeded", "evidence": "ticket 7"}),
        json!({"as": "succeeded", "reason": "asked"}),
        json!({"as": "succeeded", "reason": " ", "evidence": "ticket 7"}),
    ];
    for body in lacking {
        assert_problem(&gateway.admin_post(&resolve, &body).await, 400, "reason-missing");
    }
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
}

#[tokio::test]
async fn what_is_known_cannot_be_resolved() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let first = gateway.send(&order("k-1")).await;
    let id = first.operation().expect("an operation");
    let answer = gateway.admin_post(&format!("/v1/operations/{id}/resolve"), &done(json!({}))).await;
    assert_problem(&answer, 409, "not-unknown");
    onefold_e2e::assert_replay(&gateway.send(&order("k-1")).await, &first);
}

#[tokio::test]
async fn claim_of_a_living_owner_is_released_by_force_alone_and_becomes_unknown() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "while_running = { busy = true }").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_after(&gate));
    let first = parallel::send(order("k-1"), gateway.address());
    upstream.reached(ROUTE, 1).await;
    let id = gateway.send(&order("k-1")).await.operation().expect("an operation");
    let release = format!("/v1/operations/{id}/release");
    let polite = gateway.admin_post(&release, &json!({"reason": "stuck"})).await;
    assert_problem(&polite, 409, "owner-alive");
    assert_problem(&gateway.admin_post(&release, &json!({"force": true})).await, 400, "reason-missing");
    let forced = gateway.admin_post(&release, &json!({"reason": "stuck", "force": true})).await;
    assert_eq!(forced.status, 200, "{forced}");
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    gate.open();
    assert_eq!(first.await.unwrap().n(), 1, "the caller still gets the real result");
    wait::until_within(wait::DEADLINE, "the owner's word settles it", async || {
        gateway.send(&order("k-1")).await.is_replay()
    })
    .await;
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn callers_side_does_not_serve_the_admin_api() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    // Passed to the upstream like any other path.
    assert_fresh(&gateway.send(&Request::get("/v1/operations")).await, 200);
    assert_eq!(upstream.seen_at("/v1/operations").len(), 1);
}

#[tokio::test]
async fn signals_count_what_happened() {
    let upstream = Upstream::start().await;
    let (gateway, _) = with_unknown(&upstream, setup(&upstream, "")).await;
    assert_fresh(&gateway.send(&order("k-2")).await, 200);
    for _ in 0..3 {
        assert!(gateway.send(&order("k-2")).await.is_replay());
    }
    let conflict = gateway.send(&onefold_e2e::order_of("k-2", "[2]")).await;
    assert_problem(&conflict, 422, "key-conflict");
    let metrics = gateway.metrics().await;
    let counted =
        ["attempts_begun", "replays", "conflicts"].map(|name| metrics.sum(&format!("onefold_{name}_total")));
    assert_eq!(counted, [2.0, 3.0, 1.0], "{}", metrics.text());
}

#[tokio::test]
async fn command_shows_a_record() {
    let upstream = Upstream::start().await;
    let (gateway, id) = with_unknown(&upstream, setup(&upstream, "")).await;
    let shown = gateway.command(&["operations", "show", &id]).await;
    shown.assert_code(0);
    assert_eq!(shown.json()["state"], "outcome_unknown", "{shown:?}");
}

#[tokio::test]
async fn command_refuses_to_resolve_without_a_reason() {
    let upstream = Upstream::start().await;
    let (gateway, id) = with_unknown(&upstream, setup(&upstream, "")).await;
    let args = ["operations", "resolve", &id, "--as", "failed", "--evidence", "ticket 7"];
    gateway.command(&args).await.assert_code(2);
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
}

#[tokio::test]
async fn command_releases_a_claim_within_its_lease_by_force_alone() {
    let upstream = Upstream::start().await;
    let mut gateway = gateway(&upstream, "lease = \"30s\"").await;
    upstream.next(ROUTE, Reply::count().hold_after(&Gate::closed()));
    let address = gateway.address();
    let first = tokio::spawn(async move { order("k-1").try_send(address).await });
    upstream.reached(ROUTE, 1).await;
    gateway.kill();
    let _ = first.await;
    let left = gateway.operations_in("processing").await;
    let id = left[0]["id"].as_str().expect("an id").to_owned();
    let polite = gateway.command(&["operations", "release", &id, "--reason", "the owner was killed"]).await;
    assert_ne!(polite.code, Some(0), "nobody knows yet that the owner is gone: {polite:?}");
    let forced =
        gateway.command(&["operations", "release", &id, "--reason", "the owner was killed", "--force"]).await;
    forced.assert_code(0);
    assert_eq!(gateway.operations_in("outcome_unknown").await.len(), 1);
}

#[tokio::test]
async fn command_takes_the_path_that_callers_are_given() {
    let upstream = Upstream::start().await;
    let (gateway, id) = with_unknown(&upstream, setup(&upstream, "")).await;
    let shown = gateway.command(&["operations", "show", &format!("/operations/{id}")]).await;
    assert_eq!(shown.json()["id"], id.as_str());
}

#[tokio::test]
async fn command_looks_at_an_answer_before_it_is_kept() {
    let upstream = Upstream::start().await;
    let (gateway, id) = with_unknown(&upstream, setup(&upstream, "")).await;
    let resolve = ["operations", "resolve", &id, "--reason", "asked", "--evidence", "ticket 7", "--as"];
    let refused: [&[&str]; 4] = [
        &["succeeded", "--status", "201", "--body", "{\"order\":"],
        &["succeeded", "--status", "204", "--body", "{}"],
        &["failed", "--status", "201"],
        &["failed", "--resource", "order:5001"],
    ];
    for wrong in refused {
        gateway.command(&[&resolve, wrong].concat()).await.assert_code(2);
    }
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
}

#[tokio::test]
async fn what_was_settled_as_failed_by_mistake_is_taken_back() {
    let upstream = Upstream::start().await;
    let (gateway, id) = with_unknown(&upstream, setup(&upstream, "")).await;
    let resolve = ["operations", "resolve", &id, "--as", "failed", "--reason", "asked", "--evidence", "none"];
    gateway.command(&resolve).await.assert_code(0);
    let release = ["operations", "release", &id, "--reason", "looked at the wrong customer"];
    gateway.command(&release).await.assert_code(0);
    assert_problem(&gateway.send(&order("k-1")).await, 409, "outcome-unknown");
    gateway.command(&release).await.assert_code(1);
}

#[tokio::test]
async fn list_whose_reader_has_gone_ends_quietly() {
    let upstream = Upstream::start().await;
    let (gateway, _) = with_unknown(&upstream, setup(&upstream, "")).await;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = onefold_testkit::binary::command(gateway.setup().directory().path());
    command.args(["operations", "list", "--store", gateway.setup().store_address()]).stdout(writer);
    let ended = command.output().expect("runs");
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}

#[tokio::test]
async fn counters_that_wake_somebody_stand_at_0_from_the_start() {
    let upstream = Upstream::start().await;
    let gateway = setup(&upstream, "").start().await;
    let metrics = gateway.metrics().await;
    for name in ["late_successes", "result_not_stored", "outcomes_lost"] {
        let series = format!("onefold_{name}_total{{operation=\"CreateOrder\"");
        let line = metrics.text().lines().find(|line| line.starts_with(&series));
        assert!(line.is_some_and(|line| line.ends_with(" 0")), "{name}: {line:?}");
    }
    assert!(metrics.text().contains("\nonefold_store_errors_total{"), "{}", metrics.text());
}
