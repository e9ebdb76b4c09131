//! What the tests share: a cluster, the mock's or another, and consumers.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use onefold_broker_kafka::{ClientConfig, ConsumeError, KafkaConsumer, KafkaSink, Subscription};
use onefold_core::Key;
use onefold_messages::{Message, Receive, Sending, Sink};
use onefold_testkit::{KafkaServer, TestDirectory, wait};
use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use onefold_storm::Ledger;

pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long a cluster may take to answer a question.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

pub type Mock = MockCluster<'static, DefaultProducerContext>;

/// What a test runs against.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// librdkafka's mock cluster, of three brokers.
    Mock,
    /// A broker of another make: tansu, or the environment's.
    Broker,
    /// The environment's alone.
    Named,
}

/// Makes two tests of each behaviour: over the mock, and over a broker.
macro_rules! on_each {
    ($($behaviour:ident),* $(,)?) => {
        mod mock {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(crate::rig::Kind::Mock).await;
            })*
        }

        mod broker {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(crate::rig::Kind::Broker).await;
            })*
        }
    };
}
pub(crate) use on_each;

/// A topic and a group of one's own in a cluster.
#[derive(Clone)]
pub struct Cluster {
    pub servers: String,
    pub topic: String,
    pub group: String,
    pub partitions: i32,
}

/// A cluster that is there for as long as this.
pub struct Running {
    cluster: Cluster,
    mock: Option<Mock>,
    _server: Option<(KafkaServer, TestDirectory)>,
}

impl Deref for Running {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Running {
    /// The mock, where it is one.
    pub fn mock(&self) -> &Mock {
        self.mock.as_ref().expect("a test over the mock")
    }
}

impl Kind {
    /// One with a topic of so many partitions; `None` after saying that `what` is skipped.
    pub async fn cluster(self, what: &str, partitions: i32) -> Option<Running> {
        let unique = format!("{:016x}", rand::random::<u64>());
        let (topic, group) = (format!("orders-{unique}"), format!("shop-{unique}"));
        match self {
            Kind::Mock => {
                let mock = MockCluster::new(3).unwrap();
                mock.create_topic(&topic, partitions, 3).unwrap();
                let cluster = Cluster { servers: mock.bootstrap_servers(), topic, group, partitions };
                Some(Running { cluster, mock: Some(mock), _server: None })
            }
            Kind::Broker | Kind::Named => {
                let (directory, what) = (TestDirectory::create(), format!("Kafka: {what}"));
                let server = match self {
                    Kind::Named => KafkaServer::named(&what)?,
                    _ => KafkaServer::any(&what, &directory)?,
                };
                let cluster = Cluster { servers: server.address().to_owned(), topic, group, partitions };
                cluster.make_topic().await;
                Some(Running { cluster, mock: None, _server: Some((server, directory)) })
            }
        }
    }
}

impl Cluster {
    pub fn servers(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers);
        config
    }

    pub fn config(&self) -> ClientConfig {
        let mut config = self.servers();
        // The mock waits 3 s for more members before it shares out, and forgets those whose session ends meanwhile.
        config.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "500");
        config
    }

    async fn make_topic(&self) {
        let admin: AdminClient<DefaultClientContext> = self.servers().create().unwrap();
        let topic = NewTopic::new(&self.topic, self.partitions, TopicReplication::Fixed(1));
        let made = admin.create_topics([&topic], &AdminOptions::new()).await.unwrap();
        assert!(made.iter().all(Result::is_ok), "{made:?}");
    }

    pub fn sink(&self) -> KafkaSink {
        KafkaSink::new(self.servers()).unwrap()
    }

    pub fn subscription(&self) -> Subscription {
        Subscription::new(&self.topic, &self.group)
    }

    pub fn message(&self, id: &str, key: Option<&str>, body: &str) -> Message {
        Message {
            id: Key::new(id).unwrap(),
            destination: "kafka".into(),
            address: self.topic.clone(),
            ordering_key: key.map(str::to_owned),
            headers: vec![("onefold-correlation-id".into(), "flow-7".into())],
            body: body.into(),
        }
    }

    /// Sends bodies as messages whose ids are their bodies, under one key or each under its own.
    pub async fn fill(&self, bodies: &[&str], key: Option<&str>) {
        let sink = self.sink();
        for body in bodies {
            accepted(&sink, self.message(body, Some(key.unwrap_or(body)), body)).await;
        }
    }

    pub fn consume(&self, wish: Subscription, receive: &Arc<Ledger>) -> Consuming {
        let receive: Arc<dyn Receive> = receive.clone();
        let consumer = KafkaConsumer::new(self.config(), wish, receive);
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
        Consuming { task, stop }
    }

    /// What the group has committed of a partition, as a third party sees it; `None` where nothing is.
    pub async fn committed(&self, partition: i32) -> Option<i64> {
        self.look(partition).await?.1
    }

    /// How many messages of a partition lie behind what the group has committed; `None` where nobody says.
    pub async fn left(&self, partition: i32) -> Option<i64> {
        let (end, committed) = self.look(partition).await?;
        Some(end - committed.unwrap_or(0))
    }

    /// Where a partition ends, and what the group has committed of it.
    async fn look(&self, partition: i32) -> Option<(i64, Option<i64>)> {
        let (mut config, topic) = (self.config(), self.topic.clone());
        config.set("group.id", &self.group);
        let asking = tokio::task::spawn_blocking(move || {
            let looker: BaseConsumer = config.create().unwrap();
            let (_, end) = looker.fetch_watermarks(&topic, partition, ANSWER_WITHIN).ok()?;
            let mut list = TopicPartitionList::new();
            list.add_partition(&topic, partition);
            let found = looker.committed_offsets(list, ANSWER_WITHIN).ok()?;
            Some((end, found.elements().first()?.offset().to_raw().filter(|offset| *offset >= 0)))
        });
        asking.await.unwrap()
    }
}

pub async fn accepted(sink: &KafkaSink, message: Message) {
    wait::until_within(PATIENCE, "it is accepted", async || sink.send(&message).await == Sending::Accepted)
        .await;
}

/// A consumer in a task.
pub struct Consuming {
    task: JoinHandle<Result<(), ConsumeError>>,
    stop: oneshot::Sender<()>,
}

impl Consuming {
    pub fn kill(self) {
        self.task.abort();
    }

    pub async fn stop(self) {
        let _ = self.stop.send(());
        wait::within(PATIENCE, "the consumer stops", self.task).await.unwrap().unwrap();
    }
}
