//! The consumer.

use std::sync::Arc;
use std::time::Duration;

use onefold_broker_kafka::Subscription;
use onefold_messages::Order;
use onefold_storm::Ledger;
use onefold_testkit::wait;

use crate::rig::{Cluster, Kind, PATIENCE, on_each};

on_each!(
    no_offset_is_committed_before_its_effect_and_all_before_it,
    what_a_killed_consumer_had_comes_again_before_what_is_behind_it,
    a_message_that_is_given_up_frees_its_key_and_its_offset,
    a_consumer_with_fewer_places_than_messages_loses_none,
    a_second_consumer_shares_the_partitions_while_the_first_has_no_place,
);

const THREE: [&str; 3] = ["first", "second", "third"];

fn ordered(cluster: &Cluster) -> Subscription {
    Subscription { order: Order::PerKey, ..cluster.subscription() }
}

async fn until_committed(cluster: &Cluster, offset: i64) {
    wait::until_within(PATIENCE, "it is committed", async || cluster.committed(0).await == Some(offset))
        .await;
}

async fn no_offset_is_committed_before_its_effect_and_all_before_it(kind: Kind) {
    let Some(cluster) = kind.cluster("offsets", 1).await else { return };
    cluster.fill(&THREE, Some("a")).await;
    let ledger = Arc::new(Ledger { work: Duration::from_millis(50), ..Ledger::default() });
    ledger.refusals.lock().unwrap().insert("first".into(), 40);
    let consumer = cluster.consume(cluster.subscription(), &ledger);
    wait::until_within(PATIENCE, "those behind it are done", async || ledger.effects().len() == 2).await;
    // Far longer than it takes to commit.
    wait::pass_time(Duration::from_secs(2), "a wrong offset would be committed by now").await;
    assert!(matches!(cluster.committed(0).await, None | Some(0)));
    assert_eq!(ledger.effects().len(), 2, "the first one still fails");
    until_committed(&cluster, 3).await;
    assert_eq!(ledger.effects().len(), 3);
    consumer.stop().await;
}

async fn what_a_killed_consumer_had_comes_again_before_what_is_behind_it(kind: Kind) {
    let Some(cluster) = kind.cluster("killed consumers", 1).await else { return };
    cluster.fill(&THREE, Some("a")).await;
    let stuck = Arc::new(Ledger::stuck());
    let first = cluster.consume(ordered(&cluster), &stuck);
    wait::until_within(PATIENCE, "it is handled", async || stuck.handed() == 1).await;
    first.kill();
    let ledger = Arc::new(Ledger::default());
    ledger.refusals.lock().unwrap().insert("first".into(), 2);
    let second = cluster.consume(ordered(&cluster), &ledger);
    wait::until_within(PATIENCE, "all are done", async || ledger.effects().len() == 3).await;
    assert_eq!(ledger.effects(), THREE);
    second.stop().await;
    assert_eq!(cluster.committed(0).await, Some(3), "a consumer that stops commits");
}

async fn a_message_that_is_given_up_frees_its_key_and_its_offset(kind: Kind) {
    let Some(cluster) = kind.cluster("poison", 1).await else { return };
    cluster.fill(&["first", "poison", "third"], Some("a")).await;
    let ledger = Arc::new(Ledger { poison: ["poison".to_owned()].into(), ..Ledger::default() });
    ledger.refusals.lock().unwrap().insert("poison".into(), 3);
    let consumer = cluster.consume(ordered(&cluster), &ledger);
    wait::until_within(PATIENCE, "the one behind it is done", async || {
        ledger.effects() == ["first", "third"]
    })
    .await;
    assert_eq!((ledger.done.lock().unwrap().parked, ledger.handed()), (1, 6));
    until_committed(&cluster, 3).await;
    consumer.stop().await;
}

async fn a_consumer_with_fewer_places_than_messages_loses_none(kind: Kind) {
    let Some(cluster) = kind.cluster("few places", 3).await else { return };
    let bodies: Vec<String> = (0..30).map(|number| number.to_string()).collect();
    cluster.fill(&bodies.iter().map(String::as_str).collect::<Vec<_>>(), None).await;
    // Longer than it takes until the flow is stopped.
    let ledger = Arc::new(Ledger { work: Duration::from_millis(1500), ..Ledger::default() });
    let wish = Subscription { in_flight: 5, ..cluster.subscription() };
    let consumer = cluster.consume(wish, &ledger);
    wait::until_within(PATIENCE, "all are done", async || ledger.effects().len() == 30).await;
    consumer.stop().await;
    assert_eq!(ledger.duplicates(), 0);
}

async fn a_second_consumer_shares_the_partitions_while_the_first_has_no_place(kind: Kind) {
    let Some(cluster) = kind.cluster("sharing out", 4).await else { return };
    let bodies: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    cluster.fill(&bodies.iter().map(String::as_str).collect::<Vec<_>>(), None).await;
    let stuck = Arc::new(Ledger::stuck());
    let wish = Subscription { in_flight: 1, grace: Duration::from_millis(100), ..cluster.subscription() };
    let first = cluster.consume(wish, &stuck);
    wait::until_within(PATIENCE, "it is handled", async || stuck.handed() == 1).await;
    let ledger = Arc::new(Ledger::default());
    let second = cluster.consume(cluster.subscription(), &ledger);
    wait::until_within(PATIENCE, "the second has a share", async || !ledger.effects().is_empty()).await;
    wait::until_within(PATIENCE, "the first begins with its own", async || stuck.handed() == 2).await;
    first.kill();
    wait::until_within(PATIENCE, "the second has all", async || ledger.effects().len() == 20).await;
    second.stop().await;
}
