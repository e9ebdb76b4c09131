//! Lost answers and lost relays: sent again under one id, which a receiver that keeps ids takes once.

use std::time::Duration;

use onefold_broker_http::HttpSink;
use onefold_core::OutboxState;
use onefold_messages::IfLost;
use onefold_testkit::{Gate, RawUpstream, Reply, ReservedAddress, Step, Upstream};

use crate::rig::{NEW, OLD, Receiver, message, outbox, secret, sink};

#[tokio::test]
async fn lost_answer_is_sent_again_under_one_id_and_taken_once() {
    let (endpoint, receiver, outbox) = (Upstream::start().await, Receiver::new(NEW), outbox());
    let takes = receiver.clone();
    endpoint.responds("/hook", move |seen| match (takes.takes(seen), takes.taken().values().sum::<u32>()) {
        (false, _) => Reply::status(400),
        (true, 1..=2) => Reply::count().close_after_effect(),
        (true, _) => Reply::status(204),
    });
    outbox.put(message("m-1")).await;
    let relay = outbox.relay(sink(&format!("{}/hook", endpoint.url())));
    outbox.becomes("m-1", OutboxState::Delivered).await;
    assert_eq!(receiver.taken().into_iter().collect::<Vec<_>>(), [("m-1".to_owned(), 3)]);
    assert_eq!(outbox.entry("m-1").await.failures, 2);
    let seen = endpoint.seen_at("/hook");
    for again in &seen {
        assert_eq!((again.header("onefold-message-id"), &again.body), (Some("m-1"), &seen[0].body));
        assert_eq!(again.header("content-type"), Some("application/json"));
    }
    assert_eq!(relay.stop(Duration::from_secs(10)).await, 0);
}

#[tokio::test]
async fn b94_relay_that_dies_between_the_acceptance_and_the_mark_leaves_a_copy_under_one_id() {
    let (endpoint, receiver, outbox) = (Upstream::start().await, Receiver::new(NEW), outbox());
    let answer = Gate::closed();
    let (takes, held) = (receiver.clone(), answer.clone());
    endpoint.responds("/hook", move |seen| match takes.takes(seen) {
        true => Reply::count().hold_after(&held),
        false => Reply::status(400),
    });
    outbox.put(message("m-1")).await;
    let relay = outbox.relay(sink(&format!("{}/hook", endpoint.url())));
    endpoint.reached("/hook", 1).await;
    drop(relay);
    answer.open();
    assert_eq!(outbox.entry("m-1").await.state, OutboxState::Sending, "there is no mark");
    outbox.clock.pass(Duration::from_secs(60));
    let _another = outbox.relay(sink(&format!("{}/hook", endpoint.url())));
    outbox.becomes("m-1", OutboxState::Delivered).await;
    assert_eq!(receiver.taken().into_iter().collect::<Vec<_>>(), [("m-1".to_owned(), 2)]);
}

#[tokio::test]
async fn lost_answer_of_a_receiver_that_keeps_no_ids_is_held() {
    let endpoint = RawUpstream::start(vec![vec![Step::Request, Step::Reset]]).await;
    let outbox = outbox();
    outbox.put(message("m-1")).await;
    let relay = outbox.relay(sink(&endpoint.url()).lost_answers(IfLost::Hold));
    outbox.becomes("m-1", OutboxState::Unknown).await;
    assert_eq!(relay.stop(Duration::from_secs(10)).await, 0);
    assert_eq!(endpoint.count(), 1);
}

#[tokio::test]
async fn secrets_change_without_a_receiver_that_refuses() {
    let (endpoint, old, new) = (Upstream::start().await, Receiver::new(OLD), Receiver::new(NEW));
    for (path, receiver) in [("/old", old.clone()), ("/new", new.clone())] {
        endpoint.responds(path, move |seen| Reply::status(if receiver.takes(seen) { 200 } else { 400 }));
    }
    let outbox = outbox();
    for path in ["old", "new"] {
        outbox.put(onefold_messages::Message { address: path.into(), ..message(path) }).await;
    }
    let both = HttpSink::new(&endpoint.url(), vec![secret(NEW), secret(OLD)]).unwrap();
    let _relay = outbox.relay(both);
    outbox.becomes("old", OutboxState::Delivered).await;
    outbox.becomes("new", OutboxState::Delivered).await;
    assert_eq!((old.taken()["old"], new.taken()["new"]), (1, 1));
}

#[tokio::test]
async fn endpoint_that_is_not_there_costs_no_failure() {
    let (address, outbox) = (ReservedAddress::take(), outbox());
    outbox.put(message("m-1")).await;
    let _relay = outbox.relay(sink(&address.url()));
    outbox.becomes("m-1", OutboxState::Waiting).await;
    let what = "the message has been tried in vain";
    onefold_testkit::wait::until_within(Duration::from_secs(20), what, async || {
        outbox.clock.pass(Duration::from_millis(10));
        outbox.entry("m-1").await.attempt > 2
    })
    .await;
    let endpoint = Upstream::start_on(address);
    outbox.becomes("m-1", OutboxState::Delivered).await;
    assert_eq!((endpoint.total(), outbox.entry("m-1").await.failures), (1, 0));
}
