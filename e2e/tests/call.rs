//! `onefold call`: the caller's side of this project, with its own gateway as the other end.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Output, Stdio};

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

/// Runs a call with these streams to its end.
async fn call_into(url: &str, more: &[&str], stdout: Stdio, stderr: Stdio) -> Output {
    let directory = TestDirectory::create();
    let mut command = binary::command(directory.path());
    command.args(order(url, more)).stdout(stdout).stderr(stderr);
    let child = tokio::process::Command::from(command).kill_on_drop(true).spawn().unwrap();
    tokio::time::timeout(binary::COMMAND_DEADLINE, child.wait_with_output()).await.unwrap().unwrap()
}

/// A device that takes nothing.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
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

#[tokio::test]
async fn call_that_could_not_be_meant_is_exit_2_and_sends_nothing() {
    let upstream = Upstream::start().await;
    let directory = TestDirectory::create();
    let url = upstream.url();
    for more in [
        &["--key", ""][..],
        &["--header", "no colon"],
        &["--data", "@nowhere.json"],
        &["--deadline", "soon"],
        &["--profile", "acme"],
        &["--profile", "github", "--key", "k"],
        &["--header", "Idempotency-Key: k"],
        &["--header", "Content-Length: 3", "--data", "abcdef"],
        &["--header", "Transfer-Encoding: chunked", "--data", "abcdef"],
        &["--header", "Host:"],
        &["--profile", "square", "--key", "0123456789012345678901234567890123456789012345"],
    ] {
        let mut args = vec!["call", "POST", &url];
        args.extend(more);
        let ended = binary::onefold(directory.path(), &args).await;
        ended.assert_code(2);
        assert!(!ended.stderr.contains("takes it again"), "{}", ended.stderr);
    }
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn body_that_does_not_end_or_is_too_long_is_exit_2_and_sends_nothing() {
    let upstream = Upstream::start().await;
    let directory = TestDirectory::create();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = binary::command(directory.path());
    command.args(["call", "POST", &upstream.url(), "--data", "@-", "--deadline", "200ms"]).stdin(reader);
    let endless = binary::run(command).await;
    drop(writer);
    endless.assert_code(2);
    assert!(endless.stderr.contains("deadline"), "{}", endless.stderr);
    let long = directory.file("long");
    File::create(&long).unwrap().set_len(64 * 1024 * 1024 + 1).unwrap();
    let too_long =
        binary::onefold(directory.path(), &["call", "POST", &upstream.url(), "--data", "@long"]).await;
    too_long.assert_code(2);
    assert!(too_long.stderr.contains("64 MiB"), "{}", too_long.stderr);
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn body_comes_from_stdin() {
    let upstream = Upstream::start().await;
    let directory = TestDirectory::create();
    std::fs::write(directory.file("body"), BODY).unwrap();
    let mut command = binary::command(directory.path());
    command.args(["call", "POST", &upstream.url(), "--data", "@-"]);
    command.stdin(File::open(directory.file("body")).unwrap());
    binary::run(command).await.assert_code(0);
    assert_eq!(upstream.seen()[0].body, BODY.as_bytes());
}

#[tokio::test]
async fn secret_in_what_is_wrong_is_not_printed() {
    let upstream = Upstream::start().await;
    let directory = TestDirectory::create();
    let url = upstream.url();
    for args in [
        &["--header", "Authorization Bearer S3CR3T", &url][..],
        &["--header", "Authorization: Bearer\nS3CR3T", &url],
        &["http://u:S3CR3T@127.0.0.1:99999/"],
        &["ftp://u:S3CR3T@127.0.0.1/"],
        &["http://u:S3CR3T@/"],
        &["--header", "Authorization: x", &url.replace("//", "//u:S3CR3T@")],
    ] {
        let ended = binary::onefold(directory.path(), &[&["call", "POST"], args].concat()).await;
        ended.assert_code(2);
        assert!(!ended.stderr.contains("S3CR3T") && ended.stdout.is_empty(), "{ended:?}");
    }
    assert!(upstream.seen().is_empty());
    let nobody = ReservedAddress::take().url().replace("//", "//u:S3CR3T@");
    let ended = binary::onefold(directory.path(), &["call", "POST", &nobody, "--attempts", "1"]).await;
    ended.assert_code(69);
    assert!(!ended.stderr.contains("S3CR3T"), "{ended:?}");
}

#[tokio::test]
async fn safe_method_is_sent_without_a_key() {
    let upstream = Upstream::start().await;
    let directory = TestDirectory::create();
    let ended = binary::onefold(directory.path(), &["call", "get", &upstream.url()]).await;
    ended.assert_code(0);
    assert_eq!(upstream.seen()[0].header("idempotency-key"), None);
}

/// As in an image that holds the binary and nothing else.
#[tokio::test]
async fn host_without_certificates_can_call() {
    let upstream = Upstream::start().await;
    let directory = TestDirectory::create();
    let mut command = binary::command(directory.path());
    let nowhere = directory.file("nowhere");
    command.env("SSL_CERT_FILE", &nowhere).env("SSL_CERT_DIR", &nowhere);
    command.args(["call", "POST", &upstream.url(), "--key", "checkout-7f82"]);
    binary::run(command).await.assert_code(0);
}

/// The operation is done, whoever reads its answer.
#[tokio::test]
async fn answer_that_cannot_be_written_keeps_the_exit_code_of_its_verdict() {
    let upstream = Upstream::start().await;
    let url = format!("{}{ROUTE}", upstream.url());
    upstream.next(ROUTE, Reply::status(201).body("done"));
    upstream.next(ROUTE, Reply::status(422).body("sold out"));
    upstream.next(ROUTE, Reply::status(201).body("done"));
    for code in [0, 1] {
        let ended = call_into(&url, &[], full(), Stdio::piped()).await;
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains("could not be written to stdout"), "{stderr}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = call_into(&url, &[], writer.into(), Stdio::piped()).await;
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{stderr}");
    assert!(!stderr.contains("written"), "{stderr}");
}

#[tokio::test]
async fn reader_of_stderr_that_goes_away_ends_no_call() {
    let upstream = Upstream::start().await;
    let url = format!("{}{ROUTE}", upstream.url());
    let gate = Gate::closed();
    upstream.next(ROUTE, Reply::count().hold_before(&gate));
    let (reader, writer) = std::io::pipe().unwrap();
    let reads_one_line = async {
        upstream.received(ROUTE, 1).await;
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).unwrap();
        gate.open();
        line
    };
    let (ended, line) = tokio::join!(call_into(&url, &[], Stdio::piped(), writer.into()), reads_one_line);
    assert!(line.starts_with("key "), "{line}");
    assert_eq!((ended.status.code(), &ended.stdout[..]), (Some(0), &br#"{"n":1}"#[..]));
}

#[tokio::test]
async fn key_that_cannot_be_written_is_never_sent() {
    let upstream = Upstream::start().await;
    let url = format!("{}{ROUTE}", upstream.url());
    let ended = call_into(&url, &[], Stdio::piped(), full()).await;
    assert_eq!(ended.status.code(), Some(2));
    assert!(upstream.seen().is_empty());
}

#[tokio::test]
async fn answer_that_is_too_long_is_said_to_be_cut() {
    let upstream = Upstream::start().await;
    let directory = TestDirectory::create();
    let url = format!("{}{ROUTE}", upstream.url());
    let long = "x".repeat(16 * 1024 * 1024 + 1);
    upstream.next(ROUTE, Reply::status(200).body(&long));
    upstream.next(ROUTE, Reply::status(200).body(&long[1..]));
    for is_cut in [true, false] {
        let ended = binary::onefold(directory.path(), &order(&url, &["--output", "json"])).await;
        let said = ended.json();
        assert_eq!((ended.code, &said["cut"]), (Some(0), &json!(is_cut)));
        assert_eq!(said["body"].as_str().unwrap().len(), long.len() - 1);
        assert_eq!(events(&ended, "ended")[0]["cut"], json!(is_cut));
    }
    upstream.next(ROUTE, Reply::status(200).body(&long));
    let ended = binary::onefold(directory.path(), &order(&url, &[])).await;
    assert!(ended.stderr.contains("the answer is longer"), "{}", ended.stderr);
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

#[tokio::test]
async fn proxy_of_the_environment_is_used() {
    let proxy = Upstream::start().await;
    let directory = TestDirectory::create();
    let mut command = binary::command(directory.path());
    for name in ["http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY", "REQUEST_METHOD"] {
        command.env_remove(name);
    }
    command.env("HTTP_PROXY", proxy.url()).args(["call", "POST", "http://shop.invalid/orders"]);
    binary::run(command).await.assert_code(0);
    assert_eq!(proxy.seen()[0].header("host"), Some("shop.invalid"));
}
