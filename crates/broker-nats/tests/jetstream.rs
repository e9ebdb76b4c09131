//! The sink and the consumer against a real NATS server, which is killed and whose clients are killed.
//!
//! The [`Ledger`] stands for an inbox: it does the effect of a message once and knows it again.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream::Config;
use async_nats::{Client, ConnectOptions};
use onefold_broker_nats::{ConsumeError, NatsConsumer, NatsSink, Subscription, connect};
use onefold_core::Key;
use onefold_messages::{Message, Order, Receive, Sending, Sink};
use onefold_storm::Ledger;
use onefold_testkit::{NatsServer, TestDirectory, wait};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(60);

async fn client(server: &NatsServer) -> Client {
    let client = connect(server.url(), ConnectOptions::new()).await.unwrap();
    wait::until_within(PATIENCE, "it is connected", async || {
        client.connection_state() == async_nats::connection::State::Connected
    })
    .await;
    client
}

/// A stream of its own, with this window of duplicates.
async fn stream(client: &Client, window: Duration) -> String {
    let name = format!("test-{:x}", std::process::id());
    let context = async_nats::jetstream::new(client.clone());
    let config = Config {
        name: name.clone(),
        subjects: vec![format!("{name}.>")],
        duplicate_window: window,
        ..Config::default()
    };
    context.create_stream(config).await.unwrap();
    name
}

fn message(stream: &str, id: &str, key: Option<&str>, body: &str) -> Message {
    Message {
        id: Key::new(id).unwrap(),
        destination: "nats".into(),
        address: format!("{stream}.orders"),
        ordering_key: key.map(str::to_owned),
        headers: vec![("onefold-correlation-id".into(), "flow-7".into())],
        body: body.into(),
    }
}

fn consume(
    client: Client,
    wish: Subscription,
    receive: &Arc<Ledger>,
) -> JoinHandle<Result<(), ConsumeError>> {
    let receive: Arc<dyn Receive> = receive.clone();
    tokio::spawn(async move { NatsConsumer::new(client, wish, receive).run(std::future::pending()).await })
}

/// How much stands at the durables of the stream, unsettled or undelivered.
async fn left(client: &Client, stream: &str) -> u64 {
    use futures_util::TryStreamExt;
    let context = async_nats::jetstream::new(client.clone());
    let stream = context.get_stream(stream).await.unwrap();
    let all: Vec<_> = stream.consumers().try_collect().await.unwrap();
    assert_eq!(all.len(), 1, "one durable is left");
    all.iter().map(|info| info.num_pending + info.num_ack_pending as u64).sum()
}

async fn emptied(client: &Client, stream: &str) {
    wait::until_within(PATIENCE, "the stream is worked off", async || left(client, stream).await == 0).await;
}

#[tokio::test]
async fn a_message_arrives_with_its_id_and_headers_and_a_second_copy_is_known() {
    let directory = TestDirectory::create();
    let Some(server) = NatsServer::any("NATS round trip", &directory) else { return };
    let client = client(&server).await;
    let stream = stream(&client, Duration::from_secs(60)).await;
    let sink = NatsSink::new(client.clone());
    let sent = message(&stream, "m-1", Some("order-1"), "one");
    assert_eq!(sink.send(&sent).await, Sending::Accepted);
    assert_eq!(sink.send_all(vec![sent.clone(), sent.clone()]).await, [Sending::Accepted, Sending::Accepted]);

    let ledger = Arc::new(Ledger::default());
    let consumer = consume(client.clone(), Subscription::new(&stream, "shop"), &ledger);
    wait::until("it has arrived", || ledger.effects() == ["one"]).await;
    emptied(&client, &stream).await;
    let done = ledger.done.lock().unwrap();
    let came = &done.effects[0];
    assert_eq!((came.source.as_str(), came.ordering_key.as_deref()), (stream.as_str(), Some("order-1")));
    assert!(came.headers.contains(&("onefold-correlation-id".into(), "flow-7".into())), "{came:?}");
    assert!(came.headers.contains(&("Nats-Msg-Id".into(), "m-1".into())), "{came:?}");
    assert_eq!(done.duplicates, 0, "the window of duplicates took the second copy");
    consumer.abort();
}

#[tokio::test]
async fn what_no_stream_takes_is_not_accepted_and_what_cannot_be_sent_is_refused() {
    let directory = TestDirectory::create();
    let Some(server) = NatsServer::any("NATS unroutable", &directory) else { return };
    let client = client(&server).await;
    let sink = NatsSink::new(client);
    let nowhere = message("no-such-stream", "m-1", None, "one");
    assert!(matches!(sink.send(&nowhere).await, Sending::Failed { .. }));
    let all = Message { address: "orders.>".into(), ..nowhere.clone() };
    assert!(matches!(sink.send(&all).await, Sending::Refused { .. }));
    let lines = Message { headers: vec![("x".into(), "a\r\nb".into())], ..nowhere.clone() };
    assert!(matches!(sink.send(&lines).await, Sending::Refused { .. }));
    let large = Message { body: vec![0; 2 << 20], ..nowhere.clone() };
    assert!(matches!(sink.send(&large).await, Sending::Refused { .. }));
    let answers = sink.send_all(vec![all, nowhere, lines, large]).await;
    let refused = |sending: &Sending| matches!(sending, Sending::Refused { .. });
    assert_eq!(answers.iter().map(refused).collect::<Vec<_>>(), [true, false, true, true], "{answers:?}");
    assert!(matches!(answers[1], Sending::Failed { .. }));
}

