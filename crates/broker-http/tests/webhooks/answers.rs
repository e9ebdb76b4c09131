//! What one sending tells of an endpoint's answer.

use std::time::Duration;

use onefold_broker_http::{HttpSink, SetupError};
use onefold_messages::{IfLost, Message, Sending, Sink};
use onefold_testkit::{Gate, RawUpstream, Reply, Step, Upstream};

use crate::rig::{message, secret, sink};

/// Well below the two minutes that the endless answer below would take.
const SOON: Duration = Duration::from_secs(15);

#[tokio::test]
async fn patience_is_taken_from_the_answer() {
    let endpoint = Upstream::start().await;
    for status in [425, 429, 503] {
        endpoint.next("/", Reply::status(status).header("retry-after", "7"));
        let sending = sink(&endpoint.url()).send(&message("m-1")).await;
        assert!(
            matches!(sending, Sending::NotYet { after: Some(after), .. } if after == Duration::from_secs(7)),
            "{status}: {sending:?}"
        );
    }
}

#[tokio::test]
async fn refusal_is_the_end_and_an_error_of_the_server_is_not() {
    let endpoint = Upstream::start().await;
    endpoint.next("/", Reply::status(410));
    endpoint.next("/", Reply::status(500));
    let sink = sink(&endpoint.url());
    let gone = sink.send(&message("m-1")).await;
    assert_eq!(gone, Sending::Refused { reason: "the endpoint said 410".into() });
    let broken = sink.send(&message("m-1")).await;
    assert_eq!(broken, Sending::Failed { reason: "the endpoint said 500".into() });
}

#[tokio::test]
async fn redirect_is_not_followed() {
    for status in [301, 303, 307, 308] {
        let endpoint = Upstream::start().await;
        endpoint.next("/", Reply::status(status).header("location", "/elsewhere"));
        let sending = sink(&endpoint.url()).send(&message("m-1")).await;
        assert!(matches!(sending, Sending::Failed { .. }), "{status}: {sending:?}");
        assert_eq!(endpoint.seen().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn answer_without_an_end_says_all_with_its_status() {
    let endpoint = Upstream::start().await;
    let endless = [
        Reply::events(Duration::from_millis(100), 1200),
        Reply::count().chunked(vec![b' '; 8 * 1024 * 1024]),
    ];
    for reply in endless {
        endpoint.next("/", reply);
        let sink = sink(&endpoint.url());
        let sending = tokio::time::timeout(SOON, async { sink.send(&message("m-1")).await }).await;
        assert_eq!(sending.expect("in time"), Sending::Accepted);
    }
}

#[tokio::test]
async fn no_answer_in_time_is_a_lost_one() {
    let (endpoint, never) = (Upstream::start().await, Gate::closed());
    endpoint.always("/", Reply::count().hold_after(&never));
    let hasty = sink(&endpoint.url()).answer_within(Duration::from_millis(200));
    assert!(matches!(hasty.send(&message("m-1")).await, Sending::Failed { .. }));
    let holding = hasty.lost_answers(IfLost::Hold);
    assert!(matches!(holding.send(&message("m-1")).await, Sending::Unknown { .. }));
    assert_eq!(holding.if_lost(), IfLost::Hold);
}

#[tokio::test]
async fn cut_answer_is_a_lost_one() {
    let half = vec![Step::Request, Step::send("HTTP/1.1 200 O")];
    let endpoint = RawUpstream::start(vec![half]).await;
    let sending = sink(&endpoint.url()).lost_answers(IfLost::Hold).send(&message("m-1")).await;
    assert!(matches!(sending, Sending::Unknown { .. }), "{sending:?}");
}

#[tokio::test]
async fn what_cannot_be_signed_or_addressed_is_refused_unsent() {
    let endpoint = Upstream::start().await;
    let sink = sink(&endpoint.url());
    let bad = [
        message("order.created"),
        message("with a blank"),
        Message { address: "https://elsewhere.example/".into(), ..message("m-1") },
        Message { headers: vec![("host".into(), "elsewhere".into())], ..message("m-2") },
    ];
    for message in bad {
        let sending = sink.send(&message).await;
        assert!(matches!(sending, Sending::Refused { .. }), "{:?}: {sending:?}", message.id);
    }
    assert_eq!(endpoint.seen().len(), 0);
}

#[tokio::test]
async fn no_reason_and_no_debug_text_holds_the_url() {
    let address = onefold_testkit::ReservedAddress::take();
    let url = format!("{}/hidden?token=hidden", address.url());
    let sink = HttpSink::new(&url, vec![secret(crate::rig::OLD)]).unwrap();
    let sending = format!("{:?} {sink:?}", sink.send(&message("m-1")).await);
    assert!(sending.contains("nothing was sent") && !sending.contains("hidden"), "{sending}");
}

#[test]
fn sink_without_a_secret_or_an_endpoint_is_none() {
    let made = |url: &str, secrets| HttpSink::new(url, secrets).map(drop);
    assert!(matches!(made("http://shop.example", vec![]), Err(SetupError::NoSecret)));
    for url in ["", "/hooks", "ftp://shop.example", "http://"] {
        let made = made(url, vec![secret(crate::rig::NEW)]);
        assert!(matches!(made, Err(SetupError::NotAnEndpoint)), "{url}");
    }
}
