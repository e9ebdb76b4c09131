//! Opening a store: the server is looked at before anything is changed.
//!
//! A server that is too old, takes no writes, or has a schema of something else, or of a later release that shuts
//! this one out, is refused and left as it is. What is only a danger is said in the log.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use onefold_core::IdentityKey;
use onefold_store::{Clock, Gravity, Sealer};

use crate::check;
use crate::migrate::{self, Migrate, Migration};
use crate::server::Server;
use crate::{Address, OpenError, seal_keys};

/// Connections at most, unless the options say otherwise: the lanes use few, readers and lists the rest.
const CONNECTIONS_MAX: usize = 12;

/// The longest record, in bytes, unless the options say otherwise: far above what a contract keeps by default, and
/// below what the server takes in one value.
const RECORD_BYTES_MAX: usize = 256 << 20;

/// How long a closure may hold its transaction, unless the options say otherwise.
const CLOSURE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a closure waits for its turn, unless the options say otherwise: as long as most callers wait for an answer.
const CLOSURE_WAIT_MAX: Duration = Duration::from_secs(30);

/// How long a migration waits for tables, unless the options say otherwise: longer than most transactions, and not as
/// long as a start that is supervised may take.
const MIGRATION_WAIT_MAX: Duration = Duration::from_secs(60);

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// The keys that seal payloads: the first writes, all read. None: payloads stay plain.
    pub seal_keys: Vec<[u8; 32]>,
    /// Whether an old or absent schema is brought to the latest; otherwise it is an error.
    pub migrate: bool,
    /// How long a migration waits for tables that others hold, such as a dump, before the store does not open. It lets
    /// requests pass meanwhile.
    pub migration_wait_max: Duration,
    /// Connections at most. A pooler in front may share fewer among many gateways. Closures of atomic mode hold at
    /// most all but five of them; of fewer than ten, half. Where transactions are above READ COMMITTED a handler of a
    /// message needs a second one for a moment.
    pub connections_max: usize,
    /// The longest result with its resource, in bytes; a longer one is refused.
    pub record_bytes_max: usize,
    /// How long a closure of atomic mode may hold its transaction. Beyond it everything is undone; a statement of it
    /// that the server still carries out is ended within two seconds and a quarter of this time.
    pub closure_time_max: Duration,
    /// How long a closure waits until it is among those that may hold a connection; then its caller is told that the
    /// store is unavailable, and nothing has run. It waits without a connection. Choose it by the deadline of the
    /// callers: whoever gives up before that does not take his closure along, which runs when its turn comes.
    pub closure_wait_max: Duration,
    /// For tests alone: a clock in place of the server's.
    #[doc(hidden)]
    pub test_clock: Option<Arc<dyn Clock>>,
    /// For tests alone: one migration more, as a later release has.
    #[doc(hidden)]
    pub test_migration: Option<Migration>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seal_keys: Vec::new(),
            migrate: true,
            migration_wait_max: MIGRATION_WAIT_MAX,
            connections_max: CONNECTIONS_MAX,
            record_bytes_max: RECORD_BYTES_MAX,
            closure_time_max: CLOSURE_TIME_MAX,
            closure_wait_max: CLOSURE_WAIT_MAX,
            test_clock: None,
            test_migration: None,
        }
    }
}

impl fmt::Debug for Options {
    /// Never the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("seal_keys", &self.seal_keys.len())
            .field("migrate", &self.migrate)
            .field("migration_wait_max", &self.migration_wait_max)
            .field("connections_max", &self.connections_max)
            .field("record_bytes_max", &self.record_bytes_max)
            .field("closure_time_max", &self.closure_time_max)
            .field("closure_wait_max", &self.closure_wait_max)
            .finish_non_exhaustive()
    }
}

/// A database that was looked at and made ready.
pub(crate) struct Opened {
    pub(crate) server: Server,
    pub(crate) sealer: Sealer,
    pub(crate) identity_key: IdentityKey,
}

/// Connects and makes the store ready.
pub(crate) async fn open(address: &Address, options: &Options) -> Result<Opened, OpenError> {
    let server = Server::new(address, options)?;
    let seen = check::look(&server).await?;
    seen.refuse()?;
    for finding in seen.findings().iter().filter(|finding| finding.gravity == Gravity::Warning) {
        tracing::warn!(check = finding.what, "{}", finding.says);
    }
    let migrate = if options.migrate { Migrate::Yes } else { Migrate::No };
    let known = migrate::known(options.test_migration);
    migrate::run(&server, migrate, &known, options.migration_wait_max).await?;
    let sealer = Sealer::new(&options.seal_keys);
    let identity_key = seal_keys::unlock(&server, &sealer).await?;
    Ok(Opened { server, sealer, identity_key })
}
