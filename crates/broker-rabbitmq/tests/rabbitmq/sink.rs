//! The sink.

use std::sync::Arc;
use std::time::Duration;

use onefold_broker_rabbitmq::{Access, Kind, RabbitSink, Subscription};
use onefold_messages::{Message, Sending, Sink};
use onefold_testkit::{RabbitServer, TestDirectory, wait};

use crate::proxy::{Proxy, Swallow};
use crate::rig::{PATIENCE, Watcher, accepted, consume, message, name, sink};
use onefold_storm::Ledger;

#[tokio::test]
async fn a_message_arrives_with_its_id_and_headers_and_copies_are_settled_at_once() {
    let Some(server) = RabbitServer::any("RabbitMQ round trip") else { return };
    let (watcher, queue) = (Watcher::of(&server).await, name());
    let ledger = Arc::new(Ledger::default());
    let consumer = consume(server.url(), Subscription::new(&queue), &ledger);
    watcher.until(&queue, "the queue is there", |_, consumers| consumers == 1).await;
    let sink = sink(server.url());
    let sent = Message {
        headers: vec![
            ("x-note".into(), "a".into()),
            ("x-note".into(), "b".into()),
            ("content-type".into(), "text/plain".into()),
        ],
        ..message(&queue, "m-1", Some("order-1"), "one")
    };
    for _ in 0..6 {
        assert_eq!(sink.send(&sent).await, Sending::Accepted);
    }
    wait::until("all copies came", || ledger.duplicates() == 5).await;
    consumer.stop().await;
    watcher.is_empty(&queue).await;
    let done = ledger.done.lock().unwrap();
    let came = &done.effects[0];
    assert_eq!((came.source.as_str(), came.ordering_key.as_deref()), (queue.as_str(), Some("order-1")));
    assert_eq!(came.id.as_ref().map(|id| id.as_str()), Some("m-1"));
    for (name, value) in [
        ("x-note", "a"),
        ("x-note", "b"),
        ("content-type", "text/plain"),
        ("onefold-message-id", "m-1"),
        ("message-id", "m-1"),
    ] {
        assert!(came.headers.contains(&(name.into(), value.into())), "{name} {value}: {came:?}");
    }
}

#[tokio::test]
async fn of_messages_sent_at_once_only_those_that_a_queue_takes_are_accepted() {
    let Some(server) = RabbitServer::any("RabbitMQ unroutable") else { return };
    let (watcher, queue) = (Watcher::of(&server).await, name());
    watcher.make(&queue).await;
    let sink = sink(server.url());
    let mut workers = Vec::new();
    for worker in 0..32 {
        let (sink, queue) = (sink.clone(), queue.clone());
        workers.push(tokio::spawn(async move {
            let mut good = 0;
            for number in 0..50 {
                let id = format!("m-{worker}-{number}");
                let taken = rand::random::<bool>();
                let address = if taken { queue.clone() } else { name() };
                match sink.send(&message(&address, &id, None, &id)).await {
                    Sending::Accepted => assert!(taken, "no queue takes it"),
                    Sending::Failed { reason } => assert!(!taken, "a queue takes it: {reason}"),
                    other => panic!("{other:?}"),
                }
                good += u32::from(taken);
            }
            good
        }));
    }
    let mut good = 0;
    for worker in workers {
        good += worker.await.unwrap();
    }
    assert_eq!(watcher.look(&queue).await, Some((good, 0)));
}

#[tokio::test]
async fn messages_handed_over_together_have_an_answer_each() {
    let Some(server) = RabbitServer::any("RabbitMQ batches") else { return };
    let (watcher, queue) = (Watcher::of(&server).await, name());
    watcher.make(&queue).await;
    let sink = sink(server.url());
    let mut batch: Vec<Message> =
        (0..sink.batch()).map(|n| message(&queue, &format!("m-{n}"), None, "one")).collect();
    batch[3].address = name();
    batch[5].address = "k".repeat(256);
    let accepted = batch.len() as u32 - 2;
    for (n, sending) in sink.send_all(batch).await.into_iter().enumerate() {
        match n {
            3 => assert!(matches!(sending, Sending::Failed { .. }), "{sending:?}"),
            5 => assert!(matches!(sending, Sending::Refused { .. }), "{sending:?}"),
            _ => assert_eq!(sending, Sending::Accepted),
        }
    }
    assert_eq!(watcher.look(&queue).await, Some((accepted, 0)));
}

