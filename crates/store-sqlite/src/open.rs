//! Opening a store: everything is looked at before anything is changed.
//!
//! A file of another program, of a later release that shuts this one out, or sealed under a key that is not there is
//! refused and left as it is. After a successful open the schema is the latest that this release knows, or a later one
//! that allows it, the log is on, and the threads run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use onefold_core::{IdentityKey, StoreTime};
use onefold_store::{Clock, Gravity, Judge, Sealer, SystemClock, Timeline, clock_of_the_host};
use rusqlite::Connection;

use crate::OpenError;
use crate::file::{self, FileId};
use crate::header::{self, Found};
use crate::migrate::{self, Migrate, Migration};
use crate::{connection, seal_keys};

/// The latest time that was committed.
pub(crate) const FLOOR: &str = "SELECT at FROM onefold_clock WHERE one = 1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[FLOOR];

/// The longest record, in bytes, unless the options say otherwise: far above what a contract keeps by default.
const RECORD_BYTES_MAX: i32 = 256 << 20;

/// How long a closure may hold the writer, unless the options say otherwise: everybody else waits meanwhile.
const CLOSURE_TIME_MAX: Duration = Duration::from_secs(1);

/// Whose file it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileUse {
    /// The layer's own: a file of another program is refused.
    #[default]
    Own,
    /// A service's, which keeps its tables there too: the layer's tables are added, and all else is left as it is. Its
    /// journal must be the write-ahead log; a new file gets it.
    Shared,
}

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// The keys that seal payloads: the first writes, all read. None: payloads stay plain.
    pub seal_keys: Vec<[u8; 32]>,
    /// Whether an old or absent schema is brought to the latest; otherwise it is an error.
    pub migrate: bool,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// The longest record, in bytes; a longer one is refused.
    pub record_bytes_max: i32,
    /// Whose file it is.
    pub file_use: FileUse,
    /// How long a closure of atomic mode may hold the writer. Statements beyond it are interrupted.
    pub closure_time_max: Duration,
    /// For tests alone: one migration more, as a later release has.
    #[doc(hidden)]
    pub test_migration: Option<Migration>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seal_keys: Vec::new(),
            migrate: true,
            clock: Arc::new(SystemClock::new()),
            record_bytes_max: RECORD_BYTES_MAX,
            file_use: FileUse::default(),
            closure_time_max: CLOSURE_TIME_MAX,
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
            .field("clock", &self.clock)
            .field("record_bytes_max", &self.record_bytes_max)
            .field("file_use", &self.file_use)
            .field("closure_time_max", &self.closure_time_max)
            .finish_non_exhaustive()
    }
}

/// A file that was opened and made ready.
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) file: FileId,
    pub(crate) connection: Connection,
    pub(crate) sealer: Sealer,
    pub(crate) identity_key: IdentityKey,
    pub(crate) judge: Judge,
}

/// Opens the file and makes it ready.
pub(crate) fn open(path: &Path, options: &Options) -> Result<Opened, OpenError> {
    let path = std::path::absolute(path).map_err(|error| OpenError::io(path, &error))?;
    let path = path.as_path();
    let sqlite = |error: rusqlite::Error| OpenError::sqlite(path, &error);
    check_directory(path)?;
    let migrate = if options.migrate { Migrate::Yes } else { Migrate::No };
    match header::inspect(path)? {
        Found::Nothing if migrate == Migrate::No => return Err(OpenError::Absent(path.to_owned())),
        Found::Nothing => {
            file::make(path).map_err(|error| OpenError::io(path, &error))?;
            tracing::warn!(path = %path.display(), "a new, empty store was made: every key is new to it");
        }
        Found::Foreign { .. } if options.file_use == FileUse::Own => {
            return Err(OpenError::Foreign(path.to_owned()));
        }
        Found::Foreign { log: false } => return Err(OpenError::NotInLogMode(path.to_owned())),
        Found::Foreign { log: true } | Found::Ours => check_writable(path)?,
    }
    let file = FileId::at(path).map_err(|error| OpenError::io(path, &error))?;
    let mut connection = connection::writer(path, options.record_bytes_max).map_err(sqlite)?;
    if connection.is_readonly("main").map_err(sqlite)? {
        return Err(OpenError::ReadOnly(path.to_owned()));
    }
    let known = migrate::known(options.test_migration);
    migrate::run(&mut connection, path, migrate, options.file_use, &known)?;
    if !connection::switch_log_on(&connection).map_err(sqlite)? {
        return Err(OpenError::NotInLogMode(path.to_owned()));
    }
    let sealer = Sealer::new(&options.seal_keys);
    let identity_key = seal_keys::unlock(&mut connection, path, &sealer)?;
    let floor = connection.query_row(FLOOR, [], |row| row.get(0)).map_err(sqlite)?;
    let clock = clock_of_the_host(StoreTime(floor), options.clock.wall());
    if clock.gravity == Gravity::Warning {
        tracing::warn!(check = clock.what, "{}", clock.says);
    }
    let judge = Judge::new(Timeline::new(options.clock.clone(), StoreTime(floor)));
    Ok(Opened { path: path.to_owned(), file, connection, sealer, identity_key, judge })
}

fn check_directory(path: &Path) -> Result<(), OpenError> {
    match path.parent() {
        Some(directory) if !directory.is_dir() => Err(OpenError::NoDirectory(directory.to_owned())),
        _ => Ok(()),
    }
}

/// SQLite would silently open a file that it may not write for reading only.
fn check_writable(path: &Path) -> Result<(), OpenError> {
    std::fs::OpenOptions::new().write(true).open(path).map(drop).map_err(|error| OpenError::io(path, &error))
}
