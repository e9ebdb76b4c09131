//! What the services stand on: where their databases are, and what carries their events.
//!
//! A place has a name, under which everything of it stands on servers that others use as well: databases, streams and
//! queues. *It is not* for production: servers are reached unencrypted, as on loopback.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use futures_util::TryStreamExt;
use onefold::client::reqwest::Url;
use onefold::nats::async_nats;
use onefold::rabbitmq::lapin;
use onefold::rabbitmq::lapin::options::QueueDeclareOptions;
use onefold::rabbitmq::lapin::types::FieldTable;
use tokio_postgres::{Client, NoTls};

use crate::events::{RECEIVERS, queue};
use crate::services::NAMES;

/// How long NATS itself knows the ids that it has taken.
pub(crate) const SERVER_REMEMBERS: Duration = Duration::from_secs(1);

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
}

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
            _ => Err("webhooks, nats://HOST:PORT, or amqp://USER:PASSWORD@HOST:PORT"),
        }
    }
}

impl Events {
    /// As on the command line.
    pub fn text(&self) -> &str {
        match self {
            Events::Webhooks => "webhooks",
            Events::Nats(url) | Events::RabbitMq(url) => url,
        }
    }

    /// The broker's URL, if there is one.
    pub fn broker(&self) -> anyhow::Result<Option<Url>> {
        match self {
            Events::Webhooks => Ok(None),
            Events::Nats(url) | Events::RabbitMq(url) => Ok(Some(Url::parse(url)?)),
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

    /// Makes what is not there yet and no service makes itself: databases, and the stream of NATS.
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

    /// The stream of NATS alone.
    pub(crate) async fn prepare_events(&self) -> anyhow::Result<()> {
        if let Events::Nats(url) = &self.events {
            let subjects = vec![format!("{}.>", self.name)];
            let stream = async_nats::jetstream::stream::Config {
                name: self.name.clone(),
                subjects,
                // The server's own memory of ids is short-lived anyway; what protects is the mark of each receiver.
                duplicate_window: SERVER_REMEMBERS,
                ..Default::default()
            };
            async_nats::jetstream::new(async_nats::connect(url).await?).get_or_create_stream(stream).await?;
        }
        Ok(())
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

    /// How many events wait for receivers, or are with one that has not said what became of them. RabbitMQ tells those
    /// only when the receiver is gone.
    pub(crate) async fn waiting(&self) -> anyhow::Result<u64> {
        let mut waiting = 0;
        match &self.events {
            Events::Webhooks => {}
            Events::Nats(url) => {
                let jetstream = async_nats::jetstream::new(async_nats::connect(url).await?);
                let mut consumers = jetstream.get_stream(&self.name).await?.consumers();
                while let Some(consumer) = consumers.try_next().await? {
                    waiting += consumer.num_pending + consumer.num_ack_pending as u64;
                }
            }
            Events::RabbitMq(url) => {
                let connection =
                    lapin::Connection::connect(url, lapin::ConnectionProperties::default()).await?;
                let channel = connection.create_channel().await?;
                let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
                for (sender, receiver) in RECEIVERS.into_iter().filter(|(sender, _)| NAMES.contains(sender)) {
                    let queue = queue(&self.name, sender, receiver).into();
                    let found = channel.queue_declare(queue, passive, FieldTable::default()).await?;
                    waiting += u64::from(found.message_count());
                }
                connection.close(200, "done".into()).await?;
            }
        }
        Ok(waiting)
    }

    /// The streams and queues alone.
    pub(crate) async fn clear_events(&self) -> anyhow::Result<()> {
        match &self.events {
            Events::Webhooks => {}
            Events::Nats(url) => {
                let jetstream = async_nats::jetstream::new(async_nats::connect(url).await?);
                jetstream.delete_stream(&self.name).await?;
            }
            Events::RabbitMq(url) => {
                let connection =
                    lapin::Connection::connect(url, lapin::ConnectionProperties::default()).await?;
                let channel = connection.create_channel().await?;
                for (sender, receiver) in RECEIVERS {
                    let queue = queue(&self.name, sender, receiver);
                    channel.queue_delete(queue.into(), Default::default()).await?;
                }
                connection.close(200, "done".into()).await?;
            }
        }
        Ok(())
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
}
