//! What the tests share: queues of their own, consumers, and how much a queue holds.

use std::sync::Arc;
use std::time::Duration;

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use onefold_broker_rabbitmq::{Access, ConsumeError, RabbitConsumer, RabbitSink, Subscription};
use onefold_core::Key;
use onefold_messages::{Message, Receive, Sending, Sink};
use onefold_testkit::{RabbitServer, wait};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use onefold_storm::Ledger;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// A name that no other test has.
pub fn name() -> String {
    format!("test-{:016x}", rand::random::<u64>())
}

pub fn message(queue: &str, id: &str, key: Option<&str>, body: &str) -> Message {
    Message {
        id: Key::new(id).unwrap(),
        destination: "rabbitmq".into(),
        address: queue.to_owned(),
        ordering_key: key.map(str::to_owned),
        headers: vec![("onefold-correlation-id".into(), "flow-7".into())],
        body: body.into(),
    }
}

/// A sink of the default exchange, where addresses are names of queues.
pub fn sink(url: &str) -> RabbitSink {
    RabbitSink::new(Access::new(url).unwrap(), "").unwrap()
}

pub async fn accepted(sink: &RabbitSink, message: Message) {
    wait::until_within(PATIENCE, "it is accepted", async || sink.send(&message).await == Sending::Accepted)
        .await;
}

/// A consumer in a task.
pub struct Running {
    task: JoinHandle<Result<(), ConsumeError>>,
    stop: oneshot::Sender<()>,
}

pub fn consume(url: &str, wish: Subscription, receive: &Arc<Ledger>) -> Running {
    let receive: Arc<dyn Receive> = receive.clone();
    let consumer = RabbitConsumer::new(Access::new(url).unwrap(), wish, receive);
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let stopped = async {
            // A stop that is dropped is none.
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        consumer.run(stopped).await
    });
    Running { task, stop }
}

impl Running {
    pub fn kill(self) {
        self.task.abort();
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        wait::within(PATIENCE, "the consumer stops", self.task).await.unwrap().unwrap();
    }

    pub async fn ended(self) -> Result<(), ConsumeError> {
        wait::within(PATIENCE, "the consumer ends", self.task).await.unwrap()
    }
}

/// Looks at queues without the code under test.
pub struct Watcher {
    connection: Connection,
}

impl Watcher {
    pub async fn of(server: &RabbitServer) -> Watcher {
        let connection = Connection::connect(server.url(), ConnectionProperties::default()).await.unwrap();
        Watcher { connection }
    }

    pub async fn channel(&self) -> Channel {
        self.connection.create_channel().await.unwrap()
    }

    /// A queue that nobody ordered.
    pub async fn make(&self, queue: &str) {
        let options = QueueDeclareOptions::durable();
        self.channel().await.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap();
    }

    /// How many messages wait that are not out, and how many consumers there are; `None` where there is no queue.
    pub async fn look(&self, queue: &str) -> Option<(u32, u32)> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        // A new channel may inherit the end of the one before.
        let channel = self.connection.create_channel().await.ok()?;
        let found = channel.queue_declare(queue.into(), options, FieldTable::default()).await;
        found.ok().map(|found| (found.message_count(), found.consumer_count()))
    }

    pub async fn until(&self, queue: &str, what: &str, holds: impl Fn(u32, u32) -> bool) {
        wait::until_within(PATIENCE, what, async || {
            self.look(queue).await.is_some_and(|(waiting, consumers)| holds(waiting, consumers))
        })
        .await;
    }

    /// Nothing is left once every consumer is gone.
    pub async fn is_empty(&self, queue: &str) {
        self.until(queue, "the consumers are gone", |_, consumers| consumers == 0).await;
        assert_eq!(self.look(queue).await, Some((0, 0)), "the queue is empty");
    }
}
