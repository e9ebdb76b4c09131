//! What the services stand on: where their databases are, and what carries their events.
//!
//! A place has a name, under which everything of it stands on servers that others use as well: databases, streams and
//! queues. *It is not* for production: servers are reached unencrypted, as on loopback.

use std::path::Path;
use std::str::FromStr;

use anyhow::Context;
use onefold::client::reqwest::Url;
use tokio_postgres::{Client, NoTls};

#[cfg(feature = "kafka")]
use crate::brokers::Kafka;
use crate::brokers::{Broker, Nats, RabbitMq, Route};
use crate::services::NAMES;

/// Who sends events to whom. The catalogue is somebody outside of bfstore.
pub const RECEIVERS: [(&str, &str); 4] = [
    ("order", "notification"),
    ("order", "loyalty"),
    ("payment", "notification"),
    ("catalogue", "storefront"),
];

/// The senders and receivers of which both are services.
pub(crate) fn between_services() -> impl Iterator<Item = (&'static str, &'static str)> {
    RECEIVERS.into_iter().filter(|(sender, _)| NAMES.contains(sender))
}

/// Where the databases are, one for each service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Databases {
    /// Files of SQLite in the stage's folder.
    #[default]
    Sqlite,
    /// On a PostgreSQL server, whose user may make databases.
    Postgres(String),
}

/// What carries events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Events {
    /// Signed requests from service to service.
    #[default]
    Webhooks,
    /// NATS JetStream.
    Nats(String),
    /// RabbitMQ.
    RabbitMq(String),
    /// Kafka.
    #[cfg(feature = "kafka")]
    Kafka(String),
}

const KAFKA: &str = "kafka://";

/// All of it, under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ground {
    /// The databases.
    pub databases: Databases,
    /// The events.
    pub events: Events,
    /// Lower-case letters, digits and underscores.
    pub name: String,
}

impl FromStr for Databases {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Databases, Self::Err> {
        match text {
            "sqlite" => Ok(Databases::Sqlite),
            url if url.starts_with("postgres://") => Ok(Databases::Postgres(url.to_owned())),
            _ => Err("sqlite, or postgres://USER@HOST:PORT"),
        }
    }
}

impl FromStr for Events {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Events, Self::Err> {
        match text {
            "webhooks" => Ok(Events::Webhooks),
            url if url.starts_with("nats://") => Ok(Events::Nats(url.to_owned())),
            url if url.starts_with("amqp://") => Ok(Events::RabbitMq(url.to_owned())),
            #[cfg(feature = "kafka")]
            url if url.starts_with(KAFKA) => Ok(Events::Kafka(url.to_owned())),
            #[cfg(not(feature = "kafka"))]
            url if url.starts_with(KAFKA) => {
                Err("this binary was built without Kafka; build it with --features kafka")
            }
            _ => Err(
                "webhooks, nats://HOST:PORT, amqp://USER:PASSWORD@HOST:PORT, or kafka://HOST:PORT,HOST:PORT",
            ),
        }
    }
}

impl Events {
    /// As on the command line.
    pub fn text(&self) -> &str {
        match self {
            Events::Webhooks => "webhooks",
            Events::Nats(url) | Events::RabbitMq(url) => url,
            #[cfg(feature = "kafka")]
            Events::Kafka(url) => url,
        }
    }

    /// The broker, if there is one.
    pub(crate) fn broker(&self) -> Option<Box<dyn Broker>> {
        match self {
            Events::Webhooks => None,
            Events::Nats(url) => Some(Box::new(Nats(url.clone()))),
            Events::RabbitMq(url) => Some(Box::new(RabbitMq(url.clone()))),
            #[cfg(feature = "kafka")]
            Events::Kafka(url) => Some(Box::new(Kafka(url.trim_start_matches(KAFKA).to_owned()))),
        }
    }

    /// The URL of a broker before which a line can stand: a client of Kafka goes where the cluster says.
    pub(crate) fn behind_line(&self) -> anyhow::Result<Option<Url>> {
        match self {
            Events::Nats(url) | Events::RabbitMq(url) => Ok(Some(Url::parse(url)?)),
            _ => Ok(None),
        }
    }
}

impl Default for Ground {
    /// Files and webhooks: nothing else has to run.
    fn default() -> Ground {
        Ground { databases: Databases::Sqlite, events: Events::Webhooks, name: "bfstore".into() }
    }
}

