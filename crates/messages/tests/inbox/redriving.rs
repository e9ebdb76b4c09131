//! Many dead letters redriven at once, by a person who presses twice.

use std::time::Duration;

use onefold_core::{InboxState, OutboxState};
use onefold_messages::{Handling, Message, Redriven, redrive_inbox, redrive_outbox};
use onefold_store::{IfLost, InboxQuery, OutboxQuery, OutboxStore, Sent, Settlement, Take};

use crate::rig::{DAY, Does, Shop, key, message, settings};

const ONE_HUNDRED: usize = 100;
/// After so many the first press dies.
const KILLED_AFTER: usize = 40;

fn found(new: u64, already: u64) -> Redriven {
    Redriven { new, already }
}

#[tokio::test]
async fn b112_a_redrive_of_the_inbox_pressed_three_times_handles_each_message_once() {
    let shop = Shop::open();
    let mut park_at_once = settings("41");
    park_at_once.park_after = Some(1);
    let fails = (0..ONE_HUNDRED).map(|_| Does::Fails("no stock"));
    let (consumer, _) = shop.scripted(park_at_once, fails);
    for n in 0..ONE_HUNDRED {
        let id = format!("evt-{n}");
        assert_eq!(consumer.handle(message(&id, &id)).await, Handling::Parked);
    }
    let parked = InboxQuery { state: Some(InboxState::Parked), ..InboxQuery::default() };
    let seen: Vec<_> = shop.listed(parked).await.iter().map(|entry| (entry.id, entry.round)).collect();
    assert_eq!(seen.len(), ONE_HUNDRED);
    let first = redrive_inbox(&*shop.store, &seen[..KILLED_AFTER], "ann", "mended").await.unwrap();
    assert_eq!(first, found(40, 0));
    let press = async || redrive_inbox(&*shop.store, &seen, "ann", "mended").await.unwrap();
    assert_eq!(press().await, found(60, 40));
    assert_eq!(press().await, found(0, 100));
    onefold_testkit::wait::until("all are handled", || shop.effects().len() == ONE_HUNDRED).await;
    assert_eq!(press().await, found(0, 100));
    let mut effects = shop.effects();
    effects.sort();
    effects.dedup();
    assert_eq!(effects.len(), ONE_HUNDRED, "each once");
}

#[tokio::test]
async fn b112_a_redrive_of_the_outbox_pressed_three_times_sends_each_message_once() {
    let shop = Shop::open();
    let store = &shop.store;
    let messages = (0..ONE_HUNDRED).map(|n| Message {
        id: key(&format!("m-{n}")),
        destination: "shop".into(),
        address: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: Vec::new(),
    });
    store.enqueue(messages.collect()).await.unwrap();
    let take = Take { destination: "shop".into(), limit: 1000, lease: DAY, if_lost: IfLost::SendAgain };
    let taken = store.take(take.clone()).await.unwrap();
    let dead = |id| Settlement { id, attempt: 1, sent: Sent::Dead { reason: "no".into() } };
    let settlements = taken.into_iter().map(|taken| dead(taken.message.id)).collect();
    assert!(store.settle_sent(settlements).await.unwrap().into_iter().all(|ours| ours));
    let query = OutboxQuery { state: Some(OutboxState::Dead), limit: 1000, ..OutboxQuery::default() };
    let seen: Vec<_> = store
        .list_outbox(query)
        .await
        .unwrap()
        .entries
        .into_iter()
        .map(|e| (e.message.id, e.attempt))
        .collect();
    assert_eq!(seen.len(), ONE_HUNDRED);
    let pace = Duration::from_secs(1);
    let first = redrive_outbox(&**store, &seen[..KILLED_AFTER], pace, "ann", "mended").await.unwrap();
    assert_eq!(first, found(40, 0));
    let press = async || redrive_outbox(&**store, &seen, pace, "ann", "mended").await.unwrap();
    assert_eq!(press().await, found(60, 40));
    assert_eq!(press().await, found(0, 100));
    assert_eq!(store.take(take.clone()).await.unwrap().len(), 2, "paced: one of each press at once");
    shop.clock.pass(Duration::from_secs(60));
    assert_eq!(store.take(take.clone()).await.unwrap().len(), 98);
    assert_eq!(press().await, found(0, 100));
    assert!(store.take(take).await.unwrap().is_empty());
}
