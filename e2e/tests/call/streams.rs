//! What `onefold call` writes, and to whom: a key that nobody can read is not sent, and what is done is done, whoever reads of
//! it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use onefold_e2e::ROUTE;
use onefold_testkit::{Gate, Reply, TestDirectory, Upstream, binary};
use serde_json::json;

use crate::{events, order};

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