#[tokio::test]
async fn nothing_accepted_is_lost_when_the_server_is_killed() {
    let directory = TestDirectory::create();
    let Some(mut server) = NatsServer::start("NATS killed", &directory) else { return };
    let client = client(&server).await;
    let stream = stream(&client, Duration::from_secs(60)).await;
    let sink = NatsSink::new(client.clone());
    let ledger = Arc::new(Ledger::default());
    let wish = Subscription { ack_wait: Duration::from_secs(2), ..Subscription::new(&stream, "shop") };
    let consumer = consume(client.clone(), wish, &ledger);
    for number in 0..60 {
        let text = format!("m-{number}");
        if number == 30 {
            server.kill();
            wait::until_within(PATIENCE, "the sink knows of it", async || {
                matches!(sink.send(&message(&stream, &text, None, &text)).await, Sending::NotYet { .. })
            })
            .await;
            server.restart();
        }
        wait::until_within(PATIENCE, "it is accepted", async || {
            sink.send(&message(&stream, &text, None, &text)).await == Sending::Accepted
        })
        .await;
    }
    wait::until_within(PATIENCE, "all have arrived", async || ledger.effects().len() == 60).await;
    emptied(&client, &stream).await;
    consumer.abort();
}

#[tokio::test]
async fn a_handler_slower_than_the_wait_for_acknowledgements_is_not_asked_twice() {
    let directory = TestDirectory::create();
    let Some(server) = NatsServer::any("NATS slow handler", &directory) else { return };
    let client = client(&server).await;
    let stream = stream(&client, Duration::from_secs(60)).await;
    let ledger = Arc::new(Ledger { work: Duration::from_secs(3), ..Ledger::default() });
    let wish = Subscription { ack_wait: Duration::from_secs(1), ..Subscription::new(&stream, "shop") };
    let consumer = consume(client.clone(), wish, &ledger);
    assert_eq!(
        NatsSink::new(client.clone()).send(&message(&stream, "m-1", None, "one")).await,
        Sending::Accepted
    );
    wait::until("it is done", || ledger.effects() == ["one"]).await;
    emptied(&client, &stream).await;
    assert_eq!(ledger.handed(), 1);
    consumer.abort();
}

#[tokio::test]
async fn what_a_killed_consumer_had_comes_again_before_what_is_behind_it() {
    let directory = TestDirectory::create();
    let Some(server) = NatsServer::any("NATS consumer killed", &directory) else { return };
    let client = client(&server).await;
    let stream = stream(&client, Duration::from_secs(60)).await;
    let sink = NatsSink::new(client.clone());
    for body in ["first", "second", "third"] {
        assert_eq!(sink.send(&message(&stream, body, Some("a"), body)).await, Sending::Accepted);
    }
    let wish = Subscription { order: Order::PerKey, in_flight: 2, ..Subscription::new(&stream, "shop") };
    let stuck = Arc::new(Ledger::stuck());
    let first = consume(client.clone(), wish.clone(), &stuck);
    wait::until_within(PATIENCE, "two are out", async || {
        let context = async_nats::jetstream::new(client.clone());
        let mut names = context.get_stream(&stream).await.unwrap().consumers();
        use futures_util::TryStreamExt;
        let info = names.try_next().await.unwrap();
        info.is_some_and(|info| info.num_ack_pending == 2)
    })
    .await;
    first.abort();
    let ledger = Arc::new(Ledger::default());
    ledger.refusals.lock().unwrap().insert("first".into(), 2);
    let second = consume(client.clone(), wish, &ledger);
    // Well below the 30 s after which the server would deliver again by itself.
    wait::until("all are done", || ledger.effects().len() == 3).await;
    assert_eq!(ledger.effects(), ["first", "second", "third"]);
    emptied(&client, &stream).await;
    second.abort();
}

#[tokio::test]
async fn of_two_ordered_consumers_the_later_one_takes_over() {
    let directory = TestDirectory::create();
    let Some(server) = NatsServer::any("NATS take-over", &directory) else { return };
    let client = client(&server).await;
    let stream = stream(&client, Duration::from_secs(60)).await;
    let wish = Subscription { order: Order::PerKey, ..Subscription::new(&stream, "shop") };
    let ledger = Arc::new(Ledger::default());
    let first = consume(client.clone(), wish.clone(), &ledger);
    let sink = NatsSink::new(client.clone());
    assert_eq!(sink.send(&message(&stream, "m-1", Some("a"), "one")).await, Sending::Accepted);
    wait::until("the first consumes", || ledger.effects() == ["one"]).await;
    let second = consume(client.clone(), wish, &ledger);
    let ended = wait::within(PATIENCE, "the first gives up", first).await.unwrap();
    assert!(matches!(ended, Err(ConsumeError::Superseded)), "{ended:?}");
    assert_eq!(sink.send(&message(&stream, "m-2", Some("a"), "two")).await, Sending::Accepted);
    wait::until("the second consumes", || ledger.effects() == ["one", "two"]).await;
    emptied(&client, &stream).await;
    second.abort();
}
