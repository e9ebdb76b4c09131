//! Relays that are lost between the destination's word and the outbox's.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{OutboxState, StoreTime};
use onefold_messages::Sending;
use onefold_store::clock::ManualClock;
use onefold_testkit::{Store, on_each_store, wait};

use crate::rig::{Scripted, Step, accepted, message, outbox};

on_each_store!(
    b94_what_a_lost_relay_had_is_sent_again_under_its_id,
    what_a_lost_relay_had_is_held_where_nobody_would_know_it_again,
    b90_a_lower_number_that_comes_later_is_not_skipped_and_a_gap_holds_up_nothing,
);

/// Longer than any lease here.
const LATER: Duration = Duration::from_secs(3600);

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)))
}

async fn b94_what_a_lost_relay_had_is_sent_again_under_its_id(store: &Store) {
    let clock = clock();
    let outbox = outbox(store, Some(clock.clone())).await;
    // The destination has it, and the relay never hears of it.
    let sink = Scripted::new(|message, before| match (message.id.as_str(), before) {
        ("m", 0) => Step::Hang,
        _ => accepted(),
    });
    outbox.put(vec![message("m", "shop", None)]).await;
    let relay = outbox.relay(vec![sink.destination("shop")]);
    wait::until("the message is on its way", || sink.times("m") == 1).await;
    drop(relay);
    let next = outbox.relay(vec![sink.destination("shop")]);
    outbox.put(vec![message("other", "shop", None)]).await;
    outbox.becomes("other", OutboxState::Delivered).await;
    assert_eq!((sink.times("m"), outbox.entry("m").await.state), (1, OutboxState::Sending));
    clock.pass(LATER);
    outbox.becomes("m", OutboxState::Delivered).await;
    assert_eq!((sink.times("m"), outbox.entry("m").await.attempt), (2, 2));
    drop(next);
}

async fn what_a_lost_relay_had_is_held_where_nobody_would_know_it_again(store: &Store) {
    let clock = clock();
    let outbox = outbox(store, Some(clock.clone())).await;
    let sink = Scripted::new(|_, _| Step::Hang).holding();
    outbox.put(vec![message("mail", "mail", None)]).await;
    let relay = outbox.relay(vec![sink.destination("mail")]);
    wait::until("the mail is on its way", || sink.times("mail") == 1).await;
    drop(relay);
    clock.pass(LATER);
    let next = outbox.relay(vec![sink.destination("mail")]);
    outbox.becomes("mail", OutboxState::Unknown).await;
    assert_eq!(sink.times("mail"), 1);
    drop(next);
}

async fn b90_a_lower_number_that_comes_later_is_not_skipped_and_a_gap_holds_up_nothing(store: &Store) {
    let clock = clock();
    let outbox = outbox(store, Some(clock.clone())).await;
    let sink = Scripted::new(|message, before| match (message.id.as_str(), before) {
        ("101", 0) => Step::Answer(Sending::NotYet { after: Some(LATER), reason: "not open yet".into() }),
        _ => accepted(),
    });
    let relay = outbox.relay(vec![sink.destination("shop")]);
    outbox.put(vec![message("101", "shop", None)]).await;
    wait::until("101 is put off", || sink.times("101") == 1).await;
    // The number between them is given to a closure that fails: it is never seen.
    outbox.put_in_vain("gap").await;
    outbox.put(vec![message("103", "shop", None)]).await;
    outbox.becomes("103", OutboxState::Delivered).await;
    assert_eq!(sink.times("101"), 1);
    clock.pass(LATER);
    outbox.becomes("101", OutboxState::Delivered).await;
    assert_eq!(sink.order(), ["101", "103", "101"]);
    drop(relay);
}
