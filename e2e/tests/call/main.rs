//! `onefold call`: the caller's side of this project, with its own gateway as the other end. Here: the result of a key, and
//! its exit code.

mod given;
mod streams;

use std::process::{Child, Stdio};

use onefold_e2e::{ROUTE, gateway};
use onefold_testkit::{Ended, Gate, Gateway, Reply, ReservedAddress, TestDirectory, Upstream, binary, wait};
use serde_json::{Value, json};

const BODY: &str = r#"{"sku":"book","quantity":1}"#;

/// The arguments of an order by Alice.
fn order<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["call", "POST", url, "--data", BODY, "--header", "Authorization: Bearer alice"];
    args.extend(more);
    args
}

async fn call(gateway: &Gateway, more: &[&str]) -> Ended {
    let url = format!("http://{}{ROUTE}", gateway.address());
    let directory = TestDirectory::create();
    binary::onefold(directory.path(), &order(&url, more)).await
}

/// The events on stderr of a call with `--output json`.
fn events(ended: &Ended, name: &str) -> Vec<Value> {
    let lines = ended.stderr.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    lines.filter(|event| event["event"] == name).collect()
}

#[tokio::test]
async fn first_call_makes_a_key_and_the_second_gets_the_replay() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let first = call(&gateway, &[]).await;
    first.assert_code(0);
    assert_eq!(first.stdout, r#"{"n":1}"#);
    let key = first.stderr.lines().next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let second = call(&gateway, &["--key", &key, "--output", "json"]).await;
    second.assert_code(0);
    let said = second.json();
    assert_eq!(
        (&said["verdict"], &said["replayed"], &said["body"]),
        (&json!("succeeded"), &json!(true), &json!(r#"{"n":1}"#))
    );
    assert_eq!(said["key"], json!(key));
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn killed_call_has_said_its_key_and_the_next_one_gets_the_result() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let url = format!("http://{}{ROUTE}", gateway.address());
    let directory = TestDirectory::create();
    let mut command = binary::command(directory.path());
    command.args(order(&url, &[])).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut killed: Child = command.spawn().unwrap();
    upstream.received(ROUTE, 1).await;
    killed.kill().unwrap();
    let stderr = String::from_utf8(killed.wait_with_output().unwrap().stderr).unwrap();
    let key = stderr.lines().next().unwrap().split(' ').nth(1).unwrap().to_owned();
    gate.open();
    let next = call(&gateway, &["--key", &key]).await;
    next.assert_code(0);
    assert_eq!((next.stdout.as_str(), upstream.count(ROUTE)), (r#"{"n":1}"#, 1));
}

/// Two calls of one key, the second while the first runs: it is told so in this way, asks the operation's page, and
/// ends with the result.
async fn second_call_waits_for_the_first(while_running: &str) {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, &format!("while_running = {while_running}\nlease = \"1s\"")).await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let second = async {
        upstream.received(ROUTE, 1).await;
        call(&gateway, &["--key", "checkout-7f82", "--output", "json"]).await
    };
    let opens = async {
        let busy = async || gateway.metrics().await.sum("onefold_busy_total") >= 1.0;
        wait::until_within(wait::DEADLINE, "the second call was told to wait", busy).await;
        gate.open();
    };
    let (first, second, ()) = tokio::join!(call(&gateway, &["--key", "checkout-7f82"]), second, opens);
    first.assert_code(0);
    second.assert_code(0);
    let pages = events(&second, "operation");
    assert_eq!(pages.last().unwrap()["state"], "settled", "{}", second.stderr);
    let said = second.json();
    assert_eq!((&said["replayed"], &said["body"]), (&json!(true), &json!(first.stdout)));
    assert_eq!(upstream.count(ROUTE), 1);
}

#[tokio::test]
async fn b101_call_waits_for_what_is_in_progress_and_ends_with_its_result() {
    second_call_waits_for_the_first("{ busy = true }").await;
}

#[tokio::test]
async fn call_that_is_accepted_waits_for_its_end() {
    second_call_waits_for_the_first("{ accepted = true }").await;
}

#[tokio::test]
async fn b102_lost_answer_is_exit_76_until_it_is_settled() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    upstream.next(ROUTE, Reply::count().close_after_effect());
    let lost = call(&gateway, &["--key", "checkout-7f82", "--deadline", "2s"]).await;
    lost.assert_code(76);
    assert!(lost.stderr.contains("--key checkout-7f82"), "{}", lost.stderr);
    let unknown = gateway.operations_in("outcome_unknown").await;
    let id = unknown[0]["id"].as_str().unwrap();
    let resolved = gateway
        .command(&[
            "operations",
            "resolve",
            id,
            "--as",
            "succeeded",
            "--reason",
            "seen",
            "--evidence",
            "ledger",
            "--status",
            "201",
            "--body",
            "{\"order\":1}",
        ])
        .await;
    resolved.assert_code(0);
    let settled = call(&gateway, &["--key", "checkout-7f82"]).await;
    settled.assert_code(0);
    assert_eq!((settled.stdout.as_str(), upstream.count(ROUTE)), ("{\"order\":1}", 1));
}

#[tokio::test]
async fn gateway_that_is_killed_under_a_call_and_restarted_costs_no_second_effect() {
    let upstream = Upstream::start().await;
    let mut gateway = gateway(&upstream, "").await;
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let url = format!("http://{}{ROUTE}", gateway.address());
    let directory = TestDirectory::create();
    let path = directory.path().to_owned();
    let running = tokio::spawn(async move {
        binary::onefold(
            &path,
            &order(&url, &["--key", "checkout-7f82", "--deadline", "4s", "--attempts", "9"]),
        )
        .await
    });
    upstream.received(ROUTE, 1).await;
    gateway.restart().await;
    gate.open();
    let ended = running.await.unwrap();
    // The upstream's answer died with the first gateway: nobody can know, and nobody tries again.
    ended.assert_code(76);
    assert_eq!(upstream.seen_at(ROUTE).len(), 1);
}

#[tokio::test]
async fn conflict_is_exit_65_and_a_rejection_exit_1_with_the_upstreams_own_body() {
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    call(&gateway, &["--key", "checkout-7f82"]).await.assert_code(0);
    let url = format!("http://{}{ROUTE}", gateway.address());
    let directory = TestDirectory::create();
    let other = [
        "call",
        "POST",
        &url,
        "--key",
        "checkout-7f82",
        "--data",
        "{}",
        "--header",
        "Authorization: Bearer alice",
    ];
    let conflict = binary::onefold(directory.path(), &other).await;
    conflict.assert_code(65);
    assert!(conflict.stdout.contains("key-conflict"));
    upstream.next(ROUTE, Reply::status(422).json(r#"{"error":"sold out"}"#));
    let rejected = call(&gateway, &[]).await;
    rejected.assert_code(1);
    assert_eq!(rejected.stdout, r#"{"error":"sold out"}"#);
}

#[tokio::test]
async fn what_is_not_there_is_exit_69_and_nothing_happened() {
    let nobody = ReservedAddress::take();
    let directory = TestDirectory::create();
    let url = format!("{}{ROUTE}", nobody.url());
    let ended = binary::onefold(directory.path(), &order(&url, &["--attempts", "2"])).await;
    ended.assert_code(69);
    assert!(ended.stderr.contains("nothing happened") && ended.stdout.is_empty(), "{ended:?}");
    let upstream = Upstream::start().await;
    let gateway = gateway(&upstream, "").await;
    drop(upstream);
    call(&gateway, &["--attempts", "2"]).await.assert_code(69);
}

/// What ended is done or rejected, whether its answer was kept or not.
#[tokio::test]
async fn answer_that_was_not_kept_has_the_exit_code_of_the_lost_one() {
    let upstream = Upstream::start().await;
    let directory = TestDirectory::create();
    let url = format!("{}{ROUTE}", upstream.url());
    for (code, says) in [
        (0, json!({"original_status": 201, "state": "succeeded", "safe_to_use_new_key": false})),
        (1, json!({"original_status": 422, "state": "rejected", "safe_to_use_new_key": true})),
        (1, json!({"original_status": 422, "state": "rejected", "safe_to_use_new_key": false})),
        (0, json!({"state": "succeeded"})),
        (1, json!({"state": "rejected"})),
    ] {
        let mut document = says.clone();
        document["type"] = json!("https://onefold.dev/problems/response-not-kept");
        let answer = Reply::status(409).header("content-type", "application/problem+json");
        upstream.next(ROUTE, answer.body(document.to_string()));
        let ended = binary::onefold(directory.path(), &order(&url, &[])).await;
        assert_eq!(ended.code, Some(code), "{says}: {ended:?}");
        assert_eq!(ended.stderr.contains("it was rejected"), code == 1, "{ended:?}");
    }
}

/// 1 says that the same request would be answered alike: never where the same key may be tried again.
#[tokio::test]
async fn what_may_be_tried_again_is_no_rejection() {
    let upstream = Upstream::start().await;
    let directory = TestDirectory::create();
    let url = format!("{}{ROUTE}", upstream.url());
    for (status, code) in [(421, 69), (429, 75), (401, 1), (422, 1)] {
        upstream.always(ROUTE, Reply::status(status));
        let ended = binary::onefold(directory.path(), &order(&url, &["--attempts", "2"])).await;
        assert_eq!(ended.code, Some(code), "{status}: {ended:?}");
    }
}
