//! What every service has: its settings, its own database, and one listener for gRPC, pages and events.
//!
//! *After a crash* nothing in memory is missed: a service that is started again on its files goes on.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use onefold::inbox::InboxSettings;
use onefold::webhooks::{KeyForm, Secret};
use onefold::{Keeper, Onefold, Retention};
use rusqlite::Connection;
use tokio::net::TcpListener;

use crate::safeguard::{self, Safeguard};
use crate::{parent, rpc};

/// How long a statement of our own waits for the database's one write lock.
const BUSY: Duration = Duration::from_secs(10);
/// How often expired records are swept.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// How long a delivered message is kept.
const SENT_KEPT: Duration = Duration::from_secs(24 * 3600);

/// What a service is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name, which is also that of its database file.
    pub name: String,
    /// Where the database is.
    pub folder: PathBuf,
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

    /// A consumer of this name. The bodies of its messages are kept, so that another build can handle them again where
    /// that is permitted.
    pub fn inbox(&self, consumer: &str) -> InboxSettings {
        // Marks are known by the consumer's name as well.
        let settings = InboxSettings::new(safeguard::key(Safeguard::InboxMark, consumer));
        let retention = self.retention.map_or(settings.retention, Retention::For);
        InboxSettings { build: self.build.clone(), keep_bodies: true, retention, ..settings }
    }

    fn sweep_every(&self) -> Duration {
        self.retention.map_or(SWEEP_EVERY, |retention| retention.min(SWEEP_EVERY))
    }
}

/// A service's database: the boundary, and a connection of the service's own for what needs no boundary.
#[derive(Clone)]
pub struct Database {
    /// The boundary.
    pub onefold: Onefold,
    own: Arc<std::sync::Mutex<Connection>>,
    _keepers: Arc<(Keeper, Keeper)>,
}

impl Database {
    /// The file of this service, with its tables.
    pub fn open(settings: &Settings, tables: &str) -> anyhow::Result<Database> {
        let path = settings.folder.join(format!("{}.db", settings.name));
        let onefold = Onefold::sqlite(&path)?;
        let own = Connection::open(&path)?;
        own.busy_timeout(BUSY)?;
        own.execute_batch(tables)?;
        let every = settings.sweep_every();
        let keepers = (onefold.keep(every), onefold.keep_messages(every, SENT_KEPT));
        Ok(Database { onefold, own: Arc::new(std::sync::Mutex::new(own)), _keepers: Arc::new(keepers) })
    }

    /// Runs statements on the service's own connection, one after the other.
    pub async fn own<A: Send + 'static>(
        &self,
        statements: impl FnOnce(&Connection) -> rusqlite::Result<A> + Send + 'static,
    ) -> anyhow::Result<A> {
        let own = self.own.clone();
        let running = tokio::task::spawn_blocking(move || {
            let own = own.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            statements(&own)
        });
        Ok(running.await??)
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
