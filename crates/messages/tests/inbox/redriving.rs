//! Many dead letters redriven at once, by a person who presses three times, the first time in vain half of the way.

use onefold_core::{InboxState, OutboxState};
use onefold_messages::{ActOnOutgoing, Acted, Handling, Message, Which};
use onefold_store::{IfLost, InboxQuery, Redrive, Sent, Settlement, Take};
use onefold_testkit::{Store, on_each_store, wait};

use crate::rig::{DAY, Does, Shop, key, message, settings};

on_each_store!(
    b112_a_redrive_of_the_inbox_pressed_three_times_handles_each_message_once,
    b112_a_redrive_of_the_outbox_pressed_three_times_sends_each_message_once,
);

const ALL: usize = 100;
/// After so many the first press dies.
const DIES_AFTER: usize = 40;

/// New ones, and those that had gone on before.
fn counts(acted: &Acted) -> (usize, usize) {
    (acted.done.len(), acted.passed_over.len())
}

async fn b112_a_redrive_of_the_inbox_pressed_three_times_handles_each_message_once(store: &Store) {
    let shop = Shop::open(store).await;
    let mut park_at_once = settings("41");
    park_at_once.park_after = Some(1);
    let (consumer, _) = shop.scripted(park_at_once, (0..ALL).map(|_| Does::Fails("no stock")));
    for n in 0..ALL {
        let id = format!("evt-{n}");
        assert_eq!(consumer.handle(message(&id, &id)).await, Handling::Parked);
    }
    let parked = InboxQuery { state: Some(InboxState::Parked), ..InboxQuery::default() };
    let seen: Vec<_> = shop.listed(parked).await.iter().map(|entry| entry.id).collect();
    assert_eq!(seen.len(), ALL);
    let people = shop.people();
    let press = async |some: &[_]| counts(&people.unpark(some, "ann", "mended").await.unwrap());
    assert_eq!(press(&seen[..DIES_AFTER]).await, (40, 0));
    assert_eq!(press(&seen).await, (60, 40));
    assert_eq!(press(&seen).await, (0, 100));
    wait::until_within(wait::DEADLINE, "all are handled", async || shop.effects().await.len() == ALL).await;
    assert_eq!(press(&seen).await, (0, 100));
    let mut effects = shop.effects().await;
    effects.sort();
    effects.dedup();
    assert_eq!(effects.len(), ALL, "each once");
}

async fn b112_a_redrive_of_the_outbox_pressed_three_times_sends_each_message_once(store: &Store) {
    let shop = Shop::open(store).await;
    let store = &shop.store;
    let ids: Vec<_> = (0..ALL).map(|n| key(&format!("m-{n}"))).collect();
    let messages = ids.iter().map(|id| Message {
        id: id.clone(),
        destination: "shop".into(),
        address: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: Vec::new(),
    });
    store.enqueue(messages.collect()).await.unwrap();
    let take = async || {
        let take = Take {
            destination: "shop".into(),
            limit: 1000,
            bytes: u64::MAX,
            lease: DAY,
            if_lost: IfLost::SendAgain,
        };
        store.take(take).await.unwrap()
    };
    assert_eq!(take().await.len(), ALL);
    let dead = |id: &onefold_core::Key| Settlement {
        id: id.clone(),
        attempt: 1,
        sent: Sent::Dead { reason: "no".into() },
    };
    let settled = store.settle_sent(ids.iter().map(dead).collect()).await.unwrap();
    assert!(settled.into_iter().all(|ours| ours));
    let people = shop.people();
    let press = async |which: Which| {
        let act = ActOnOutgoing {
            which,
            seen_attempt: None,
            redrive: Redrive::SendAgain,
            per_second: None,
            who: "ann".into(),
            reason: "mended".into(),
        };
        counts(&people.act_on_outgoing(act).await.unwrap())
    };
    assert_eq!(press(Which::Ids(ids[..DIES_AFTER].to_vec())).await, (40, 0));
    assert_eq!(press(Which::Ids(ids.clone())).await, (60, 40));
    assert_eq!(take().await.len(), ALL, "each once");
    assert_eq!(press(Which::Ids(ids)).await, (0, 100), "also while they are sent");
    let all = Which::All { destination: "shop".into(), state: OutboxState::Dead, ordering_key: None };
    assert_eq!(press(all).await, (0, 0));
    assert!(take().await.is_empty());
}
