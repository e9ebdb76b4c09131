//! The storm over Kafka: consumers with the inbox, and relays, as processes that are killed. The mock lives in the
//! process that makes the storm; the others are told its address.

use async_trait::async_trait;
use onefold_broker_kafka::{KafkaConsumer, Subscription};
use onefold_messages::{Order, wire};
use onefold_storm::{Broker, Child, Copy, Role, Storm};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

use crate::rig::{Cluster, Kind};

const CHILD: &str = "storm::child";
const PARTITIONS: i32 = 4;
/// Copies on their way at once.
const IN_FLIGHT: usize = 500;
/// Fewer than over other brokers: a group takes seconds to notice that a member was killed and to share out anew.
const MESSAGES: usize = 300;
/// The shortest with which the mock does not forget a member while it waits for more.
const SESSION_MS: &str = "4000";

#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Some(child) = Child::of_environment() else { return };
    let [servers, topic, group] = ["SERVERS", "TOPIC", "GROUP"].map(|name| child.told(name));
    let cluster = Cluster { servers, topic, group, partitions: PARTITIONS };
    match child.role().await {
        Role::Consumes(receive) => {
            let mut config = cluster.config();
            config.set("session.timeout.ms", SESSION_MS);
            let wish = Subscription { order: Order::PerKey, ..cluster.subscription() };
            KafkaConsumer::new(config, wish, receive).run(std::future::pending()).await.unwrap();
        }
        Role::Relays => child.relay(cluster.sink()).await,
    }
}

struct Kafka(Cluster);

#[async_trait]
impl Broker for Kafka {
    fn told(&self) -> Vec<(&'static str, String)> {
        let Cluster { servers, topic, group, .. } = self.0.clone();
        vec![("SERVERS", servers), ("TOPIC", topic), ("GROUP", group)]
    }

    fn address(&self) -> String {
        self.0.topic.clone()
    }

    async fn publish(&mut self, copies: &[Copy]) {
        let mut config = self.0.servers();
        config.set("enable.idempotence", "true").set("partitioner", "murmur2_random");
        let producer: FutureProducer = config.create().unwrap();
        for some in copies.chunks(IN_FLIGHT) {
            let mut accepted = Vec::new();
            for copy in some {
                let mut headers = OwnedHeaders::new();
                for (name, value) in [(wire::MESSAGE_ID, &copy.id), (wire::ORDERING_KEY, &copy.key)] {
                    headers = headers.insert(Header { key: name, value: Some(value) });
                }
                let record = FutureRecord::to(&self.0.topic).key(&copy.key).payload(&copy.body);
                let sent = producer.send_result(record.headers(headers));
                accepted.push(sent.map_err(|(error, _)| error).unwrap());
            }
            for one in accepted {
                one.await.unwrap().map_err(|(error, _)| error).unwrap();
            }
        }
    }

    async fn left(&mut self) -> u64 {
        let mut left = 0;
        for partition in 0..self.0.partitions {
            match self.0.left(partition).await {
                Some(more) => left += more.unsigned_abs(),
                None => return u64::MAX,
            }
        }
        left
    }
}

async fn kills_consumers(kind: Kind) {
    let Some(cluster) = kind.cluster("storm over consumers", PARTITIONS).await else { return };
    let mut kafka = Kafka(cluster.clone());
    println!("{kind:?}: {:?}", Storm::new(CHILD).await.of(MESSAGES).kills_consumers(&mut kafka, 2).await);
}

async fn kills_relays(kind: Kind) {
    let Some(cluster) = kind.cluster("storm over relays", PARTITIONS).await else { return };
    let mut kafka = Kafka(cluster.clone());
    println!("{kind:?}: {:?}", Storm::new(CHILD).await.kills_relays(&mut kafka).await);
}

/// The full number of messages is 10 000 (`ONEFOLD_STORM=10000`). Two consumers share the partitions.
#[tokio::test]
async fn a_storm_over_the_mock_is_done_once_and_in_order() {
    kills_consumers(Kind::Mock).await;
}

#[tokio::test]
async fn b94_what_killed_relays_sent_twice_to_the_mock_is_seen_once_behind_the_inbox() {
    kills_relays(Kind::Mock).await;
}

/// Not over tansu 0.6, over which the storms do not end (`docs/brokers.md`).
#[tokio::test]
async fn a_storm_over_a_broker_is_done_once_and_in_order() {
    kills_consumers(Kind::Named).await;
}

#[tokio::test]
async fn b94_what_killed_relays_sent_twice_is_seen_once_behind_the_inbox() {
    kills_relays(Kind::Named).await;
}
