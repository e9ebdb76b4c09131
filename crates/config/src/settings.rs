//! The settings of a gateway, with their defaults.
//!
//! Defaults and limits stand here (those of a contract in `onefold_core::contract`), and the reference prints them.

mod messages;

use std::fmt;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use onefold_core::Contract;

use crate::{ConfigError, Network, PathPattern, StoreUrl, UpstreamUrl, read};

pub use messages::{Destination, Forward, Inbox, LostAnswers, Reply, To};

/// The longest `onefold.toml`, in bytes: some thousand operations, and no mistaken file fills the memory.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Everything that a gateway is told, checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The listeners.
    pub server: Server,
    /// The store.
    pub store: StoreSettings,
    /// What is bounded.
    pub limits: Limits,
    /// Where requests go on to; `None` in a file that only names destinations.
    pub upstream: Option<Upstream>,
    /// Which tokens of callers are believed.
    pub claims: Claims,
    /// The configured operations, in order: the first that matches wins.
    pub operations: Vec<Operation>,
    /// `[defaults]`: the contract of an operation that none of `operations` names. Its own name is empty.
    pub defaults: Contract,
    /// The sources of webhooks; no two have one name.
    pub inbox: Vec<Inbox>,
    /// What the relay sends to; no two have one name.
    pub destinations: Vec<Destination>,
    /// The keys of payloads at rest: the first writes, all read. Empty: payloads are not encrypted.
    pub encryption: Vec<[u8; 32]>,
    /// The paths that the gateway answers itself.
    pub paths: Paths,
    /// What is unwise without being refused, each with file, line and field.
    pub warnings: Vec<String>,
}

/// The listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where callers connect.
    pub listen: SocketAddr,
    /// Where operators and monitoring connect; always on loopback.
    pub admin_listen: SocketAddr,
    /// How long what runs may go on after SIGTERM.
    pub shutdown_grace: Duration,
    /// Who may set forwarded and tenant headers.
    pub trusted_proxies: Vec<Network>,
    /// The longest protected request, in bytes.
    pub max_request: u64,
    /// The certificate of `listen`; plain text without.
    pub tls: Option<TlsFiles>,
}

/// The files of a certificate, both PEM. They are not opened here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and its chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreSettings {
    /// Where it is.
    pub url: StoreUrl,
    /// Whether a store of an older version is brought up to date at start.
    pub migrate: bool,
    /// The pause between two sweeps of what has expired.
    pub sweep_every: Duration,
}

/// What is bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Records of one scope that have not expired.
    pub live_keys_per_scope: u64,
    /// Duplicates that wait for one running operation.
    pub waiters_per_key: usize,
    /// Duplicates that wait in all.
    pub waiters: usize,
}

/// Where requests go on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Its address.
    pub url: UpstreamUrl,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// Which tokens of callers are believed, for `claim:NAME` in a scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The keys: a signature may verify under any of them.
    pub keys: Vec<ClaimKey>,
    /// What `iss` must be.
    pub issuer: Option<String>,
    /// What must be in `aud`.
    pub audience: Option<String>,
}

/// A key under which a token may verify.
#[derive(Clone, PartialEq, Eq)]
pub enum ClaimKey {
    /// A shared secret, taken as it stands: at least [`onefold_core::contract::TOKEN_SECRET_BYTES_MIN`] bytes.
    Secret(String),
    /// One `PUBLIC KEY` or `CERTIFICATE` in PEM. What is inside is not looked at here.
    Pem(String),
}

/// One `[[operation]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What it promises.
    pub contract: Contract,
    /// Which requests are attempts at it.
    pub matcher: Match,
}

/// Which requests are attempts at an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The method, in capitals; never a safe one.
    pub method: String,
    /// The path.
    pub path: PathPattern,
}

/// The paths that the gateway answers itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Where callers poll an operation.
    pub operations: String,
    /// Where the contracts are published.
    pub policy: String,
}

/// Flags and environment variables of the command line; each that is given overrules the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--upstream`, over `upstream.url`.
    pub upstream: Option<String>,
    /// `--listen`, over `server.listen`.
    pub listen: Option<String>,
    /// `--admin-listen`, over `server.admin_listen`.
    pub admin_listen: Option<String>,
    /// `--store` or `ONEFOLD_STORE`, over `store.url`.
    pub store: Option<String>,
}

