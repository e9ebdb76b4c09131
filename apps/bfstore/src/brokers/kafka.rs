//! Kafka: a topic for each sender and receiver, and a group of the same name.
//!
//! No line stands between a receiver and the cluster: a client goes where the cluster says that its brokers are.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use async_trait::async_trait;
use onefold::inbox::Receive;
use onefold::kafka::rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use onefold::kafka::rdkafka::client::DefaultClientContext;
use onefold::kafka::rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use onefold::kafka::rdkafka::error::{KafkaError, RDKafkaErrorCode};
use onefold::kafka::rdkafka::{Offset, TopicPartitionList};
use onefold::kafka::{ClientConfig, KafkaConsumer, KafkaSink, Subscription};
use onefold::messages::Sink;
use tokio::task::spawn_blocking;

use super::{Broker, Consuming, Manner, Route, ended};

/// Of each topic.
const PARTITIONS: i32 = 4;
/// As many as the cluster makes by itself.
const REPLICAS: i32 = -1;
/// How long the cluster has to take topics away, and to answer a question.
const GONE_WITHIN: Duration = Duration::from_secs(3);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// A receiver that was killed is missed after this; only then has the next one its partitions.
const SESSION_MS: &str = "6000";
const HEARTBEAT_MS: &str = "500";
/// A group has let a member in by then, also behind one that was killed.
const MEMBER_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);

type Admin = AdminClient<DefaultClientContext>;

/// At these servers, `HOST:PORT` with commas between.
pub(crate) struct Kafka(pub(crate) String);

impl Kafka {
    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.0);
        config
    }

    fn member(&self) -> ClientConfig {
        let mut config = self.config();
        config.set("session.timeout.ms", SESSION_MS).set("heartbeat.interval.ms", HEARTBEAT_MS);
        config
    }

    /// One of the topic's group, for what is asked once.
    fn of_group(&self, topic: &str) -> anyhow::Result<BaseConsumer> {
        let mut config = self.member();
        config.set("group.id", topic).set("enable.auto.commit", "false");
        Ok(config.create()?)
    }
}

#[async_trait]
impl Broker for Kafka {
    async fn prepare(&self, routes: &[Route]) -> anyhow::Result<()> {
        let (admin, names): (Admin, Vec<String>) = (self.config().create()?, queues(routes));
        let (admin, missing) =
            spawn_blocking(move || missing(&admin, names).map(|missing| (admin, missing))).await??;
        if missing.is_empty() {
            return Ok(());
        }
        let topic = |name| NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(REPLICAS));
        let topics: Vec<NewTopic<'_>> = missing.iter().map(|name| topic(name)).collect();
        let made = admin.create_topics(&topics, &AdminOptions::new()).await?;
        done(made, RDKafkaErrorCode::TopicAlreadyExists)
    }

    async fn clear(&self, routes: &[Route]) -> anyhow::Result<()> {
        let (admin, names): (Admin, Vec<String>) = (self.config().create()?, queues(routes));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let options = AdminOptions::new().request_timeout(Some(GONE_WITHIN));
        match admin.delete_topics(&names, &options).await {
            // librdkafka's mock cluster takes none away.
            Err(KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut)) => {
                tracing::warn!(?names, "the cluster does not take topics away");
                Ok(())
            }
            gone => done(gone?, RDKafkaErrorCode::UnknownTopicOrPartition),
        }
    }

    async fn sink(&self, route: &Route) -> anyhow::Result<Arc<dyn Sink>> {
        Ok(Arc::new(KafkaSink::new(self.config())?.default_topic(route.queue())))
    }

    async fn consume(
        &self,
        route: &Route,
        manner: Manner,
        receive: Arc<dyn Receive>,
    ) -> anyhow::Result<Consuming> {
        let topic = route.queue();
        let wish = Subscription::new(&topic, &topic);
        let wish = Subscription {
            source: route.sender.clone(),
            order: manner.order,
            in_flight: manner.in_flight.map_or(wish.in_flight, usize::from),
            ..wish
        };
        let consumer = KafkaConsumer::new(self.member(), wish, receive);
        Ok(Box::pin(async move { ended(consumer.run(pending()).await) }))
    }

    async fn waiting(&self, routes: &[Route]) -> anyhow::Result<u64> {
        let mut waiting = 0;
        for topic in queues(routes) {
            let looker = self.of_group(&topic)?;
            waiting += spawn_blocking(move || left(&looker, &topic)).await??;
        }
        Ok(waiting)
    }

    async fn take_back(&self, route: &Route) -> anyhow::Result<bool> {
        let topic = route.queue();
        let member = self.of_group(&topic)?;
        spawn_blocking(move || begin_anew(&member, &topic)).await??;
        Ok(true)
    }
}

fn queues(routes: &[Route]) -> Vec<String> {
    routes.iter().map(Route::queue).collect()
}

/// Each is done, or was before.
fn done(
    topics: Vec<Result<String, (String, RDKafkaErrorCode)>>,
    before: RDKafkaErrorCode,
) -> anyhow::Result<()> {
    match topics.into_iter().find_map(|topic| topic.err().filter(|(_, code)| *code != before)) {
        Some((topic, code)) => bail!("{topic}: {code}"),
        None => Ok(()),
    }
}

/// Those that the cluster does not make when it is asked about them, as many do. Blocks.
fn missing(admin: &Admin, mut topics: Vec<String>) -> anyhow::Result<Vec<String>> {
    for at in (0..topics.len()).rev() {
        let told = admin.inner().fetch_metadata(Some(&topics[at]), ANSWER_WITHIN)?;
        if told.topics().iter().any(|found| found.name() == topics[at] && !found.partitions().is_empty()) {
            topics.remove(at);
        }
    }
    Ok(topics)
}

/// How much of a topic lies behind what its group has committed. Blocks.
fn left(looker: &BaseConsumer, topic: &str) -> anyhow::Result<u64> {
    let told = looker.fetch_metadata(Some(topic), ANSWER_WITHIN)?;
    let of_topic = told.topics().first().context("the cluster does not know the topic")?;
    let mut asked = TopicPartitionList::new();
    for partition in of_topic.partitions() {
        asked.add_partition(topic, partition.id());
    }
    let mut left = 0;
    for found in looker.committed_offsets(asked, ANSWER_WITHIN)?.elements() {
        let (begin, end) = looker.fetch_watermarks(topic, found.partition(), ANSWER_WITHIN)?;
        let committed = match found.offset() {
            Offset::Offset(offset) => offset,
            _ => begin,
        };
        left += (end - committed).unsigned_abs();
    }
    Ok(left)
}

/// Says for the group that it has settled nothing of the topic, as a member of it. Blocks.
fn begin_anew(member: &BaseConsumer, topic: &str) -> anyhow::Result<()> {
    member.subscribe(&[topic])?;
    let until = Instant::now() + MEMBER_WITHIN;
    loop {
        ensure!(Instant::now() < until, "the group of {topic} lets nobody in");
        // What comes is left to the receiver.
        if let Some(Err(error)) = member.poll(LOOK_EVERY) {
            tracing::debug!(%error, "not a member yet");
        }
        let mut all = member.assignment()?;
        if all.count() > 0 {
            all.set_all_offsets(Offset::Offset(0))?;
            match member.commit(&all, CommitMode::Sync) {
                Ok(()) => return Ok(()),
                Err(error) => tracing::debug!(%error, "the group shares out anew"),
            }
        }
    }
}
