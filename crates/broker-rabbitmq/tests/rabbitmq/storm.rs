//! Every message several times and in any order, over consumers that are killed every second.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel};
use onefold_broker_rabbitmq::{Kind, Subscription};
use onefold_messages::Order;
use onefold_testkit::{RabbitServer, wait};

use crate::ledger::Ledger;
use crate::rig::{Watcher, consume, name};

const KEYS: usize = 10;

/// The full number is 10 000 (`ONEFOLD_STORM=10000`).
fn count() -> usize {
    std::env::var("ONEFOLD_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

#[tokio::test]
async fn a_storm_over_a_quorum_queue_is_done_once_and_in_order() {
    storm(Kind::Quorum, count()).await;
}

#[tokio::test]
async fn a_storm_over_a_classic_queue_is_done_once_and_in_order() {
    storm(Kind::Classic, count()).await;
}

async fn storm(kind: Kind, count: usize) {
    let Some(server) = RabbitServer::any("RabbitMQ storm") else { return };
    let watcher = Watcher::of(&server).await;
    let wish = Subscription { kind, order: Order::PerKey, ..Subscription::new(&name()) };
    let ledger = Arc::new(Ledger { uneven: Duration::from_millis(10), ..Ledger::default() });
    // One works and one stands by, and each second the older one is killed.
    let mut older = consume(server.url(), wish.clone(), &ledger);
    watcher.until(&wish.queue, "the queue is there", |_, consumers| consumers == 1).await;
    let copies = copies(count);
    publish(&watcher.channel().await, &wish.queue, &copies).await;
    let mut newer = consume(server.url(), wish.clone(), &ledger);
    let mut kills = 0;
    wait::until_within(Duration::from_secs(600), "all are done", async || {
        wait::pass_time(Duration::from_secs(1), "consumers are killed every second").await;
        let next = std::mem::replace(&mut newer, consume(server.url(), wish.clone(), &ledger));
        std::mem::replace(&mut older, next).kill();
        kills += 1;
        ledger.effects().len() == count && watcher.look(&wish.queue).await.is_some_and(|(left, _)| left == 0)
    })
    .await;
    wait::until_within(Duration::from_secs(600), "every copy was settled", async || {
        ledger.effects().len() + ledger.duplicates() >= copies.len()
    })
    .await;
    older.stop().await;
    newer.stop().await;
    watcher.is_empty(&wish.queue).await;
    let effects: Vec<usize> = ledger.effects().iter().map(|body| body.parse().unwrap()).collect();
    assert_eq!(effects.len(), count, "one effect for each message");
    for key in 0..KEYS {
        let of_key: Vec<usize> = effects.iter().copied().filter(|number| number % KEYS == key).collect();
        assert!(of_key.is_sorted(), "the order of key {key} is kept");
    }
    let duplicates = ledger.duplicates();
    assert!(duplicates >= copies.len() - count, "every copy was delivered");
    println!("{kind:?}: {count} messages, {} sent, {duplicates} duplicates, {kills} kills", copies.len());
}

/// Shuffled: each copy stands at a random place behind the first one, and the first ones keep their order.
fn copies(count: usize) -> Vec<usize> {
    let mut copies: Vec<(f64, usize)> = Vec::new();
    for number in 0..count {
        copies.push((number as f64, number));
        for _ in 0..rand::random_range(0..5) {
            copies.push((rand::random_range(number as f64..(count + 1) as f64), number));
        }
    }
    copies.sort_by(|one, other| one.0.total_cmp(&other.0));
    copies.into_iter().map(|(_, number)| number).collect()
}

async fn publish(channel: &Channel, queue: &str, copies: &[usize]) {
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    for batch in copies.chunks(100) {
        let mut confirmations = Vec::new();
        for number in batch {
            let (id, key) = (number.to_string(), (number % KEYS).to_string());
            let mut headers = FieldTable::default();
            headers.insert("onefold-message-id".into(), AMQPValue::LongString(id.as_str().into()));
            headers.insert("onefold-ordering-key".into(), AMQPValue::LongString(key.into()));
            let properties = BasicProperties::default().with_headers(headers).with_delivery_mode(2);
            let options = BasicPublishOptions::default();
            let sent = channel.basic_publish("".into(), queue.into(), options, id.as_bytes(), properties);
            confirmations.push(sent.await.unwrap());
        }
        for confirmation in confirmations {
            assert!(confirmation.await.unwrap().is_ack());
        }
    }
}
