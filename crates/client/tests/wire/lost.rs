//! Attempts without an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use onefold_client::reqwest::Method;
use onefold_client::{ClientError, OperationKey, Stopped, Verdict};
use onefold_testkit::raw_upstream::RawSeen;
use onefold_testkit::{Gate, Missing, RawUpstream, Reply, ReservedAddress, Step, Upstream};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::{ROUTE, Watched, client, key, keys, order, policy, request};

const OK: &str = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nok";

fn raw_keys(seen: &[RawSeen]) -> Vec<String> {
    let head = |seen: &RawSeen| String::from_utf8(seen.head.to_vec()).unwrap();
    let line =
        |head: String| head.lines().find(|line| line.starts_with("idempotency-key")).unwrap().to_owned();
    seen.iter().map(head).map(line).collect()
}

#[tokio::test]
async fn b98_every_attempt_has_one_key_and_one_body() {
    let half = "HTTP/1.1 201 Created\r\ncontent-length: 9\r\n\r\nhal";
    let server = RawUpstream::start(vec![
        vec![Step::Request, Step::Reset],
        vec![Step::Request],
        vec![Step::Request, Step::send(half)],
        vec![Step::Request, Step::send(OK)],
    ])
    .await;
    let ended = order(&client(), &server.url(), &key("payout-1")).await;
    assert_eq!((ended.verdict, ended.attempts), (Verdict::Succeeded, 4));
    assert_eq!(ended.settled().unwrap().body, "ok");
    let seen = server.requests();
    assert_eq!(raw_keys(&seen), ["idempotency-key: \"payout-1\""; 4]);
    assert!(seen.iter().all(|seen| seen.body == br#"{"item":"book"}"#));
}

#[tokio::test]
async fn b102_timeout_is_not_failure() {
    let server = Upstream::start().await;
    let never = Gate::closed();
    server.always(ROUTE, Reply::count().hold_after(&never));
    let mut policy = policy();
    policy.attempts_max = 2;
    policy.attempt_timeout = Duration::from_millis(300);
    let client = Watched::default().builder().policy(policy).build().unwrap();
    let ended = order(&client, &server.url(), &key("payout-1")).await;
    assert_eq!((ended.verdict, ended.stopped), (Verdict::OutcomeUnknown, Stopped::AttemptsSpent));
    assert!(!ended.safe_to_use_new_key && ended.answer.is_none());
    assert!(ended.settled().unwrap_err().to_string().contains("never with a new one"));
    assert_eq!(keys(&server.seen_at(ROUTE)), [Some("\"payout-1\""); 2]);
    // Later, under the same key, its answer is there.
    server.next(ROUTE, Reply::count().header("idempotent-replayed", "true"));
    let found = order(&client, &server.url(), &key("payout-1")).await;
    assert!(found.verdict == Verdict::Succeeded && found.replayed);
}

#[tokio::test]
async fn b102_refused_connection_is_not_done() {
    let nobody = ReservedAddress::take();
    let ended = order(&client(), &nobody.url(), &key("payout-1")).await;
    assert_eq!((ended.verdict, ended.stopped), (Verdict::NotDone, Stopped::AttemptsSpent));
    assert!(!ended.safe_to_use_new_key, "whoever gave the key may have sent it before");
    let fresh = OperationKey::generate();
    let ended = order(&client(), &nobody.url(), &fresh).await;
    assert!(ended.verdict == Verdict::NotDone && ended.safe_to_use_new_key);
    let ended = order(&client(), &nobody.url(), &fresh).await;
    assert!(!ended.safe_to_use_new_key, "it is not fresh any more");
    let client = client();
    let ended = client.send_without_key(request(&client, Method::POST, &nobody.url())).await.unwrap();
    assert_eq!(
        (ended.verdict, ended.attempts),
        (Verdict::NotDone, 4),
        "nothing was sent, so it is tried again"
    );
}

#[tokio::test]
async fn refused_connection_after_a_lost_answer_is_still_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // Nobody listens any more when the request is read, so every later attempt is refused, whatever its pause.
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        drop(listener);
        connection.read(&mut [0; 1024]).await.unwrap()
    });
    let ended = order(&client(), &url, &key("payout-1")).await;
    assert!(server.await.unwrap() > 0, "the first attempt was sent");
    assert_eq!((ended.verdict, ended.attempts), (Verdict::OutcomeUnknown, 4));
    assert!(!ended.safe_to_use_new_key);
}

