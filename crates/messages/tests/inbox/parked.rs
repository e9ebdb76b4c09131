//! What reaches the dead list, and what its way out is.

use onefold_core::{InboxEntry, InboxState};
use onefold_messages::{Handled, Handling, Inbound};
use onefold_store::{InboxQuery, KeptMessage};
use onefold_testkit::{Store, on_each_store, wait};

use crate::rig::{DAY, Does, START, Shop, is_again, key, message, nameless, settings};

on_each_store!(
    poison_is_parked_with_its_body_and_comes_back_by_a_person_alone,
    a_redriven_message_that_fails_is_parked_again_after_one_try,
    what_was_redriven_while_no_consumer_ran_is_handled_by_the_next_one,
    a_kept_body_that_cannot_be_read_holds_up_no_other_message,
    a_message_that_fails_is_left_to_whoever_delivers_it,
    another_message_under_a_known_id_is_kept_apart_and_reaches_no_handler,
    a_message_without_an_id_is_parked_and_not_lost,
    what_is_kept_names_the_ordering_key_that_the_message_came_under,
    a_message_that_says_itself_that_it_is_older_than_the_marks_is_parked,
);

const DONE: Handling = Handling::Done(InboxState::Processed);

fn fails(times: usize) -> Vec<Does> {
    (0..times).map(|_| Does::Fails("no stock")).collect()
}

async fn parked(shop: &Shop) -> Vec<InboxEntry> {
    shop.listed(InboxQuery { state: Some(InboxState::Parked), ..InboxQuery::default() }).await
}

async fn redrive(shop: &Shop, entry: &InboxEntry) {
    let acted = shop.people().unpark(&[entry.id], "ann", "mended").await.unwrap();
    assert_eq!((acted.done.len(), acted.passed_over), (1, Vec::new()));
}

async fn poison_is_parked_with_its_body_and_comes_back_by_a_person_alone(store: &Store) {
    let shop = Shop::open(store).await;
    let (consumer, _) = shop.scripted(settings("41"), fails(3));
    assert!(is_again(&consumer.handle(message("evt-1", "a")).await));
    assert!(is_again(&consumer.handle(message("evt-1", "a")).await));
    assert_eq!(consumer.handle(message("evt-1", "a")).await, Handling::Parked);
    assert_eq!(consumer.handle(message("evt-1", "a")).await, Handling::Parked);
    assert_eq!(consumer.handle(message("evt-2", "b")).await, DONE);
    let entry = &parked(&shop).await[0];
    assert_eq!((entry.failures, entry.reason.as_deref()), (3, Some("no stock")));
    redrive(&shop, entry).await;
    shop.comes_to(&["b", "a"]).await;
    assert_eq!(consumer.handle(message("evt-1", "a")).await, Handling::Duplicate);
    assert_eq!(shop.effects().await, ["b", "a"]);
}

async fn a_redriven_message_that_fails_is_parked_again_after_one_try(store: &Store) {
    let shop = Shop::open(store).await;
    let (consumer, script) = shop.scripted(settings("41"), fails(4));
    while consumer.handle(message("evt-1", "a")).await != Handling::Parked {}
    redrive(&shop, &parked(&shop).await[0]).await;
    wait::until("it was tried", || script.lock().is_empty()).await;
    wait::until_within(wait::DEADLINE, "it is parked", async || parked(&shop).await.len() == 1).await;
    assert_eq!(parked(&shop).await[0].failures, 1);
    redrive(&shop, &parked(&shop).await[0]).await;
    shop.comes_to(&["a"]).await;
}

async fn what_was_redriven_while_no_consumer_ran_is_handled_by_the_next_one(store: &Store) {
    let shop = Shop::open(store).await;
    let (consumer, _) = shop.scripted(settings("41"), fails(3));
    while consumer.handle(message("evt-1", "a")).await != Handling::Parked {}
    drop(consumer);
    redrive(&shop, &parked(&shop).await[0]).await;
    let put_off = Does::Says(Handled::NotYet { after: None });
    let (_consumer, _) = shop.scripted(settings("42"), [put_off]);
    shop.comes_to(&["a"]).await;
    assert_eq!(shop.entries().await[0].handler, "42");
}

async fn a_kept_body_that_cannot_be_read_holds_up_no_other_message(store: &Store) {
    let shop = Shop::open(store).await;
    let (consumer, _) = shop.scripted(settings("41"), fails(6));
    for (id, body) in [("evt-1", "a"), ("evt-2", "b")] {
        while consumer.handle(message(id, body)).await != Handling::Parked {}
    }
    drop(consumer);
    shop.spoil("evt-1").await;
    for entry in parked(&shop).await {
        redrive(&shop, &entry).await;
    }
    let (_consumer, _) = shop.scripted(settings("42"), []);
    shop.comes_to(&["b"]).await;
}

