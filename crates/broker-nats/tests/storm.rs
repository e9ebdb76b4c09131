//! The storm over JetStream: consumers with the inbox, and relays, as processes that are killed.

use std::time::Duration;

use async_nats::jetstream::stream::Config;
use async_nats::{Client, ConnectOptions, HeaderMap, HeaderName, HeaderValue};
use futures_util::TryStreamExt;
use onefold_broker_nats::{NatsConsumer, NatsSink, Subscription, connect};
use onefold_messages::{Order, wire};
use onefold_storm::{Broker, Child, Copy, Role, Storm};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::{NatsServer, TestDirectory};

const CHILD: &str = "storm_child";
const DURABLE: &str = "storm";
/// Copies on their way at once.
const IN_FLIGHT: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn storm_child() {
    let Some(child) = Child::of_environment() else { return };
    let client = connect(&child.told("URL"), ConnectOptions::new()).await.unwrap();
    match child.role().await {
        Role::Consumes(receive) => {
            let wish =
                Subscription { order: Order::PerKey, ..Subscription::new(&child.told("STREAM"), DURABLE) };
            NatsConsumer::new(client, wish, receive).run(std::future::pending()).await.unwrap();
        }
        Role::Relays => child.relay(NatsSink::new(client)).await,
    }
}

struct Nats {
    url: String,
    client: Client,
    stream: String,
}

impl Nats {
    async fn with_a_stream(server: &NatsServer) -> Nats {
        let client = connect(server.url(), ConnectOptions::new()).await.unwrap();
        let stream = format!("storm-{:x}", std::process::id());
        let config = Config {
            name: stream.clone(),
            subjects: vec![format!("{stream}.>")],
            // The smallest that there is: the inbox alone tells copies apart.
            duplicate_window: Duration::from_millis(100),
            ..Config::default()
        };
        async_nats::jetstream::new(client.clone()).create_stream(config).await.unwrap();
        Nats { url: server.url().to_owned(), client, stream }
    }
}

#[async_trait::async_trait]
impl Broker for Nats {
    fn told(&self) -> Vec<(&'static str, String)> {
        vec![("URL", self.url.clone()), ("STREAM", self.stream.clone())]
    }

    fn address(&self) -> String {
        format!("{}.orders", self.stream)
    }

    async fn publish(&mut self, copies: &[Copy]) {
        let context = async_nats::jetstream::new(self.client.clone());
        for some in copies.chunks(IN_FLIGHT) {
            let mut accepted = Vec::new();
            for copy in some {
                let mut headers = HeaderMap::new();
                for (name, value) in [(wire::MESSAGE_ID, &copy.id), (wire::ORDERING_KEY, &copy.key)] {
                    let value: HeaderValue = value.parse().unwrap();
                    headers.insert(name.parse::<HeaderName>().unwrap(), value);
                }
                let body = copy.body.clone().into();
                accepted.push(context.publish_with_headers(self.address(), headers, body).await.unwrap());
            }
            for one in accepted {
                one.await.unwrap();
            }
        }
    }

    async fn left(&mut self) -> u64 {
        let context = async_nats::jetstream::new(self.client.clone());
        let stream = context.get_stream(&self.stream).await.unwrap();
        let all: Vec<_> = stream.consumers().try_collect().await.unwrap();
        match &all[..] {
            [one] => one.num_pending + one.num_ack_pending as u64,
            // Nobody has come yet, or one has not taken over yet from the one before.
            _ => u64::MAX,
        }
    }
}

/// The full number of messages is 10 000 (`ONEFOLD_STORM=10000`).
#[tokio::test]
async fn a_storm_of_duplicates_over_killed_consumers_is_done_once_and_in_order() {
    let directory = TestDirectory::create();
    let Some(server) = NatsServer::any("NATS storm over consumers", &directory) else { return };
    let mut nats = Nats::with_a_stream(&server).await;
    println!("{:?}", Storm::new(CHILD).await.kills_consumers(&mut nats, 1).await);
}

#[tokio::test]
async fn b94_what_killed_relays_sent_twice_is_seen_once_behind_the_inbox() {
    let directory = TestDirectory::create();
    let Some(server) = NatsServer::any("NATS storm over relays", &directory) else { return };
    let mut nats = Nats::with_a_stream(&server).await;
    println!("{:?}", Storm::new(CHILD).await.kills_relays(&mut nats).await);
}

#[tokio::test]
async fn a_storm_over_postgresql_is_done_once_and_in_order() {
    let directory = TestDirectory::create();
    let what = "NATS storm over PostgreSQL";
    let Some(server) = NatsServer::any(what, &directory) else { return };
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let mut nats = Nats::with_a_stream(&server).await;
    println!("{:?}", Storm::over(CHILD, &database.url()).await.kills_consumers(&mut nats, 1).await);
}

#[tokio::test]
async fn b94_what_killed_relays_sent_twice_from_postgresql_is_seen_once_behind_the_inbox() {
    let directory = TestDirectory::create();
    let what = "NATS storm over relays on PostgreSQL";
    let Some(server) = NatsServer::any(what, &directory) else { return };
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let mut nats = Nats::with_a_stream(&server).await;
    println!("{:?}", Storm::over(CHILD, &database.url()).await.kills_relays(&mut nats).await);
}
