//! A process that is killed between two attempts and started again asks under the same key.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use onefold_client::{Client, Intentions, Policy, Verdict, reqwest::Method};
use onefold_testkit::{Gate, Reply, Upstream, wait};

const ROUTE: &str = "/payouts";
const URL: &str = "ONEFOLD_TEST_URL";
const JOURNAL: &str = "ONEFOLD_TEST_JOURNAL";

/// What a child does: one payout, with its intention kept. Without a server, it is no child.
#[tokio::test]
async fn child_pays_out() {
    let Ok(server) = std::env::var(URL) else { return };
    let mut policy = Policy::default();
    policy.backoff.first = Duration::from_millis(5);
    let intentions = Intentions::open(std::env::var_os(JOURNAL).unwrap()).unwrap();
    let client = Client::builder().policy(policy).intentions(intentions).build().unwrap();
    let payout = client.request(Method::POST, format!("{server}{ROUTE}")).body("10.00").build().unwrap();
    let ended = client.send_intention(payout, "payout-4711").await.unwrap();
    assert_eq!(ended.verdict, Verdict::Succeeded);
}

fn child(server: &Upstream, journal: &std::path::Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child_pays_out"]).env(URL, server.url()).env(JOURNAL, journal);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits for it without holding up the server, which runs in this process.
async fn has_succeeded(child: &mut Child) -> bool {
    let ended = wait::some(wait::DEADLINE, "the process has ended", async || child.try_wait().unwrap());
    ended.await.success()
}

#[tokio::test]
async fn b98_killed_process_comes_back_with_the_same_key() {
    let server = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("payouts.journal");
    // Two answers are lost; then the process dies while the third attempt is under way.
    for _ in 0..2 {
        server.next(ROUTE, Reply::count().close_after_effect());
    }
    server.next(ROUTE, Reply::count().hold_before(&Gate::closed()));
    let mut first = child(&server, &journal);
    server.received(ROUTE, 3).await;
    first.kill().unwrap();
    first.wait().unwrap();
    let mut second = child(&server, &journal);
    assert!(has_succeeded(&mut second).await);
    let seen = server.seen_at(ROUTE);
    let keys: Vec<_> = seen.iter().map(|seen| seen.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 4);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert!(Intentions::open(&journal).unwrap().open_intentions().is_empty(), "it is final and forgotten");
}

/// Killed at whatever moment, over and over: never two keys for one intention.
#[tokio::test]
async fn process_killed_at_any_moment_never_makes_a_second_key() {
    let server = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("payouts.journal");
    server.always(ROUTE, Reply::status(503));
    for moment in 0..8u64 {
        let mut one = child(&server, &journal);
        wait::pass_time(
            Duration::from_millis(moment * moment * 4),
            "the process is killed at another moment",
        )
        .await;
        one.kill().unwrap();
        one.wait().unwrap();
    }
    let sent_before = server.seen_at(ROUTE).len();
    server.always(ROUTE, Reply::count());
    assert!(has_succeeded(&mut child(&server, &journal)).await);
    let seen = server.seen_at(ROUTE);
    assert!(seen.len() > sent_before);
    let keys: std::collections::BTreeSet<_> =
        seen.iter().map(|seen| seen.header("idempotency-key").unwrap()).collect();
    assert_eq!(keys.len(), 1);
}
