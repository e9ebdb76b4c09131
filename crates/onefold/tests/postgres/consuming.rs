//! Messages on their way in, as a service on PostgreSQL handles them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use onefold::inbox::{Handled, Handling, Inbound, InboxQuery, InboxSettings, InboxState, Incoming};
use onefold::messages::{Message, OutboxStore};
use onefold::postgres::PostgresTx;
use onefold::{Applied, Key};
use onefold_testkit::wait;

use crate::shop::Shop;

const DONE: Handling = Handling::Done(InboxState::Processed);

fn mail() -> Message {
    Message {
        id: Key::new("mail").unwrap(),
        destination: "mail".into(),
        address: "ann@example.org".into(),
        ordering_key: None,
        headers: Vec::new(),
        body: b"Thank you.".to_vec(),
    }
}

#[tokio::test]
async fn deliveries_at_one_time_have_one_effect_and_two_events_one_message() {
    let Some(shop) = Shop::open().await else { return };
    let handler = async move |tx: &mut PostgresTx, message: Arc<Incoming>| {
        tx.execute("INSERT INTO orders (sku) VALUES ($1)", &[&message.id.as_str()]).await?;
        if tx.apply_if_newer("order-5001", 1).await? == Applied::Newer {
            assert!(tx.effect("order-5001/PLACED").await?);
        }
        tx.enqueue_once("order-5001/CONFIRMED", mail()).await?;
        Ok(Handled::Done)
    };
    let consumer = shop.onefold.inbox("orders").consumer(handler);
    let deliveries = (0..24).map(|n| {
        let consumer = consumer.clone();
        let message = Inbound::new("shop", if n % 2 == 0 { "evt-1" } else { "evt-2" }, "lamp");
        tokio::spawn(async move { consumer.handle(message).await })
    });
    let mut done = 0;
    for delivery in deliveries.collect::<Vec<_>>() {
        match delivery.await.unwrap() {
            DONE => done += 1,
            other => assert_eq!(other, Handling::Duplicate),
        }
    }
    assert_eq!((done, shop.count("orders").await), (2, 2));
    let waiting = shop.onefold.store().survey_outbox().await.unwrap();
    assert_eq!(waiting.iter().map(|of| of.depth).sum::<u64>(), 1);
}

#[tokio::test]
async fn what_fails_is_parked_and_handled_once_when_a_person_lets_it_go_on() {
    let Some(shop) = Shop::open().await else { return };
    let mended = Arc::new(AtomicBool::new(false));
    let settings = InboxSettings { park_after: Some(2), ..InboxSettings::new("orders") };
    let told = mended.clone();
    let handler = async move |tx: &mut PostgresTx, message: Arc<Incoming>| {
        tx.execute("INSERT INTO orders (sku) VALUES ($1)", &[&message.id.as_str()]).await?;
        if message.id.as_str() == "refused" {
            return Ok(Handled::rejected("the account is closed"));
        }
        if told.load(Ordering::Relaxed) { Ok(Handled::Done) } else { Err("no stock".into()) }
    };
    let consumer = shop.onefold.inbox(settings).consumer(handler);
    let message = || Inbound::new("shop", "evt-1", "lamp");
    assert!(matches!(consumer.handle(message()).await, Handling::Again { .. }));
    assert_eq!(consumer.handle(message()).await, Handling::Parked);
    let refused = consumer.handle(Inbound::new("shop", "refused", "lamp")).await;
    assert_eq!((refused, shop.count("orders").await), (Handling::Done(InboxState::Rejected), 0));
    let people = shop.onefold.messages();
    let query = InboxQuery { limit: 9, ..InboxQuery::default() };
    let entries = people.list_incoming(query).await.unwrap().entries;
    let reasons: Vec<_> = entries.iter().map(|entry| entry.reason.as_deref().unwrap_or_default()).collect();
    assert_eq!(reasons, ["no stock", "the account is closed"]);
    mended.store(true, Ordering::Relaxed);
    for (done, passed_over) in [(1, 0), (0, 1)] {
        let acted = people.unpark(&[entries[0].id], "ann", "mended").await.unwrap();
        assert_eq!((acted.done.len(), acted.passed_over.len()), (done, passed_over));
    }
    wait::until_within(Duration::from_secs(20), "it is handled", async || shop.count("orders").await == 1)
        .await;
    assert_eq!(consumer.handle(message()).await, Handling::Duplicate);
}
