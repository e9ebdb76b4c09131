//! PostgreSQL for tests: a server of the environment (`ONEFOLD_POSTGRES_URL`), or one that is started from an
//! installed binary; and in it a database for each test.
//!
//! The shared server flushes nothing (`fsync = off`): it outlives no crash of the host. A test about durability starts
//! one of its own. A test that fails keeps its database as long as the server lives.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::directory::TestDirectory;
use crate::process::Process;
use crate::servers::{self, Certificate, User};
use crate::skipped::skipped;
use crate::wait;

/// Names a server that tests may use: they make databases of their own in it.
pub const URL_VARIABLE: &str = "ONEFOLD_POSTGRES_URL";

/// The isolation of a database's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// The server's default.
    ReadCommitted,
    /// Snapshots.
    RepeatableRead,
    /// As if one after the other.
    Serializable,
}

/// The address of the shared server with its administrator and no database, or why there is none.
pub fn shared() -> Result<String, String> {
    static SHARED: OnceLock<Result<String, String>> = OnceLock::new();
    SHARED
        .get_or_init(|| match std::env::var(URL_VARIABLE) {
            Ok(url) => Ok(without_database(&url)),
            Err(_) => servers::shared("postgres", |folder| {
                let server = PostgresServer::start_in(folder, "fsync = off\n")?;
                let url = server.url.clone();
                servers::guard(server.process.id(), &servers::run_folder())?;
                // The guardian ends it.
                std::mem::forget(server);
                Ok(url)
            }),
        })
        .clone()
}

fn without_database(url: &str) -> String {
    let (front, query) = url.split_once('?').map_or((url, ""), |(front, query)| (front, query));
    let end = front.find("://").map_or(0, |at| at + 3);
    let front = front[end..].find('/').map_or(front, |at| &front[..end + at]);
    if query.is_empty() { front.to_owned() } else { format!("{front}?{query}") }
}

/// A server of one's own. It is killed when this is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    process: Child,
    program: PathBuf,
    folder: PathBuf,
    user: User,
    port: u16,
    url: String,
}

