//! What `onefold call` is given: arguments, bodies, secrets, and the environment.

use std::fs::File;

use onefold_testkit::{ReservedAddress, TestDirectory, Upstream, binary};

use crate::BODY;

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