impl Ground {
    /// The same under a name of its own.
    pub fn renamed(&self) -> Ground {
        Ground { name: format!("bfstore_{:08x}", rand::random::<u32>()), ..self.clone() }
    }

    /// Where the senders of a stage leave their events that has carriers to the receivers, whose place is this one.
    pub fn sent(&self) -> Ground {
        Ground { name: format!("{}_sent", self.name), ..self.clone() }
    }

    /// The URL of a service's database.
    pub fn database(&self, service: &str, folder: &Path) -> anyhow::Result<String> {
        match &self.databases {
            Databases::Sqlite => Ok(format!("sqlite:{}", folder.join(format!("{service}.db")).display())),
            Databases::Postgres(server) => {
                let mut url = Url::parse(server)?;
                url.set_path(&self.database_name(service));
                Ok(url.into())
            }
        }
    }

    fn database_name(&self, service: &str) -> String {
        format!("{}_{service}", self.name)
    }

    /// Makes what is not there yet and no service makes itself: databases, streams and topics.
    pub async fn prepare(&self) -> anyhow::Result<()> {
        if let Databases::Postgres(server) = &self.databases {
            let client = client(server).await?;
            for service in NAMES {
                let name = self.database_name(service);
                let there = client.query("SELECT FROM pg_database WHERE datname = $1", &[&name]).await?;
                if there.is_empty() {
                    client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
                }
            }
        }
        self.prepare_events().await
    }

    /// Streams and topics alone.
    pub(crate) async fn prepare_events(&self) -> anyhow::Result<()> {
        match self.events.broker() {
            Some(broker) => broker.prepare(&self.routes(RECEIVERS)).await,
            None => Ok(()),
        }
    }

    /// Takes all of it away from the servers, for good. Files stay.
    pub async fn clear(&self) -> anyhow::Result<()> {
        if let Databases::Postgres(server) = &self.databases {
            let client = client(server).await?;
            for service in NAMES {
                let name = self.database_name(service);
                client.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await?;
            }
        }
        self.clear_events().await
    }

    /// Streams, queues and topics alone.
    pub(crate) async fn clear_events(&self) -> anyhow::Result<()> {
        match self.events.broker() {
            Some(broker) => broker.clear(&self.routes(RECEIVERS)).await,
            None => Ok(()),
        }
    }

    /// How many events between services are at the broker that nobody is done with (see [`Broker::waiting`]).
    pub(crate) async fn waiting(&self) -> anyhow::Result<u64> {
        match self.events.broker() {
            Some(broker) => broker.waiting(&self.routes(between_services())).await,
            None => Ok(0),
        }
    }

    /// From one to another at this place.
    pub(crate) fn route(&self, sender: &str, receiver: &str) -> Route {
        Route { place: self.name.clone(), sender: sender.to_owned(), receiver: receiver.to_owned() }
    }

    fn routes(&self, all: impl IntoIterator<Item = (&'static str, &'static str)>) -> Vec<Route> {
        all.into_iter().map(|(sender, receiver)| self.route(sender, receiver)).collect()
    }
}

/// A connection to a PostgreSQL server, or to one of its databases.
pub async fn client(url: &str) -> anyhow::Result<Client> {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.context("PostgreSQL does not answer")?;
    // It ends with the client.
    tokio::spawn(connection);
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_has_a_database_of_its_own_on_the_server_that_is_given() {
        let databases = "postgres://shop@localhost:5432/postgres?sslmode=disable".parse().unwrap();
        let ground = Ground { databases, ..Ground::default() };
        let order = ground.database("order", Path::new("/tmp")).unwrap();
        assert_eq!(order, "postgres://shop@localhost:5432/bfstore_order?sslmode=disable");
    }

    #[test]
    fn what_is_no_database_and_no_transport_is_refused() {
        assert!("mysql://localhost".parse::<Databases>().is_err());
        assert!("carrier pigeons".parse::<Events>().is_err());
    }

    #[test]
    fn kafka_is_there_where_it_was_built_along_and_said_to_be_missing_otherwise() {
        let asked = "kafka://one:9092,two:9092".parse::<Events>();
        #[cfg(feature = "kafka")]
        assert_eq!(asked.as_ref().map(Events::text), Ok("kafka://one:9092,two:9092"));
        #[cfg(not(feature = "kafka"))]
        assert!(asked.unwrap_err().contains("--features kafka"));
    }
}