impl PostgresServer {
    /// Starts one in the test's directory; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn start(what: &str, directory: &TestDirectory, settings: &str) -> Option<PostgresServer> {
        // The server's user has to reach its folder, and the test's directory is its owner's alone.
        let folder = directory.file("postgres");
        let opened = std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755));
        opened.expect("the test's directory is the test's");
        PostgresServer::start_in(&folder, settings).map_err(|why| skipped(what, &why)).ok()
    }

    /// Starts one in the test's directory that offers TLS with a certificate for `localhost`, and answers with that
    /// certificate's file; `None` after saying that `what` is skipped.
    #[must_use]
    pub fn start_encrypted(what: &str, directory: &TestDirectory) -> Option<(PostgresServer, PathBuf)> {
        directory.open_to_all();
        let made = User::unprivileged().and_then(|user| Certificate::make(&directory.file("tls"), user));
        let Certificate { certificate, key } = made.map_err(|why| skipped(what, &why)).ok()?;
        let settings = format!(
            "ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\n",
            certificate.display(),
            key.display()
        );
        Some((PostgresServer::start(what, directory, &settings)?, certificate))
    }

    /// Starts one in this folder, with further settings; says why there can be none.
    pub fn start_in(folder: &Path, settings: &str) -> Result<PostgresServer, String> {
        let folders = versions();
        let none = || "no PostgreSQL server is installed".to_owned();
        let initdb = servers::program("initdb", &folders).ok_or_else(none)?;
        let program = servers::program("postgres", &folders).ok_or_else(none)?;
        let user = User::unprivileged()?;
        user.make_folder(folder)?;
        let data = folder.join("data");
        let mut init = Command::new(initdb);
        init.arg("-D").arg(&data).current_dir(folder);
        init.args([
            "-U",
            "postgres",
            "--auth=trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "--no-instructions",
        ]);
        user.become_it(&mut init);
        let made = init.output().map_err(|error| error.to_string())?;
        if !made.status.success() {
            return Err(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr)));
        }
        let port = servers::free_port();
        let ours = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nmax_connections = 400\n\
             shared_buffers = 64MB\nautovacuum_naptime = 5s\nmax_wal_size = 4GB\n{settings}"
        );
        let config = data.join("postgresql.conf");
        let before = std::fs::read_to_string(&config).map_err(|error| error.to_string())?;
        std::fs::write(&config, before + &ours).map_err(|error| error.to_string())?;
        let url = format!("postgres://postgres@127.0.0.1:{port}");
        let process = start(&program, user, folder)?;
        Ok(PostgresServer { process, program, folder: folder.to_owned(), user, port, url })
    }

    /// A streaming replica of it in this folder, which the primary waits for with every commit.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn synchronous_replica_in(&self, folder: &Path) -> PostgresServer {
        let replica = self.replica_in(folder, "");
        run(&self.url, "ALTER SYSTEM SET synchronous_standby_names = '*'").await;
        run(&self.url, "SELECT pg_reload_conf()").await;
        self.has_replica("sync").await;
        replica
    }

    /// A streaming replica of it in this folder, which shows what the primary has committed so much later.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn late_replica_in(&self, folder: &Path, late: Duration) -> PostgresServer {
        let delay = format!("recovery_min_apply_delay = {}ms\n", late.as_millis());
        let replica = self.replica_in(folder, &delay);
        self.has_replica("async").await;
        replica
    }

    fn replica_in(&self, folder: &Path, settings: &str) -> PostgresServer {
        let basebackup =
            servers::program("pg_basebackup", &versions()).expect("it is installed with the server");
        self.user.make_folder(folder).expect("a folder for the replica");
        let data = folder.join("data");
        let mut copy = Command::new(basebackup);
        copy.args(["-R", "-X", "stream", "-c", "fast", "-d", &self.url, "-D"]).arg(&data).current_dir(folder);
        self.user.become_it(&mut copy);
        let copied = copy.output().expect("the primary can be copied");
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        let port = servers::free_port();
        let config = data.join("postgresql.conf");
        let before = std::fs::read_to_string(&config).expect("the copy's settings");
        std::fs::write(&config, format!("{before}\nport = {port}\n{settings}")).expect("the copy's settings");
        let process = start(&self.program, self.user, folder).expect("the replica starts");
        PostgresServer {
            process,
            program: self.program.clone(),
            folder: folder.to_owned(),
            user: self.user,
            port,
            url: format!("postgres://postgres@127.0.0.1:{port}"),
        }
    }

    async fn has_replica(&self, sync_state: &str) {
        let attached = format!("SELECT count(*) FROM pg_stat_replication WHERE sync_state = '{sync_state}'");
        wait::until_within(servers::START_DEADLINE, "the replica is attached", async || {
            first(rows(&self.url, &attached).await).as_deref() == Some("1")
        })
        .await;
    }

    /// Makes a replica the primary.
    ///
    /// # Panics
    /// When it is none.
    pub async fn promote(&self) {
        run(&self.url, "SELECT pg_promote()").await;
    }

    /// It waits for no replica any more.
    ///
    /// # Panics
    /// When it is no primary.
    pub async fn forget_replicas(&self) {
        let in_recovery = "SELECT pg_is_in_recovery()";
        wait::until_within(servers::START_DEADLINE, "it is the primary", async || {
            first(rows(&self.url, in_recovery).await).as_deref() == Some("f")
        })
        .await;
        run(&self.url, "ALTER SYSTEM RESET synchronous_standby_names").await;
        run(&self.url, "SELECT pg_reload_conf()").await;
    }

    /// Its address, without a database.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its port on loopback.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it at once, with all of its sessions: nothing is flushed and nobody is waited for, as in a crash.
    ///
    /// # Panics
    /// When it does not end.
    pub fn kill(&mut self) {
        Process::of(self.process.id()).quit();
        self.process.wait().expect("the server ends");
    }

    /// Starts it again, on its port.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.process = start(&self.program, self.user, &self.folder).expect("the server starts again");
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // It may have been ended by the test.
        if matches!(self.process.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

/// Folders of Debian's versions, the latest first.
fn versions() -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten() {
        if let Some(version) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            found.push((version, entry.path().join("bin")));
        }
    }
    found.sort();
    found.into_iter().rev().map(|(_, folder)| folder).collect()
}

fn start(program: &Path, user: User, folder: &Path) -> Result<Child, String> {
    let (data, log) = (folder.join("data"), folder.join("postgres.log"));
    let status = data.join("postmaster.pid");
    // One that was killed has left its own; a later one with that process id would be believed.
    let _ = std::fs::remove_file(&status);
    let mut command = Command::new(program);
    command.arg("-D").arg(&data).current_dir(folder);
    let mut process = servers::spawn(&mut command, &user, &log)?;
    let mut ended = false;
    servers::wait_until("the start of PostgreSQL", &log, || {
        ended = matches!(process.try_wait(), Ok(Some(_)));
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        ended || text.lines().nth(7).is_some_and(|line| line.trim() == "ready")
    })?;
    if ended {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        return Err(format!("PostgreSQL ended at once: {text}"));
    }
    Ok(process)
}

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
        run(server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await;
        run(server, &format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        let level = match isolation {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        };
        run(server, &format!("ALTER DATABASE {name} SET default_transaction_isolation = '{level}'")).await;
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

    /// Restores a dump of that one, as an operator would: with `pg_dump` and `psql`. Says why it cannot where one of
    /// them is missing.
    ///
    /// # Panics
    /// When the dump or its restoring fails.
    pub fn copy_from(&self, other: &Database) -> Result<(), String> {
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
    run(url, sql).await;
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

async fn run(url: &str, sql: &str) {
    rows(url, sql).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_loses_its_database_and_keeps_its_parameters() {
        assert_eq!(
            without_database("postgres://u:p@h:1/d?sslmode=disable"),
            "postgres://u:p@h:1?sslmode=disable"
        );
        assert_eq!(without_database("postgres://u@h"), "postgres://u@h");
    }
}
