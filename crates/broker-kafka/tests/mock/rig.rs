//! What the tests share: a mock cluster, and consumers.

use std::sync::Arc;
use std::time::Duration;

use onefold_broker_kafka::{ClientConfig, ConsumeError, KafkaConsumer, KafkaSink, Subscription};
use onefold_core::Key;
use onefold_messages::{Message, Receive, Sending, Sink};
use onefold_testkit::wait;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use onefold_storm::Ledger;

pub const PATIENCE: Duration = Duration::from_secs(60);
pub const TOPIC: &str = "orders";
pub const GROUP: &str = "shop";

pub type Mock = MockCluster<'static, DefaultProducerContext>;

/// A mock of three brokers, with one topic of this many partitions.
pub fn mock(partitions: i32) -> Mock {
    let mock = MockCluster::new(3).unwrap();
    mock.create_topic(TOPIC, partitions, 3).unwrap();
    mock
}

pub fn config(mock: &Mock) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", mock.bootstrap_servers());
    // The mock waits 3 s for more members before it shares out, and forgets those whose session ends meanwhile.
    config.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "500");
    config
}

pub fn sink(mock: &Mock) -> KafkaSink {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", mock.bootstrap_servers());
    KafkaSink::new(config).unwrap()
}

pub fn message(id: &str, key: Option<&str>, body: &str) -> Message {
    Message {
        id: Key::new(id).unwrap(),
        destination: "kafka".into(),
        address: TOPIC.into(),
        ordering_key: key.map(str::to_owned),
        headers: vec![("onefold-correlation-id".into(), "flow-7".into())],
        body: body.into(),
    }
}

pub async fn accepted(sink: &KafkaSink, message: Message) {
    wait::until_within(PATIENCE, "it is accepted", async || sink.send(&message).await == Sending::Accepted)
        .await;
}

/// A consumer in a task.
pub struct Running {
    task: JoinHandle<Result<(), ConsumeError>>,
    stop: oneshot::Sender<()>,
}

pub fn consume(mock: &Mock, wish: Subscription, receive: &Arc<Ledger>) -> Running {
    let receive: Arc<dyn Receive> = receive.clone();
    let consumer = KafkaConsumer::new(config(mock), wish, receive);
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
}

/// What the group has committed of a partition, as a third party sees it; `None` where nothing is.
pub async fn committed(mock: &Mock, partition: i32) -> Option<i64> {
    let mut config = config(mock);
    config.set("group.id", GROUP);
    let asking = tokio::task::spawn_blocking(move || {
        let looker: BaseConsumer = config.create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition(TOPIC, partition);
        let found = looker.committed_offsets(list, Duration::from_secs(10)).ok()?;
        found.elements().first()?.offset().to_raw().filter(|offset| *offset >= 0)
    });
    asking.await.unwrap()
}
