//! The storm over RabbitMQ: consumers with the inbox, and relays, as processes that are killed.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use onefold_broker_rabbitmq::{Access, Kind, RabbitConsumer, RabbitSink, Subscription};
use onefold_messages::{Order, wire};
use onefold_storm::{Broker, Child, Copy, Role, Storm};
use onefold_testkit::{RabbitServer, wait};
use tokio::sync::oneshot;
use tokio::time::Instant;

const CHILD: &str = "storm_child";
const CLASSIC: &str = "classic";
const QUORUM: &str = "quorum";
/// Copies on their way at once.
const IN_FLIGHT: usize = 100;
/// How soon the server knows that a process was killed.
const KILLED_WITHIN: Duration = Duration::from_secs(5);

fn subscription(queue: &str, kind: &str) -> Subscription {
    let kind = if kind == CLASSIC { Kind::Classic } else { Kind::Quorum };
    Subscription { kind, order: Order::PerKey, ..Subscription::new(queue) }
}

#[tokio::test(flavor = "multi_thread")]
async fn storm_child() {
    let Some(child) = Child::of_environment() else { return };
    let access = Access::new(&child.told("URL")).unwrap();
    match child.role().await {
        Role::Consumes(receive) => {
            let wish = subscription(&child.told("QUEUE"), &child.told("KIND"));
            RabbitConsumer::new(access, wish, receive).run(std::future::pending()).await.unwrap();
        }
        Role::Relays => child.relay(RabbitSink::new(access, "").unwrap()).await,
    }
}

struct Rabbit {
    url: String,
    connection: Connection,
    queue: String,
    kind: &'static str,
}

impl Rabbit {
    /// With a queue as the consumers make it.
    async fn with_a_queue(server: &RabbitServer, kind: &'static str) -> Rabbit {
        let url = server.url().to_owned();
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
        let queue = format!("storm-{:016x}", rand::random::<u64>());
        let rabbit = Rabbit { url, connection, queue, kind };
        let wish = subscription(&rabbit.queue, kind);
        let maker = RabbitConsumer::new(Access::new(&rabbit.url).unwrap(), wish, Arc::new(Nobody));
        let (made, stop) = oneshot::channel::<()>();
        let making = tokio::spawn(async move { maker.run(async { drop(stop.await) }).await });
        wait::until_within(KILLED_WITHIN * 10, "the queue is made", async || rabbit.look().await.is_some())
            .await;
        drop(made);
        making.await.unwrap().unwrap();
        rabbit
    }

    /// How many messages are not out, and how many consumers there are.
    async fn look(&self) -> Option<(u32, u32)> {
        let channel = self.connection.create_channel().await.ok()?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let found = channel.queue_declare(self.queue.as_str().into(), passive, FieldTable::default()).await;
        found.ok().map(|found| (found.message_count(), found.consumer_count()))
    }
}

/// Is handed nothing.
struct Nobody;

#[async_trait::async_trait]
impl onefold_messages::Receive for Nobody {
    async fn receive(&self, _: onefold_messages::Inbound) -> onefold_messages::Settle {
        unreachable!("the queue is empty")
    }
}

#[async_trait::async_trait]
impl Broker for Rabbit {
    fn told(&self) -> Vec<(&'static str, String)> {
        vec![("URL", self.url.clone()), ("QUEUE", self.queue.clone()), ("KIND", self.kind.to_owned())]
    }

    fn address(&self) -> String {
        self.queue.clone()
    }

    async fn publish(&mut self, copies: &[Copy]) {
        let channel = self.connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        for some in copies.chunks(IN_FLIGHT) {
            let mut accepted = Vec::new();
            for copy in some {
                let mut headers = FieldTable::default();
                for (name, value) in [(wire::MESSAGE_ID, &copy.id), (wire::ORDERING_KEY, &copy.key)] {
                    headers.insert(name.into(), AMQPValue::LongString(value.as_str().into()));
                }
                let properties = BasicProperties::default().with_headers(headers).with_delivery_mode(2);
                let options = BasicPublishOptions::default();
                let queue = self.queue.as_str().into();
                let sent = channel.basic_publish("".into(), queue, options, &copy.body, properties).await;
                accepted.push(sent.unwrap());
            }
            for one in accepted {
                assert!(one.await.unwrap().is_ack());
            }
        }
    }

    /// The server does not tell what is out, so whoever has something is waited for, unless it lives.
    async fn left(&mut self) -> u64 {
        let begun = Instant::now();
        loop {
            match self.look().await {
                Some((waiting, consumers)) if waiting > 0 || consumers == 0 => return waiting.into(),
                _ if begun.elapsed() > KILLED_WITHIN => return 0,
                _ => wait::pass_time(Duration::from_millis(20), "the server tells nothing by itself").await,
            }
        }
    }
}

/// The full number of messages is 10 000 (`ONEFOLD_STORM=10000`). One consumer works and one stands by.
#[tokio::test]
async fn a_storm_over_a_classic_queue_is_done_once_and_in_order() {
    let Some(server) = RabbitServer::any("RabbitMQ storm over a classic queue") else { return };
    let mut rabbit = Rabbit::with_a_queue(&server, CLASSIC).await;
    println!("{:?}", Storm::new(CHILD).await.kills_consumers(&mut rabbit, 2).await);
}

#[tokio::test]
async fn a_storm_over_a_quorum_queue_is_done_once_and_in_order() {
    let Some(server) = RabbitServer::any("RabbitMQ storm over a quorum queue") else { return };
    let mut rabbit = Rabbit::with_a_queue(&server, QUORUM).await;
    println!("{:?}", Storm::new(CHILD).await.kills_consumers(&mut rabbit, 2).await);
}

#[tokio::test]
async fn b94_what_killed_relays_sent_twice_is_seen_once_behind_the_inbox() {
    let Some(server) = RabbitServer::any("RabbitMQ storm over relays") else { return };
    let mut rabbit = Rabbit::with_a_queue(&server, QUORUM).await;
    println!("{:?}", Storm::new(CHILD).await.kills_relays(&mut rabbit).await);
}
