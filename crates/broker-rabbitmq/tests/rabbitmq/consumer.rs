//! The consumer.

use std::sync::Arc;
use std::time::Duration;

use onefold_broker_rabbitmq::{ConsumeError, Kind, Subscription};
use onefold_messages::Order;
use onefold_testkit::{RabbitServer, wait};

use crate::proxy::{Proxy, Swallow};
use crate::rig::{PATIENCE, Watcher, accepted, consume, message, name, sink};
use onefold_storm::Ledger;

fn ordered(queue: &str, kind: Kind) -> Subscription {
    Subscription { kind, order: Order::PerKey, ..Subscription::new(queue) }
}

/// The bodies under one key, in this order, in a queue that is made by a consumer that goes at once.
async fn filled(server: &RabbitServer, wish: &Subscription, bodies: &[&str]) -> Watcher {
    let watcher = Watcher::of(server).await;
    let maker = consume(server.url(), wish.clone(), &Arc::new(Ledger::default()));
    watcher.until(&wish.queue, "the queue is there", |_, consumers| consumers == 1).await;
    maker.stop().await;
    let sink = sink(server.url());
    for body in bodies {
        accepted(&sink, message(&wish.queue, body, Some("a"), body)).await;
    }
    watcher
}

/// The second of two consumers is one by now.
async fn stands_by(watcher: &Watcher, wish: &Subscription) {
    match wish.kind {
        Kind::Classic => watcher.until(&wish.queue, "two consume", |_, consumers| consumers == 2).await,
        // A quorum queue counts the active one alone.
        Kind::Quorum => wait::pass_time(Duration::from_millis(500), "nothing shows who stands by").await,
    }
}

#[tokio::test]
async fn what_a_killed_consumer_had_comes_again_before_what_is_behind_it() {
    let Some(server) = RabbitServer::any("RabbitMQ consumer killed") else { return };
    for kind in [Kind::Classic, Kind::Quorum] {
        let wish = Subscription { in_flight: 2, ..ordered(&name(), kind) };
        let watcher = filled(&server, &wish, &["first", "second", "third"]).await;
        let stuck = Arc::new(Ledger::stuck());
        let first = consume(server.url(), wish.clone(), &stuck);
        watcher.until(&wish.queue, "two are out", |waiting, _| waiting == 1).await;
        // It stands by.
        let ledger = Arc::new(Ledger::default());
        ledger.refusals.lock().unwrap().insert("first".into(), 2);
        let second = consume(server.url(), wish.clone(), &ledger);
        stands_by(&watcher, &wish).await;
        assert_eq!((stuck.handed(), ledger.handed()), (1, 0), "one of a key at a time, by one consumer");
        first.kill();
        wait::until("all are done", || ledger.effects().len() == 3).await;
        assert_eq!(ledger.effects(), ["first", "second", "third"], "{kind:?}");
        second.stop().await;
        watcher.is_empty(&wish.queue).await;
    }
}

#[tokio::test]
async fn a_stopped_consumer_gives_back_what_it_holds_before_what_is_behind_it() {
    let Some(server) = RabbitServer::any("RabbitMQ consumer stopped") else { return };
    for kind in [Kind::Classic, Kind::Quorum] {
        let wish = Subscription { in_flight: 2, ..ordered(&name(), kind) };
        let watcher = filled(&server, &wish, &["first", "second", "third"]).await;
        let failing = Arc::new(Ledger::default());
        failing.refusals.lock().unwrap().insert("first".into(), u32::MAX);
        let first = consume(server.url(), wish.clone(), &failing);
        let ledger = Arc::new(Ledger::default());
        wait::until("it fails", || failing.handed() > 0).await;
        let second = consume(server.url(), wish.clone(), &ledger);
        stands_by(&watcher, &wish).await;
        first.stop().await;
        wait::until("all are done", || ledger.effects().len() == 3).await;
        assert_eq!(ledger.effects(), ["first", "second", "third"], "{kind:?}");
        assert!(failing.effects().is_empty());
        second.stop().await;
        watcher.is_empty(&wish.queue).await;
    }
}

