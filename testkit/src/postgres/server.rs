//! A server of a test's own, and a replica of it, from an installed binary.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use super::{ask_at, execute_at};
use crate::directory::TestDirectory;
use crate::process::Process;
use crate::servers::{self, Certificate, User};
use crate::skipped::skipped;
use crate::wait;

/// A server of one's own. It is killed when this is dropped.
#[derive(Debug)]
pub struct PostgresServer {
    pub(super) process: Child,
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
        execute_at(&self.url, "ALTER SYSTEM SET synchronous_standby_names = '*'").await;
        execute_at(&self.url, "SELECT pg_reload_conf()").await;
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
            ask_at(&self.url, &attached).await == "1"
        })
        .await;
    }

    /// Makes a replica the primary.
    ///
    /// # Panics
    /// When it is none.
    pub async fn promote(&self) {
        execute_at(&self.url, "SELECT pg_promote()").await;
    }

    /// It waits for no replica any more.
    ///
    /// # Panics
    /// When it is no primary.
    pub async fn forget_replicas(&self) {
        let in_recovery = "SELECT pg_is_in_recovery()";
        wait::until_within(servers::START_DEADLINE, "it is the primary", async || {
            ask_at(&self.url, in_recovery).await == "f"
        })
        .await;
        execute_at(&self.url, "ALTER SYSTEM RESET synchronous_standby_names").await;
        execute_at(&self.url, "SELECT pg_reload_conf()").await;
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
pub(super) fn versions() -> Vec<PathBuf> {
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
