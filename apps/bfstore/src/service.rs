//! What every service has: its settings, its own database, and one listener for gRPC, pages and events.
//!
//! *After a crash* nothing in memory is missed: a service that is started again on its database goes on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use onefold::any::AnyStore;
use onefold::inbox::InboxSettings;
use onefold::webhooks::{KeyForm, Secret};
use onefold::{Keeper, Onefold, Retention};
use tokio::net::TcpListener;

use crate::brokers::Route;
use crate::ground::Events;
use crate::safeguard::{self, Safeguard};
use crate::{parent, rpc};

/// How often expired records are swept.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How long a delivered message is kept.
const SENT_KEPT: Duration = Duration::from_secs(24 * 3600);

/// What a service is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// The URL of its database.
    pub database: String,
    /// What carries events.
    pub events: Events,
    /// What streams and queues are named after.
    pub place: String,
    /// Where it listens; port 0 is a free one.
    pub listen: SocketAddr,
    /// The URLs of the others, by name.
    pub peers: BTreeMap<String, String>,
    /// The secrets with which events are signed, by their senders' names.
    pub secrets: BTreeMap<String, String>,
    /// How long finished operations and handled messages are known, where it is not as long as their contracts say.
    pub retention: Option<Duration>,
    /// The build of the handlers of messages.
    pub build: String,
}

impl Settings {
    /// The URL of another service.
    pub fn peer(&self, name: &str) -> anyhow::Result<&str> {
        let url =
            self.peers.get(name).with_context(|| format!("{} does not know where {name} is", self.name))?;
        Ok(url)
    }

    /// The secret with which `sender` signs.
    pub fn secret(&self, sender: &str) -> anyhow::Result<Secret> {
        let text = self.secrets.get(sender).with_context(|| format!("there is no secret of {sender}"))?;
        Ok(Secret::new(text, KeyForm::Whsec)?)
    }

    /// The way of events at the broker.
    pub(crate) fn route(&self, sender: &str, receiver: &str) -> Route {
        Route { place: self.place.clone(), sender: sender.to_owned(), receiver: receiver.to_owned() }
    }

    /// A consumer of this name. The bodies of its messages are kept, so that another build can handle them again where
    /// that is permitted.
    pub fn inbox(&self, consumer: &str) -> InboxSettings {
        // Marks are known by the consumer's name as well. It is as it stands; only `bfstore unprotected` changes it
        // (safeguard.rs).
        let settings = InboxSettings::new(safeguard::key(Safeguard::InboxMark, consumer));
        let retention = self.retention.map_or(settings.retention, Retention::For);
        InboxSettings { build: self.build.clone(), keep_bodies: true, retention, ..settings }
    }

    fn sweep_every(&self) -> Duration {
        self.retention.map_or(SWEEP_EVERY, |retention| retention.min(SWEEP_EVERY))
    }
}

/// A service's database, a SQLite file or one on a PostgreSQL server: what is written here runs on both.
#[derive(Clone)]
pub struct Database {
    /// The boundary.
    pub onefold: Onefold<AnyStore>,
    _keepers: Arc<(Keeper, Keeper)>,
}

impl Database {
    /// The database of this service, with its tables.
    pub async fn open(settings: &Settings, tables: &[&str]) -> anyhow::Result<Database> {
        let onefold = Onefold::any(&settings.database).await?;
        for statement in tables {
            onefold.execute(statement, &[]).await?;
        }
        let every = settings.sweep_every();
        let keepers = (onefold.keep(every), onefold.keep_messages(every, SENT_KEPT));
        Ok(Database { onefold, _keepers: Arc::new(keepers) })
    }
}

/// Says where it listens, and serves until its parent is gone.
pub async fn serve(listen: SocketAddr, router: Router) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await.context("the service cannot listen")?;
    println!("listening on http://{}", listener.local_addr()?);
    tokio::select! {
        ended = axum::serve(listener, router.merge(rpc::destinations())).into_future() => Ok(ended?),
        () = parent::gone() => Ok(()),
    }
}