async fn a_message_that_fails_is_left_to_whoever_delivers_it(store: &Store) {
    let shop = Shop::open(store).await;
    let mut loyalty = settings("41");
    loyalty.park_after = Some(2);
    let (consumer, _) = shop.scripted(loyalty, fails(3));
    assert!(is_again(&consumer.handle(message("evt-1", "a")).await));
    while consumer.handle(message("evt-2", "b")).await != Handling::Parked {}
    redrive(&shop, &parked(&shop).await[0]).await;
    // Had it taken the failing one too, it would have taken that first.
    shop.comes_to(&["b"]).await;
}

async fn another_message_under_a_known_id_is_kept_apart_and_reaches_no_handler(store: &Store) {
    let shop = Shop::open(store).await;
    let consumer = shop.consumer("41");
    assert_eq!(consumer.handle(message("evt-1", "a")).await, DONE);
    for _ in 0..2 {
        assert_eq!(consumer.handle(message("evt-1", "b")).await, Handling::Conflict);
    }
    assert_eq!(shop.effects().await, ["a"]);
    consumer.flush().await;
    let entries = shop.entries().await;
    assert_eq!((entries.len(), entries[0].conflicts, entries[0].state), (2, 2, InboxState::Processed));
    let kept = shop.store.kept_message(entries[1].id, 0).await.unwrap();
    let headers = vec![("onefold-message-id".to_owned(), "evt-1".to_owned())];
    assert_eq!(kept, Some(KeptMessage { headers, body: b"b".to_vec() }));
    redrive(&shop, &entries[1]).await;
    shop.comes_to(&["a", "b"]).await;
    assert_eq!(consumer.handle(message("evt-1", "b")).await, Handling::Duplicate);
    assert_eq!(consumer.handle(message("evt-1", "a")).await, Handling::Duplicate);
}

async fn what_is_kept_names_the_ordering_key_that_the_message_came_under(store: &Store) {
    let shop = Shop::open(store).await;
    let (consumer, _) = shop.scripted(settings("41"), fails(3));
    // Nor does the sender write a version: that is what its contract says.
    let another = [("Onefold-Ordering-Key", "order-2"), ("Onefold-Version", "9")];
    let another = another.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let said = || Inbound {
        ordering_key: Some("order-1".into()),
        headers: another.clone(),
        ..message("evt-1", "a")
    };
    while consumer.handle(said()).await != Handling::Parked {}
    let kept = shop.store.kept_message(parked(&shop).await[0].id, 0).await.unwrap().expect("it is kept");
    let ours = ["onefold-ordering-key", "onefold-version"];
    let said = |(name, _): &&(String, String)| ours.iter().any(|ours| name.eq_ignore_ascii_case(ours));
    let said: Vec<&str> = kept.headers.iter().filter(said).map(|(_, value)| value.as_str()).collect();
    assert_eq!(said, ["order-1"]);
}

async fn a_message_without_an_id_is_parked_and_not_lost(store: &Store) {
    let shop = Shop::open(store).await;
    let consumer = shop.consumer("41");
    assert_eq!(consumer.handle(nameless("a")).await, Handling::Parked);
    assert!(shop.effects().await.is_empty());
    redrive(&shop, &parked(&shop).await[0]).await;
    shop.comes_to(&["a"]).await;
}

async fn a_message_that_says_itself_that_it_is_older_than_the_marks_is_parked(store: &Store) {
    let shop = Shop::open(store).await;
    let consumer = shop.consumer("41");
    let at = |ms: i64| format!("{:08x}-{:04x}-7000-8000-000000000000", ms >> 16, ms & 0xffff);
    let days = |n: i64| n * 24 * 3600 * 1000;
    assert_eq!(consumer.handle(message(&at(START - days(7)), "old")).await, Handling::Parked);
    assert_eq!(consumer.handle(message(&at(START - days(6)), "young")).await, DONE);
    assert_eq!(shop.effects().await, ["young"]);
    shop.clock.pass(8 * DAY);
    assert_eq!(shop.store.sweep_inbox(100).await.unwrap(), 1);
    assert_eq!(consumer.handle(message(&at(START - days(6)), "young")).await, Handling::Parked);
    let entries = parked(&shop).await;
    assert_eq!(entries[0].identity.message, key(&at(START - days(7))));
    redrive(&shop, &entries[0]).await;
    shop.comes_to(&["young", "old"]).await;
}
