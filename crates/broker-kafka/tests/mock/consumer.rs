//! The consumer.

use std::sync::Arc;
use std::time::Duration;

use onefold_broker_kafka::Subscription;
use onefold_messages::Order;
use onefold_testkit::wait;

use crate::rig::{GROUP, Mock, PATIENCE, TOPIC, accepted, committed, consume, message, mock, sink};
use onefold_storm::Ledger;

fn ordered() -> Subscription {
    Subscription { order: Order::PerKey, ..Subscription::new(TOPIC, GROUP) }
}

/// The bodies under one key, in this order.
async fn filled(partitions: i32, bodies: &[&str]) -> Mock {
    let mock = mock(partitions);
    let sink = sink(&mock);
    for body in bodies {
        accepted(&sink, message(body, Some("a"), body)).await;
    }
    mock
}

async fn until_committed(mock: &Mock, offset: i64) {
    wait::until_within(PATIENCE, "it is committed", async || committed(mock, 0).await == Some(offset)).await;
}

#[tokio::test]
async fn no_offset_is_committed_to_the_mock_before_its_effect_and_all_before_it() {
    let mock = filled(1, &["first", "second", "third"]).await;
    let ledger = Arc::new(Ledger { work: Duration::from_millis(50), ..Ledger::default() });
    ledger.refusals.lock().unwrap().insert("first".into(), 40);
    let consumer = consume(&mock, Subscription::new(TOPIC, GROUP), &ledger);
    wait::until_within(PATIENCE, "those behind it are done", async || ledger.effects().len() == 2).await;
    // Twice as long as it takes to commit.
    wait::pass_time(Duration::from_secs(2), "a wrong offset would be committed by now").await;
    assert!(matches!(committed(&mock, 0).await, None | Some(0)));
    assert_eq!(ledger.effects().len(), 2, "the first one still fails");
    until_committed(&mock, 3).await;
    assert_eq!(ledger.effects().len(), 3);
    consumer.stop().await;
}

#[tokio::test]
async fn what_a_killed_consumer_had_comes_again_before_what_is_behind_it_over_the_mock() {
    let mock = filled(1, &["first", "second", "third"]).await;
    let stuck = Arc::new(Ledger::stuck());
    let first = consume(&mock, ordered(), &stuck);
    wait::until_within(PATIENCE, "it is handled", async || stuck.handed() == 1).await;
    first.kill();
    let ledger = Arc::new(Ledger::default());
    ledger.refusals.lock().unwrap().insert("first".into(), 2);
    let second = consume(&mock, ordered(), &ledger);
    wait::until_within(PATIENCE, "all are done", async || ledger.effects().len() == 3).await;
    assert_eq!(ledger.effects(), ["first", "second", "third"]);
    second.stop().await;
    assert_eq!(committed(&mock, 0).await, Some(3), "a consumer that stops commits");
}

#[tokio::test]
async fn a_message_that_is_given_up_frees_its_key_and_its_offset_over_the_mock() {
    let mock = filled(1, &["first", "poison", "third"]).await;
    let ledger = Arc::new(Ledger { poison: ["poison".to_owned()].into(), ..Ledger::default() });
    ledger.refusals.lock().unwrap().insert("poison".into(), 3);
    let consumer = consume(&mock, ordered(), &ledger);
    wait::until_within(PATIENCE, "the one behind it is done", async || {
        ledger.effects() == ["first", "third"]
    })
    .await;
    assert_eq!((ledger.done.lock().unwrap().parked, ledger.handed()), (1, 6));
    until_committed(&mock, 3).await;
    consumer.stop().await;
}

#[tokio::test]
async fn a_consumer_with_fewer_places_than_messages_loses_none_over_the_mock() {
    let bodies: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let mock = filled(3, &bodies).await;
    // Longer than it takes until the flow is stopped.
    let ledger = Arc::new(Ledger { work: Duration::from_millis(1500), ..Ledger::default() });
    let wish = Subscription { in_flight: 5, ..Subscription::new(TOPIC, GROUP) };
    let consumer = consume(&mock, wish, &ledger);
    wait::until_within(PATIENCE, "all are done", async || ledger.effects().len() == 30).await;
    consumer.stop().await;
    assert_eq!(ledger.duplicates(), 0);
}

#[tokio::test]
async fn a_second_consumer_shares_the_partitions_while_the_first_has_no_place_over_the_mock() {
    let mock = mock(4);
    let sink = sink(&mock);
    let fill = async |range: std::ops::Range<u32>| {
        for number in range {
            let text = number.to_string();
            accepted(&sink, message(&text, Some(&text), &text)).await;
        }
    };
    fill(0..20).await;
    let stuck = Arc::new(Ledger::stuck());
    let wish =
        Subscription { in_flight: 1, grace: Duration::from_millis(100), ..Subscription::new(TOPIC, GROUP) };
    let first = consume(&mock, wish, &stuck);
    wait::until_within(PATIENCE, "it is handled", async || stuck.handed() == 1).await;
    let ledger = Arc::new(Ledger::default());
    let second = consume(&mock, Subscription::new(TOPIC, GROUP), &ledger);
    wait::until_within(PATIENCE, "the second has a share", async || !ledger.effects().is_empty()).await;
    wait::until_within(PATIENCE, "the first begins with its own", async || stuck.handed() == 2).await;
    first.kill();
    wait::until_within(PATIENCE, "the second has all", async || ledger.effects().len() == 20).await;
    second.stop().await;
}