#[tokio::test]
async fn without_a_key_a_lost_answer_is_not_asked_for_again() {
    for reply in [
        Reply::count().close_after_effect(),
        Reply::count().cut("{\"n\"", Missing::Length(9)),
        Reply::status(500),
    ] {
        let server = Upstream::start().await;
        server.next(ROUTE, reply);
        let client = client();
        let ended = client.send_without_key(request(&client, Method::POST, &server.url())).await.unwrap();
        assert_eq!((ended.verdict, ended.stopped), (Verdict::OutcomeUnknown, Stopped::NotRepeatable));
        assert_eq!(server.seen_at(ROUTE).len(), 1);
    }
}

/// What an HTTP client may do behind one's back: a kept connection dies under a request.
#[tokio::test]
async fn nothing_below_repeats_by_itself() {
    let kept = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let server = RawUpstream::start(vec![
        vec![Step::Request, Step::send(kept), Step::Request, Step::Reset],
        vec![Step::Request, Step::send(kept)],
    ])
    .await;
    let client = client();
    let first = client.send_without_key(request(&client, Method::POST, &server.url())).await.unwrap();
    assert_eq!(first.verdict, Verdict::Succeeded);
    let second = client.send_without_key(request(&client, Method::POST, &server.url())).await.unwrap();
    assert_eq!(second.verdict, Verdict::OutcomeUnknown);
    assert_eq!((server.count(), server.connections()), (2, 1));
}

/// An HTTP/2 peer that refuses a stream has not looked at it, and clients like to repeat that in silence.
#[tokio::test]
async fn refused_stream_of_http_2_is_an_attempt_that_is_counted() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let refused = Arc::new(AtomicU32::new(0));
    let count = refused.clone();
    let server = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let count = count.clone();
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    count.fetch_add(1, Ordering::Relaxed);
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                }
            });
        }
    });
    let client = Watched::default().builder().http(|http| http.http2_prior_knowledge()).build().unwrap();
    let ended = client.send_without_key(request(&client, Method::POST, &url)).await.unwrap();
    assert_eq!(ended.attempts, refused.load(Ordering::Relaxed));
    server.abort();
}

#[tokio::test]
async fn stream_that_was_not_sent_is_not_done() {
    let nobody = ReservedAddress::take();
    let client = client();
    let mut order = request(&client, Method::POST, &nobody.url());
    *order.body_mut() = Some(onefold_client::reqwest::Body::wrap(Endless));
    let ended = client.send_without_key(order).await.unwrap();
    assert_eq!(ended.verdict, Verdict::NotDone);
}

#[tokio::test]
async fn redirect_is_handed_on_and_not_followed() {
    let server = Upstream::start().await;
    server.next(ROUTE, Reply::status(307).header("location", "/elsewhere"));
    let ended = order(&client(), &server.url(), &key("payout-1")).await;
    assert_eq!(ended.answer.unwrap().status, 307);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn the_deadline_shrinks_each_attempts_own_time() {
    let server = Upstream::start().await;
    server.always(ROUTE, Reply::count().hold_before(&Gate::closed()));
    let watched = Watched::default();
    let mut policy = policy();
    policy.deadline = Duration::from_secs(1);
    policy.attempt_timeout = Duration::from_millis(600);
    let client = watched.builder().policy(policy).build().unwrap();
    let ended = order(&client, &server.url(), &key("payout-1")).await;
    assert_eq!((ended.verdict, ended.stopped), (Verdict::OutcomeUnknown, Stopped::Deadline));
    let times = watched.times();
    assert_eq!(times.len(), 2);
    assert_eq!(times[0], policy.attempt_timeout);
    assert!(times[1] <= policy.deadline - policy.attempt_timeout, "{times:?}");
}

#[tokio::test]
async fn stream_that_could_not_be_sent_again_is_refused() {
    let server = Upstream::start().await;
    let client = client();
    let mut order = request(&client, Method::POST, &server.url());
    let body = onefold_client::reqwest::Body::wrap(Endless);
    *order.body_mut() = Some(body);
    let refused = client.send(order, &key("payout-1")).await;
    assert!(matches!(refused, Err(ClientError::Stream)));
    assert!(server.seen().is_empty());
}

struct Endless;

impl http_body::Body for Endless {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}
