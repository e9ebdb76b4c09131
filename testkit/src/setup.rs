//! The configuration of a gateway under test, as text that the test can read at a glance.
//!
//! A setup is the settings of each section plus the operations; it writes the file `onefold.toml` into the
//! test's directory. Ports are 0 until the first start has found them. A test that is about the file's own
//! text gives it whole.

use std::path::PathBuf;
use std::sync::Arc;

use crate::binary::{self, Ended};
use crate::directory::TestDirectory;
use crate::gateway::Gateway;

/// A configuration and the directory it is run in; clones share the directory, and so the store.
#[derive(Clone, Debug)]
pub struct Setup {
    directory: Arc<TestDirectory>,
    listen: String,
    admin_listen: String,
    store_url: String,
    upstream_url: String,
    server: Vec<String>,
    store: Vec<String>,
    upstream: Vec<String>,
    sections: Vec<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    open_files: Option<u64>,
    given_by: GivenBy,
    log: Log,
}

/// Where stderr goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Log {
    /// To a file in the test's directory.
    File,
    /// To a pipe that nobody reads any more once the gateway is ready.
    LostReader,
}

/// How `serve` learns of its addresses, store and upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum GivenBy {
    File,
    Flags,
}

impl Setup {
    /// A gateway before `upstream_url`, on a SQLite store of its own, without operations.
    #[must_use]
    pub fn new(upstream_url: &str) -> Self {
        let directory = Arc::new(TestDirectory::create());
        let store_url = format!("sqlite:{}", directory.file("onefold.db").display());
        Self {
            directory,
            listen: "127.0.0.1:0".to_owned(),
            admin_listen: "127.0.0.1:0".to_owned(),
            store_url,
            upstream_url: upstream_url.to_owned(),
            server: Vec::new(),
            store: Vec::new(),
            upstream: Vec::new(),
            sections: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            open_files: None,
            given_by: GivenBy::File,
            log: Log::File,
        }
    }

    /// Another upstream.
    #[must_use]
    pub fn upstream_url(mut self, url: &str) -> Self {
        self.upstream_url = url.to_owned();
        self
    }

    /// The log goes to a pipe, as under a supervisor, and its reader goes away once the gateway is ready.
    #[must_use]
    pub fn log_reader_goes_away(mut self) -> Self {
        self.log = Log::LostReader;
        self
    }

    pub(crate) fn log(&self) -> Log {
        self.log
    }

    /// Addresses, store and upstream are given by flags, and there is no file.
    #[must_use]
    pub fn by_flags(mut self) -> Self {
        self.given_by = GivenBy::Flags;
        self
    }

    /// The listening addresses in place of port 0.
    #[must_use]
    pub fn addresses(mut self, listen: &str, admin_listen: &str) -> Self {
        self.listen = listen.to_owned();
        self.admin_listen = admin_listen.to_owned();
        self
    }

    /// Another store.
    #[must_use]
    pub fn store_url(mut self, url: &str) -> Self {
        self.store_url = url.to_owned();
        self
    }

    /// A line of `[server]`.
    #[must_use]
    pub fn server(mut self, line: &str) -> Self {
        self.server.push(line.to_owned());
        self
    }

    /// A line of `[store]`.
    #[must_use]
    pub fn store(mut self, line: &str) -> Self {
        self.store.push(line.to_owned());
        self
    }

    /// A line of `[upstream]`.
    #[must_use]
    pub fn upstream(mut self, line: &str) -> Self {
        self.upstream.push(line.to_owned());
        self
    }

    /// Further sections: operations, limits, whatever the test needs.
    #[must_use]
    pub fn section(mut self, text: &str) -> Self {
        self.sections.push(text.to_owned());
        self
    }

    /// An operation that is matched by method and path, one effect for each key, and these further lines. The
    /// scope is the credential unless a line says otherwise.
    #[must_use]
    pub fn operation(self, name: &str, method: &str, path: &str, lines: &str) -> Self {
        let names_scope = lines.lines().any(|line| line.trim_start().starts_with("scope"));
        let scope = if names_scope { "" } else { "scope = [\"credential\"]\n" };
        let operation = format!(
            "[[operation]]\nname = \"{name}\"\nmatch = {{ method = \"{method}\", path = \"{path}\" }}\n\
             boundary = \"one effect for each key\"\n{scope}{lines}"
        );
        self.section(&operation)
    }

    /// An argument of `serve`.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// A variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The most files that the gateway may have open.
    #[must_use]
    pub fn open_files(mut self, limit: u64) -> Self {
        self.open_files = Some(limit);
        self
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &TestDirectory {
        &self.directory
    }

    /// The store's URL.
    #[must_use]
    pub fn store_address(&self) -> &str {
        &self.store_url
    }

    /// The path of the SQLite store.
    ///
    /// # Panics
    /// When the store is no SQLite file.
    #[must_use]
    pub fn store_path(&self) -> PathBuf {
        PathBuf::from(self.store_url.strip_prefix("sqlite:").expect("a SQLite store"))
    }

    /// The configuration's text.
    #[must_use]
    pub fn text(&self) -> String {
        let section = |name: &str, own: &[String], lines: &[String]| {
            format!("[{name}]\n{}\n{}\n\n", own.join("\n"), lines.join("\n"))
        };
        let listen = format!("listen = \"{}\"", self.listen);
        let admin_listen = format!("admin_listen = \"{}\"", self.admin_listen);
        let mut text = section("server", &[listen, admin_listen], &self.server);
        text += &section("store", &[format!("url = \"{}\"", self.store_url)], &self.store);
        text += &section("upstream", &[format!("url = \"{}\"", self.upstream_url)], &self.upstream);
        text += &self.sections.join("\n\n");
        text.push('\n');
        text
    }

    /// The command `serve` with this configuration, whose file it writes if there is to be one.
    pub(crate) fn command(&self, file: &str) -> std::process::Command {
        let mut command = match self.open_files {
            None => binary::command(self.directory.path()),
            Some(limit) => binary::command_with_open_files(self.directory.path(), limit),
        };
        command.arg("serve");
        match self.given_by {
            GivenBy::File => {
                let config = self.directory.file(file);
                std::fs::write(&config, self.text()).expect("writes the configuration");
                command.arg("--config").arg(config);
            }
            GivenBy::Flags => {
                command.args(["--upstream", &self.upstream_url, "--store", &self.store_url]);
                command.args(["--listen", &self.listen, "--admin-listen", &self.admin_listen]);
            }
        }
        command.args(&self.args);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Starts the gateway and waits until it is ready.
    ///
    /// # Panics
    /// When it is not.
    pub async fn start(self) -> Gateway {
        Gateway::start(self).await
    }

    /// Runs `serve` to its end, for configurations and stores that it should refuse.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn run(&self) -> Ended {
        binary::run(self.command("refused.toml")).await
    }
}