#[tokio::test]
async fn messages_handed_over_together_do_not_wait_for_each_others_confirmations() {
    const TOGETHER: u32 = 10;
    let Some(server) = RabbitServer::any("RabbitMQ batches without confirmations") else { return };
    let (watcher, queue) = (Watcher::of(&server).await, name());
    watcher.make(&queue).await;
    let proxy = Proxy::start(server.url()).await;
    let sink = sink(&proxy.url);
    let batch: Vec<_> = (0..TOGETHER).map(|n| message(&queue, &format!("m-{n}"), None, "one")).collect();
    // Their channels are there from now on.
    let sendings = sink.send_all(batch.clone()).await;
    assert!(sendings.iter().all(|sending| *sending == Sending::Accepted), "{sendings:?}");
    proxy.swallow(Swallow::ToClient);
    let sending = tokio::spawn(async move { sink.send_all(batch).await });
    watcher.until(&queue, "the server has all of them", |waiting, _| waiting == 2 * TOGETHER).await;
    proxy.cut();
    let sendings = sending.await.unwrap();
    let failed = |sending: &Sending| matches!(sending, Sending::Failed { .. });
    assert!(sendings.iter().all(failed), "{sendings:?}");
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_and_harms_nothing_else() {
    let Some(server) = RabbitServer::any("RabbitMQ refused") else { return };
    let (watcher, queue) = (Watcher::of(&server).await, name());
    watcher.make(&queue).await;
    let to = sink(server.url());
    let good = message(&queue, "m-1", None, "one");
    assert_eq!(to.send(&good).await, Sending::Accepted);
    let long = Message { headers: vec![("x".into(), "y".repeat(200_000))], ..good.clone() };
    let far = Message { address: "k".repeat(256), ..good.clone() };
    let named = Message { headers: vec![("n".repeat(256), String::new())], ..good.clone() };
    for refused in [long, far, named] {
        assert!(matches!(to.send(&refused).await, Sending::Refused { .. }));
    }
    let nowhere = RabbitSink::new(Access::new(server.url()).unwrap(), &name()).unwrap();
    assert!(matches!(nowhere.send(&good).await, Sending::Failed { .. }));
    assert_eq!(to.send(&good).await, Sending::Accepted);
    assert_eq!(watcher.look(&queue).await, Some((2, 0)));
}

#[tokio::test]
async fn a_connection_that_ends_before_the_confirmation_is_no_acceptance_and_the_copy_is_known() {
    let Some(server) = RabbitServer::any("RabbitMQ lost confirmation") else { return };
    let (watcher, queue) = (Watcher::of(&server).await, name());
    watcher.make(&queue).await;
    let proxy = Proxy::start(server.url()).await;
    let sink = sink(&proxy.url);
    assert_eq!(sink.send(&message(&queue, "m-1", None, "one")).await, Sending::Accepted);
    proxy.swallow(Swallow::ToClient);
    let second = message(&queue, "m-2", None, "two");
    let (of_task, sent) = (sink.clone(), second.clone());
    let sending = tokio::spawn(async move { of_task.send(&sent).await });
    watcher.until(&queue, "the server has it", |waiting, _| waiting == 2).await;
    proxy.cut();
    let sending = sending.await.unwrap();
    assert!(matches!(sending, Sending::Failed { .. }), "{sending:?}");
    accepted(&sink, second).await;

    let ledger = Arc::new(Ledger::default());
    let consumer = consume(server.url(), Subscription::new(&queue), &ledger);
    wait::until("three came", || ledger.handed() == 3).await;
    consumer.stop().await;
    watcher.is_empty(&queue).await;
    assert_eq!((ledger.effects().len(), ledger.duplicates()), (2, 1));
}

#[tokio::test]
async fn nothing_accepted_is_lost_when_the_server_is_killed() {
    let directory = TestDirectory::create();
    let Some(mut server) = RabbitServer::start("RabbitMQ killed", &directory) else { return };
    let sink = sink(server.url());
    let mut queues = Vec::new();
    for kind in [Kind::Classic, Kind::Quorum] {
        let (queue, ledger) = (name(), Arc::new(Ledger::default()));
        let wish = Subscription { kind, ..Subscription::new(&queue) };
        queues.push((queue, consume(server.url(), wish, &ledger), ledger));
    }
    for number in 0..60 {
        let text = format!("m-{number}");
        if number == 30 {
            // One that is killed within half a second loses its note of a new quorum queue (seen with 3.10.8).
            wait::pass_time(Duration::from_secs(2), "the server notes its quorum queues now and then").await;
            server.kill();
            wait::until_within(PATIENCE, "the sink knows of it", async || {
                let sending = sink.send(&message(&queues[0].0, &text, None, &text)).await;
                matches!(sending, Sending::NotYet { .. })
            })
            .await;
            server.restart();
        }
        for (queue, ..) in &queues {
            accepted(&sink, message(queue, &text, None, &text)).await;
        }
    }
    for (queue, consumer, ledger) in queues {
        wait::until_within(PATIENCE, "all have arrived", async || ledger.effects().len() == 60).await;
        consumer.stop().await;
        Watcher::of(&server).await.is_empty(&queue).await;
    }
}
