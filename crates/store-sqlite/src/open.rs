//! Opening a store: everything is looked at before anything is changed.
//!
//! A file of another program, of a later release, or sealed under a key that is not there is refused and left as it
//! is. After a successful open the schema is the latest, the log is on, and the threads run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_core::{IdentityKey, StoreTime};
use onefold_store::{Clock, Judge, Sealer, SystemClock, Timeline};
use rusqlite::Connection;

use crate::OpenError;
use crate::file::{self, FileId};
use crate::header::{self, Found};
use crate::migrate::{self, Migrate};
use crate::{connection, seal_keys};

const FLOOR: &str = "SELECT at FROM onefold_clock WHERE one = 1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[FLOOR];

/// The longest record, in bytes, unless the options say otherwise: far above what a contract keeps by default.
const RECORD_BYTES_MAX: i32 = 256 << 20;

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
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seal_keys: Vec::new(),
            migrate: true,
            clock: Arc::new(SystemClock::new()),
            record_bytes_max: RECORD_BYTES_MAX,
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
            .finish()
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
        Found::Ours { schema } => {
            migrate::check_known(schema)?;
            check_writable(path)?;
        }
    }
    let file = FileId::at(path).map_err(|error| OpenError::io(path, &error))?;
    let mut connection = connection::writer(path, options.record_bytes_max).map_err(sqlite)?;
    if connection.is_readonly("main").map_err(sqlite)? {
        return Err(OpenError::ReadOnly(path.to_owned()));
    }
    migrate::run(&mut connection, path, migrate)?;
    connection::switch_log_on(&connection).map_err(sqlite)?;
    let sealer = Sealer::new(&options.seal_keys);
    let identity_key = seal_keys::unlock(&mut connection, path, &sealer)?;
    let floor = connection.query_row(FLOOR, [], |row| row.get(0)).map_err(sqlite)?;
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
