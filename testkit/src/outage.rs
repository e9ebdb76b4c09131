//! A store that goes out of reach and comes back: a SQLite file that another program keeps locked, a PostgreSQL server
//! that is killed and started again, and one behind a PgBouncer that stays up meanwhile.
//!
//! What was committed before stays. [`on_each_outage!`](crate::on_each_outage) runs a case over all of them.

use std::time::Duration;

use rusqlite::Connection;

use crate::directory::TestDirectory;
use crate::pgbouncer::Pooler;
use crate::postgres::PostgresServer;
use crate::setup::Setup;
use crate::skipped::skipped;
use crate::store::Store;

/// How long the lock of the file is waited for.
const LOCKED_WITHIN: Duration = Duration::from_secs(10);

/// An empty store that can be taken away.
pub struct FragileStore(Kind);

enum Kind {
    File { store: Store, lock: Option<Connection> },
    Server { server: Box<PostgresServer>, _pooler: Option<Pooler>, url: String, _directory: TestDirectory },
}

impl FragileStore {
    /// A file that is yet to be made.
    #[must_use]
    pub fn sqlite() -> Self {
        Self(Kind::File { store: Store::sqlite(), lock: None })
    }

    /// A server of its own; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn postgresql(what: &str) -> Option<Self> {
        let directory = TestDirectory::create();
        let server = Box::new(PostgresServer::start(what, &directory, "")?);
        let url = format!("{}/postgres", server.url());
        Some(Self(Kind::Server { server, _pooler: None, url, _directory: directory }))
    }

    /// The same behind a pooler, which stays when the server goes.
    #[must_use]
    pub fn pgbouncer(what: &str) -> Option<Self> {
        let directory = TestDirectory::create();
        let server = Box::new(PostgresServer::start(what, &directory, "")?);
        let pooler = Pooler::start_in(&directory.file("pgbouncer"), server.url());
        let pooler = pooler.map_err(|why| skipped(what, &why)).ok()?;
        let url = format!("{}/postgres", pooler.url());
        Some(Self(Kind::Server { server, _pooler: Some(pooler), url, _directory: directory }))
    }

    /// `sqlite:PATH` or `postgres://…`.
    #[must_use]
    pub fn url(&self) -> &str {
        match &self.0 {
            Kind::File { store, .. } => store.url(),
            Kind::Server { url, .. } => url,
        }
    }

    /// A gateway to be started on it, before `upstream_url`, without operations.
    #[must_use]
    pub fn setup(&self, upstream_url: &str) -> Setup {
        Setup::new(upstream_url).store_url(self.url())
    }

    /// Nobody can write any more.
    ///
    /// # Panics
    /// When the file is not there or not to be locked.
    pub fn go_away(&mut self) {
        match &mut self.0 {
            Kind::File { store, lock } => {
                let path = store.url().strip_prefix("sqlite:").expect("a file");
                let connection = Connection::open(path).expect("opens the store");
                connection.busy_timeout(LOCKED_WITHIN).expect("a patient connection");
                connection.execute_batch("BEGIN EXCLUSIVE").expect("takes the lock");
                *lock = Some(connection);
            }
            Kind::Server { server, .. } => server.kill(),
        }
    }

    /// It is there again.
    ///
    /// # Panics
    /// When the server does not start.
    pub fn come_back(&mut self) {
        match &mut self.0 {
            Kind::File { lock, .. } => *lock = None,
            Kind::Server { server, .. } => server.restart(),
        }
    }
}

/// Makes a test of each case for each kind of store: `async fn case(store: FragileStore)`.
#[macro_export]
macro_rules! on_each_outage {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case($crate::FragileStore::sqlite()).await;
                }
            )+
        }
        $crate::on_each_outage!(@servers postgresql, "on PostgreSQL", $($case),+);
        $crate::on_each_outage!(@servers pgbouncer, "behind PgBouncer", $($case),+);
    };
    (@servers $kind:ident, $place:literal, $($case:ident),+) => {
        mod $kind {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let what = concat!(stringify!($case), " ", $place);
                    if let Some(store) = $crate::FragileStore::$kind(what) {
                        super::$case(store).await;
                    }
                }
            )+
        }
    };
}
