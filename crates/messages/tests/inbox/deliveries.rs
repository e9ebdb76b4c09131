//! What one delivery and its copies bring about.

use std::time::Duration;

use onefold_core::InboxState;
use onefold_messages::{Handled, Handling, Inbound, InboxSettings, Settle, WithoutId, wire};
use onefold_testkit::{Store, on_each_store, wait};

use crate::rig::{Does, Shop, is_again, message, nameless, settings};

on_each_store!(
    deliveries_at_one_time_have_one_effect_and_the_others_are_counted,
    b86_duplicates_are_settled_at_once_and_counted,
    b81_a_handler_that_fails_or_panics_does_not_burn_the_id,
    b87_a_message_that_was_put_off_or_comes_under_a_new_id_of_the_brokers_is_done_once,
    a_refusal_is_final_keeps_its_reason_and_has_no_effect,
    where_content_is_the_id_one_content_has_one_effect,
    a_dropped_delivery_commits_whole_or_nothing_and_holds_up_nobody,
);

const DONE: Handling = Handling::Done(InboxState::Processed);

async fn deliveries_at_one_time_have_one_effect_and_the_others_are_counted(store: &Store) {
    let shop = Shop::open(store).await;
    let (one, other) = (shop.consumer("41"), shop.consumer("42"));
    let deliveries = (0..24).map(|n| {
        let consumer = if n % 2 == 0 { one.clone() } else { other.clone() };
        tokio::spawn(async move { consumer.handle(message("evt-1", "a")).await })
    });
    let mut done = 0;
    for delivery in deliveries.collect::<Vec<_>>() {
        match delivery.await.unwrap() {
            DONE => done += 1,
            other => assert_eq!(other, Handling::Duplicate),
        }
    }
    assert_eq!((done, shop.effects().await.len()), (1, 1));
    one.flush().await;
    other.flush().await;
    assert_eq!(shop.entries().await[0].duplicates, 23);
}

async fn b86_duplicates_are_settled_at_once_and_counted(store: &Store) {
    let shop = Shop::open(store).await;
    let consumer = shop.consumer("41");
    for _ in 0..6 {
        assert_eq!(consumer.receive(message("evt-1", "a")).await, Settle::Acknowledge);
    }
    assert_eq!(shop.effects().await, ["a"]);
    wait::until_within(Duration::from_secs(20), "they are written", async || {
        shop.entries().await[0].duplicates == 5
    })
    .await;
}

async fn b81_a_handler_that_fails_or_panics_does_not_burn_the_id(store: &Store) {
    let shop = Shop::open(store).await;
    let (consumer, _) = shop.scripted(settings("41"), [Does::Fails("no stock"), Does::Panics]);
    assert!(is_again(&consumer.handle(message("evt-1", "a")).await));
    assert!(is_again(&consumer.handle(message("evt-1", "a")).await));
    assert!(shop.effects().await.is_empty());
    let entry = &shop.entries().await[0];
    assert_eq!((entry.state, entry.failures), (InboxState::Failing, 2));
    assert!(entry.reason.as_ref().unwrap().contains("panicked"), "{entry:?}");
    assert_eq!(consumer.handle(message("evt-1", "a")).await, DONE);
    assert_eq!(shop.effects().await, ["a"]);
}

async fn b87_a_message_that_was_put_off_or_comes_under_a_new_id_of_the_brokers_is_done_once(store: &Store) {
    let shop = Shop::open(store).await;
    let put_off = Does::Says(Handled::not_yet(Duration::from_secs(1)));
    let (consumer, _) = shop.scripted(settings("41"), [put_off]);
    let delivery = |of_broker: &str| {
        let headers = vec![(wire::MESSAGE_ID.to_owned(), "evt-1".to_owned())];
        Inbound { id: wire::id(&headers, Some(of_broker)), headers, ..message("x", "a") }
    };
    let again = Settle::Again { after: Duration::from_secs(1) };
    assert_eq!(consumer.receive(delivery("broker-1")).await, again);
    assert!(shop.effects().await.is_empty());
    assert!(shop.entries().await.is_empty(), "it is no failure");
    assert_eq!(consumer.receive(delivery("broker-2")).await, Settle::Acknowledge);
    assert_eq!(consumer.receive(delivery("broker-3")).await, Settle::Acknowledge);
    assert_eq!(shop.effects().await, ["a"]);
}

async fn a_refusal_is_final_keeps_its_reason_and_has_no_effect(store: &Store) {
    let shop = Shop::open(store).await;
    let refused = Does::Says(Handled::rejected("the account is closed"));
    let (consumer, _) = shop.scripted(settings("41"), [refused]);
    assert_eq!(consumer.handle(message("evt-1", "a")).await, Handling::Done(InboxState::Rejected));
    assert_eq!(consumer.handle(message("evt-1", "a")).await, Handling::Duplicate);
    assert!(shop.effects().await.is_empty());
    let entry = &shop.entries().await[0];
    assert_eq!((entry.state, entry.kept), (InboxState::Rejected, false));
    assert_eq!(entry.reason.as_deref(), Some("the account is closed"));
}

async fn where_content_is_the_id_one_content_has_one_effect(store: &Store) {
    let shop = Shop::open(store).await;
    let from_content = InboxSettings { without_id: WithoutId::FromContent, ..settings("41") };
    let (consumer, _) = shop.scripted(from_content, []);
    assert_eq!(consumer.handle(nameless("a")).await, DONE);
    assert_eq!(consumer.handle(nameless("a")).await, Handling::Duplicate);
    assert_eq!(consumer.handle(nameless("b")).await, DONE);
    assert_eq!(consumer.handle(Inbound { source: "other".into(), ..nameless("a") }).await, DONE);
    assert_eq!(shop.effects().await, ["a", "b", "a"]);
}

async fn a_dropped_delivery_commits_whole_or_nothing_and_holds_up_nobody(store: &Store) {
    let shop = Shop::open(store).await;
    let consumer = shop.consumer("41");
    for n in 0..50 {
        let id = format!("evt-{n}");
        let dropped = tokio::time::timeout(Duration::from_micros(20 * n), consumer.handle(message(&id, &id)));
        let _ = dropped.await;
        assert!(!is_again(&consumer.handle(message(&id, &id)).await));
    }
    assert_eq!(shop.effects().await.len(), 50);
}

#[tokio::test]
async fn of_one_message_a_single_delivery_goes_to_the_database_at_a_time() {
    let store = Store::sqlite();
    let shop = Shop::open(&store).await;
    let consumer = shop.consumer("41");
    let lock = shop.lock();
    let deliver = |id: &'static str| {
        let consumer = consumer.clone();
        tokio::spawn(async move { consumer.handle(message(id, "a")).await })
    };
    let deliveries: Vec<_> = ["evt-1"; 10].into_iter().chain(["evt-2"]).map(deliver).collect();
    // Each has come as far as it can.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(shop.sqlite().stats().waiting, 2, "one of each message");
    drop(lock);
    for delivery in deliveries {
        assert!(!is_again(&delivery.await.unwrap()));
    }
    assert_eq!(shop.effects().await.len(), 2);
}