/// What a command needs that works on the store alone.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreAccess {
    /// The store.
    pub store: StoreSettings,
    /// As in [`Settings::encryption`].
    pub encryption: Vec<[u8; 32]>,
}

impl StoreAccess {
    /// What a file says of its store. Of the secrets that it names only the keys of `[encryption]` are looked up.
    pub fn load(path: &Path) -> Result<StoreAccess, ConfigError> {
        let file = path.display().to_string();
        match contents(path) {
            Ok(text) => read::read_store(&text, &file, &|name| std::env::var(name).ok()),
            Err(error) => Err(ConfigError::Unreadable { file, reason: format!("cannot be read: {error}") }),
        }
    }
}

impl Settings {
    /// The settings of a file. Secrets are looked up in the environment and in the files that it names.
    pub fn load(path: &Path) -> Result<Settings, ConfigError> {
        Settings::load_with(path, &Flags::default())
    }

    /// The settings of a file, overruled by flags.
    pub fn load_with(path: &Path, flags: &Flags) -> Result<Settings, ConfigError> {
        let file = path.display().to_string();
        match contents(path) {
            Ok(text) => Settings::parse_with(&text, &file, flags),
            Err(error) => Err(ConfigError::Unreadable { file, reason: format!("cannot be read: {error}") }),
        }
    }

    /// The settings of a text; `file` is what errors call it.
    pub fn parse(text: &str, file: &str) -> Result<Settings, ConfigError> {
        Settings::parse_with(text, file, &Flags::default())
    }

    /// The settings of a text, overruled by flags; `file` is what errors call it.
    pub fn parse_with(text: &str, file: &str, flags: &Flags) -> Result<Settings, ConfigError> {
        read::read(text, file, flags, &|name| std::env::var(name).ok())
    }

    /// The settings of no file at all: only an upstream is named.
    pub fn defaults_for_upstream(url: &str) -> Result<Settings, ConfigError> {
        Settings::without_file(&Flags { upstream: Some(url.to_owned()), ..Flags::default() })
    }

    /// The settings of flags alone.
    pub fn without_file(flags: &Flags) -> Result<Settings, ConfigError> {
        Settings::parse_with("", "onefold.toml", flags)
    }

    /// Settings without a warning: those of `--strict`.
    pub fn refuse_warnings(self) -> Result<Settings, ConfigError> {
        if self.warnings.is_empty() { Ok(self) } else { Err(ConfigError::Warnings(self.warnings)) }
    }
}

fn contents(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > CONFIG_BYTES_MAX {
        return Err(std::io::Error::other(format!("it is longer than {CONFIG_BYTES_MAX} bytes")));
    }
    Ok(text)
}

impl Default for Server {
    fn default() -> Server {
        Server {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            admin_listen: (Ipv4Addr::LOCALHOST, 7070).into(),
            shutdown_grace: Duration::from_secs(10),
            trusted_proxies: Vec::new(),
            max_request: 64 << 20,
            tls: None,
        }
    }
}

impl Default for StoreSettings {
    fn default() -> StoreSettings {
        StoreSettings {
            url: StoreUrl::Sqlite("onefold.db".into()),
            migrate: true,
            sweep_every: Duration::from_secs(60),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { live_keys_per_scope: 100_000, waiters_per_key: 100, waiters: 10_000 }
    }
}

impl Default for Paths {
    fn default() -> Paths {
        Paths { operations: "/operations".into(), policy: "/.well-known/idempotency".into() }
    }
}

impl Upstream {
    /// How long an answer may take unless the file says otherwise.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
}

impl fmt::Debug for ClaimKey {
    /// Its kind alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClaimKey::Secret(_) => "Secret",
            ClaimKey::Pem(_) => "Pem",
        })
    }
}

impl fmt::Debug for Settings {
    /// Everything but the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("server", &self.server)
            .field("store", &self.store)
            .field("limits", &self.limits)
            .field("upstream", &self.upstream)
            .field("claims", &self.claims)
            .field("operations", &self.operations)
            .field("defaults", &self.defaults)
            .field("inbox", &self.inbox)
            .field("destinations", &self.destinations)
            .field("encryption", &format_args!("{} keys", self.encryption.len()))
            .field("paths", &self.paths)
            .field("warnings", &self.warnings)
            .finish()
    }
}
