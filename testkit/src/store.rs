//! Where the records of a test are: a SQLite file, or a PostgreSQL database, straight or behind PgBouncer in
//! transaction mode.
//!
//! A store is one test's own and is given by a URL, so that gateways, commands and programs of the library find it
//! alike. [`on_each_store!`](crate::on_each_store) runs a case over all of them: the case is written once.

use tokio_postgres::NoTls;

use crate::directory::TestDirectory;
use crate::pgbouncer;
use crate::postgres::{Database, Isolation};
use crate::setup::Setup;
use crate::skipped::skipped;
use crate::wait;

/// Advisory locks of the database, whoever holds them.
const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database =
    (SELECT oid FROM pg_database WHERE datname = current_database())";

/// An empty store; removed with this value unless the test fails.
#[derive(Debug)]
pub struct Store {
    url: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    File { _directory: TestDirectory },
    Database(Database),
}

/// A store that nobody writes.
#[derive(Debug)]
pub struct Held {
    _by: By,
}

#[derive(Debug)]
enum By {
    /// A transaction on the file.
    File { _connection: rusqlite::Connection },
    /// A lock of the table.
    Database { _client: tokio_postgres::Client },
}

impl Store {
    /// A file that is yet to be made.
    #[must_use]
    pub fn sqlite() -> Self {
        let directory = TestDirectory::create();
        Self {
            url: format!("sqlite:{}", directory.file("onefold.db").display()),
            place: Place::File { _directory: directory },
        }
    }

    /// An empty database in the shared server; `None` after saying that `what` is skipped.
    pub async fn postgresql(what: &str) -> Option<Self> {
        let database = Database::create(what, Isolation::ReadCommitted).await?;
        Some(Self { url: database.url(), place: Place::Database(database) })
    }

    /// The same behind PgBouncer.
    pub async fn pgbouncer(what: &str) -> Option<Self> {
        let pooler = pgbouncer::shared().map_err(|why| skipped(what, &why)).ok()?;
        let database = Database::create(what, Isolation::ReadCommitted).await?;
        Some(Self { url: database.url_at(&pooler), place: Place::Database(database) })
    }

    /// `sqlite:PATH` or `postgres://…`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The database, for what is asked of it beside the product; `None` for a file.
    #[must_use]
    pub fn database(&self) -> Option<&Database> {
        match &self.place {
            Place::File { .. } => None,
            Place::Database(database) => Some(database),
        }
    }

    /// A gateway to be started on it, before `upstream_url`, without operations.
    #[must_use]
    pub fn setup(&self, upstream_url: &str) -> Setup {
        Setup::new(upstream_url).store_url(&self.url)
    }

    /// Lets everybody read records and nobody write one until it is dropped.
    ///
    /// # Panics
    /// When somebody writes for too long.
    pub async fn hold_writes(&self) -> Held {
        match &self.place {
            Place::File { .. } => {
                let path = self.url.strip_prefix("sqlite:").expect("a file");
                let connection = rusqlite::Connection::open(path).expect("opens the store");
                connection.busy_timeout(wait::DEADLINE).expect("a patient connection");
                connection.execute_batch("BEGIN IMMEDIATE").expect("takes the lock");
                Held { _by: By::File { _connection: connection } }
            }
            Place::Database(database) => {
                let (client, connection) =
                    tokio_postgres::connect(&database.url(), NoTls).await.expect("connects");
                tokio::spawn(connection);
                let hold = "BEGIN; LOCK TABLE onefold.operations IN SHARE MODE";
                client.batch_execute(hold).await.expect("takes the lock");
                Held { _by: By::Database { _client: client } }
            }
        }
    }

    /// Waits until nobody holds an advisory lock in it: a lock that is left behind in a session which somebody else
    /// is given next would stay for as long as that one lives.
    ///
    /// # Panics
    /// When one stays.
    pub async fn assert_unlocked(&self) {
        let Some(database) = self.database() else { return };
        wait::until_within(wait::DEADLINE, "no advisory lock is held", async || {
            database.ask(LOCKS).await == "0"
        })
        .await;
    }
}

/// Makes a test of each case for each kind of store: `async fn case(store: &Store)`.
///
/// B125 asks that the cases of concurrency and of crashes end behind a pooler as they do without one, and leave no lock
/// there, so each of them runs there too. A kind that is missing here is skipped.
#[macro_export]
macro_rules! on_each_store {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(&$crate::Store::sqlite()).await;
                }
            )+
        }
        $crate::on_each_store!(@servers postgresql, "on PostgreSQL", $($case),+);
        $crate::on_each_store!(@servers pgbouncer, "behind PgBouncer", $($case),+);
    };
    (@servers $kind:ident, $place:literal, $($case:ident),+) => {
        mod $kind {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let what = concat!(stringify!($case), " ", $place);
                    if let Some(store) = $crate::Store::$kind(what).await {
                        super::$case(&store).await;
                        store.assert_unlocked().await;
                    }
                }
            )+
        }
    };
}
