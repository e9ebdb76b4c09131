//! A database for each test, and SQL that is carried out in it beside the product.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tokio_postgres::{NoTls, SimpleQueryMessage};

use super::server::versions;
use super::{Isolation, shared};
use crate::servers;
use crate::skipped::skipped;

const COUNTERS_ANEW: &str = "SELECT coalesce(max(setval(c.oid, 1, false)), 0) FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'onefold' AND c.relkind = 'S'";

/// A database for one test; dropped with this value unless the test fails.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// An empty database in the shared server; `None` after saying that `what` is skipped.
    ///
    /// # Panics
    /// When the server is there and makes none.
    pub async fn create(what: &str, isolation: Isolation) -> Option<Database> {
        match shared() {
            Ok(server) => Some(Database::create_in(&server, isolation).await),
            Err(why) => {
                skipped(what, &why);
                None
            }
        }
    }

    /// An empty database in this server.
    ///
    /// # Panics
    /// When the server makes none.
    pub async fn create_in(server: &str, isolation: Isolation) -> Database {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("onefold_test_{}_{number}", std::process::id());
        execute_at(server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        execute_at(server, &format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let level = match isolation {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        };
        execute_at(server, &format!("ALTER DATABASE {name} SET default_transaction_isolation = '{level}'"))
            .await;
        Database { server: server.to_owned(), name }
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(&self.server)
    }

    /// Its address behind another server, such as a pooler.
    #[must_use]
    pub fn url_at(&self, server: &str) -> String {
        match server.split_once('?') {
            Some((front, query)) => format!("{front}/{}?{query}", self.name),
            None => format!("{server}/{}", self.name),
        }
    }

    /// A database that was restored from a dump of that one, as an operator would do it: with `pg_dump` and `psql`. Each
    /// counter that there is in the product's schema begins again, and the transaction ids are others anyway. `None` after saying
    /// that `what` is skipped.
    ///
    /// # Panics
    /// When the dump or its restoring fails.
    pub async fn restored_from(what: &str, other: &Database) -> Option<Database> {
        let restored = Database::create(what, Isolation::ReadCommitted).await?;
        restored.copy_from(other).map_err(|why| skipped(what, &why)).ok()?;
        restored.ask(COUNTERS_ANEW).await;
        Some(restored)
    }

    fn copy_from(&self, other: &Database) -> Result<(), String> {
        let find = |name| servers::program(name, &versions()).ok_or(format!("no {name} is installed"));
        let (mut dump, mut restore) = (Command::new(find("pg_dump")?), Command::new(find("psql")?));
        let dumped = dump.arg(other.url()).output().expect("pg_dump runs");
        assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
        restore.args(["-q", "-v", "ON_ERROR_STOP=1", "-d", &self.url()]);
        restore.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut restoring = restore.spawn().expect("psql runs");
        let written = restoring.stdin.take().map(|mut stdin| stdin.write_all(&dumped.stdout));
        let restored = restoring.wait_with_output().expect("psql ends");
        assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
        written.expect("psql reads").expect("psql reads all");
        Ok(())
    }

    /// Carries out SQL in it.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn execute(&self, sql: &str) {
        execute_at(&self.url(), sql).await;
    }

    /// The first column of the first row, as text.
    ///
    /// # Panics
    /// When the server refuses, or has no row.
    pub async fn ask(&self, sql: &str) -> String {
        ask_at(&self.url(), sql).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- kept for the post-mortem: {}", self.url());
            return;
        }
        let (server, sql) =
            (self.server.clone(), format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(try_rows(&server, &sql)).is_ok()
        });
        // A server that the test has killed has no database to drop.
        let _ = dropped.join();
    }
}

/// Carries out SQL in the database of this address.
///
/// # Panics
/// When the server refuses.
pub async fn execute_at(url: &str, sql: &str) {
    rows(url, sql).await;
}

/// The first column of the first row in the database of this address, as text.
///
/// # Panics
/// When the server refuses, or has no row.
pub async fn ask_at(url: &str, sql: &str) -> String {
    first(rows(url, sql).await).expect("a row")
}

/// The first column of the first row.
fn first(rows: Vec<SimpleQueryMessage>) -> Option<String> {
    rows.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
        _ => None,
    })
}

async fn rows(url: &str, sql: &str) -> Vec<SimpleQueryMessage> {
    try_rows(url, sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"))
}

async fn try_rows(url: &str, sql: &str) -> Result<Vec<SimpleQueryMessage>, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let connection = tokio::spawn(connection);
    let done = client.simple_query(sql).await;
    drop(client);
    let _ = connection.await;
    done
}