/// Otherwise it would keep the queue for as long as its process lives.
#[tokio::test]
async fn a_consumer_that_is_stopped_before_it_knows_that_it_is_one_is_none() {
    let Some(server) = RabbitServer::any("RabbitMQ consumer stopped early") else { return };
    for kind in [Kind::Classic, Kind::Quorum] {
        let wish = ordered(&name(), kind);
        let watcher = filled(&server, &wish, &["one"]).await;
        let proxy = Proxy::start(server.url()).await;
        proxy.swallow(Swallow::ToClientOnceItConsumes);
        let first = consume(&proxy.url, wish.clone(), &Arc::new(Ledger::default()));
        watcher.until(&wish.queue, "it consumes", |_, consumers| consumers == 1).await;
        first.stop().await;
        let at_once = |waiting, consumers| (waiting, consumers) == (1, 0);
        watcher.until(&wish.queue, "it does no more", at_once).await;
        let ledger = Arc::new(Ledger::default());
        let second = consume(server.url(), wish.clone(), &ledger);
        wait::until("the next one has it", || ledger.effects() == ["one"]).await;
        second.stop().await;
        watcher.is_empty(&wish.queue).await;
    }
}

#[tokio::test]
async fn a_message_that_is_given_up_leaves_the_queue_and_frees_its_key() {
    let Some(server) = RabbitServer::any("RabbitMQ poison") else { return };
    let wish = ordered(&name(), Kind::Quorum);
    let watcher = filled(&server, &wish, &["first", "poison", "third"]).await;
    let ledger = Arc::new(Ledger { poison: ["poison".to_owned()].into(), ..Ledger::default() });
    ledger.refusals.lock().unwrap().insert("poison".into(), 3);
    let consumer = consume(server.url(), wish.clone(), &ledger);
    wait::until("the one behind it is done", || ledger.effects() == ["first", "third"]).await;
    assert_eq!((ledger.done.lock().unwrap().parked, ledger.handed()), (1, 6));
    consumer.stop().await;
    watcher.is_empty(&wish.queue).await;
}

#[tokio::test]
async fn an_acknowledgement_that_is_lost_is_one_more_delivery_and_no_second_effect() {
    let Some(server) = RabbitServer::any("RabbitMQ lost acknowledgement") else { return };
    let wish = Subscription::new(&name());
    let watcher = filled(&server, &wish, &["one"]).await;
    let proxy = Proxy::start(server.url()).await;
    let ledger = Arc::new(Ledger { work: Duration::from_millis(300), ..Ledger::default() });
    let consumer = consume(&proxy.url, wish.clone(), &ledger);
    wait::until_within(PATIENCE, "it is handled", async || ledger.handed() == 1).await;
    assert_eq!(watcher.look(&wish.queue).await, Some((0, 1)), "it is out");
    proxy.swallow(Swallow::ToServer);
    wait::until("it is done", || ledger.effects() == ["one"]).await;
    proxy.cut();
    wait::until_within(PATIENCE, "it came again", async || ledger.duplicates() == 1).await;
    consumer.stop().await;
    watcher.is_empty(&wish.queue).await;
    assert_eq!(ledger.effects(), ["one"]);
}

#[tokio::test]
async fn a_consumer_whose_connection_ends_while_every_place_is_taken_consumes_again() {
    let Some(server) = RabbitServer::any("RabbitMQ cut") else { return };
    let wish = Subscription { in_flight: 1, grace: Duration::from_millis(100), ..Subscription::new(&name()) };
    let watcher = filled(&server, &wish, &["one"]).await;
    let proxy = Proxy::start(server.url()).await;
    let stuck = Arc::new(Ledger::stuck());
    let consumer = consume(&proxy.url, wish.clone(), &stuck);
    wait::until("it is handled", || stuck.handed() == 1).await;
    proxy.cut();
    wait::until_within(PATIENCE, "it is handed over again", async || stuck.handed() == 2).await;
    consumer.kill();
    watcher.until(&wish.queue, "it is back", |waiting, consumers| (waiting, consumers) == (1, 0)).await;
}

#[tokio::test]
async fn a_queue_that_cannot_keep_order_is_not_consumed_with_order() {
    let Some(server) = RabbitServer::any("RabbitMQ without order") else { return };
    for kind in [Kind::Classic, Kind::Quorum] {
        let free = Subscription { kind, ..Subscription::new(&name()) };
        filled(&server, &free, &["one"]).await;
        let ledger = Arc::new(Ledger::default());
        let ended = consume(server.url(), ordered(&free.queue, kind), &ledger).ended().await;
        assert!(matches!(ended, Err(ConsumeError::Queue { .. })), "{ended:?}");
        assert_eq!(ledger.handed(), 0);
    }
}
