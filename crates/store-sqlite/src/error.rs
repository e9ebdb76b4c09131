//! Why a store does not open, in sentences for whoever has to mend it; and what an error of SQLite means to a job.
//!
//! An open that fails has changed nothing: no file of another program is touched, and no schema is half made.

use std::path::PathBuf;

use onefold_store::{KeyId, StoreError};
use rusqlite::ErrorCode;

/// Why the store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory of the path is missing.
    #[error("the directory {} does not exist; create it first", .0.display())]
    NoDirectory(PathBuf),
    /// The file is no SQLite database.
    #[error("{} is not a SQLite database; it was left untouched", .0.display())]
    NotADatabase(PathBuf),
    /// The file is a SQLite database of something else.
    #[error("{} is a database of another program; it was left untouched", .0.display())]
    Foreign(PathBuf),
    /// The file or its directory cannot be written.
    #[error("{} or its directory is read-only; the store must be able to write both", .0.display())]
    ReadOnly(PathBuf),
    /// The file is a service's, and its journal is not the write-ahead log.
    #[error(
        "{} does not keep a write-ahead log, which records and business rows need to be committed together; run `PRAGMA journal_mode = WAL` on it once", .0.display()
    )]
    NotInLogMode(PathBuf),
    /// A later release has migrated the schema, and this one may not work on it.
    #[error(
        "the store {} has schema {found}, on which releases of schema {min_reader} or later may work; this release is of schema {known}: start the release that migrated it, or a later one", .path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// The schema of the file.
        found: u32,
        /// The oldest schema whose release may work on it.
        min_reader: u32,
        /// The latest schema of this release.
        known: u32,
    },
    /// There is no store, and migrating is off.
    #[error(
        "there is no store at {}; if there should be one, put it back: `onefold store migrate` makes a new, empty one, in which every key used so far is new",
        .0.display()
    )]
    Absent(PathBuf),
    /// The schema is old, and migrating is off.
    #[error("the store has schema {found} and this release needs {needed}; run `onefold store migrate`")]
    NeedsMigration {
        /// The schema of the file.
        found: u32,
        /// The schema of this release.
        needed: u32,
    },
    /// The store is sealed and no key is configured.
    #[error("the store is encrypted and no key is configured; it needs the key {0}")]
    NoKey(KeyId),
    /// The store is sealed under a key that is not among the configured ones.
    #[error("the store is encrypted under the key {0}, which is not among the configured keys")]
    OtherKey(KeyId),
    /// Another process holds the file.
    #[error("{} is locked by another process", .0.display())]
    Locked(PathBuf),
    /// The content is not what this release wrote.
    #[error("{} is damaged: {detail}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// Anything else the operating system or SQLite says.
    #[error("{} cannot be opened: {detail}", .path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// What they say.
        detail: String,
    },
}

impl OpenError {
    pub(crate) fn sqlite(path: &std::path::Path, error: &rusqlite::Error) -> OpenError {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::Locked(path),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                OpenError::ReadOnly(path)
            }
            Some(ErrorCode::NotADatabase) => OpenError::NotADatabase(path),
            Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged { path, detail: error.to_string() },
            _ => OpenError::Other { path, detail: error.to_string() },
        }
    }

    pub(crate) fn io(path: &std::path::Path, error: &std::io::Error) -> OpenError {
        let path = path.to_owned();
        match error.kind() {
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                OpenError::ReadOnly(path)
            }
            _ => OpenError::Other { path, detail: error.to_string() },
        }
    }
}

/// What went wrong inside a job.
#[derive(Debug)]
pub(crate) enum JobError {
    /// This job alone cannot be done.
    Job(StoreError),
    /// The transaction is lost, with every job in it.
    Batch(StoreError),
}

impl From<rusqlite::Error> for JobError {
    fn from(error: rusqlite::Error) -> JobError {
        match error.sqlite_error_code() {
            Some(ErrorCode::TooBig) => {
                JobError::Job(StoreError::Refused("it is too big to be stored".into()))
            }
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => {
                JobError::Job(StoreError::Refused(error.to_string()))
            }
            // An error that SQLite does not make is a row that does not read.
            None => JobError::Job(StoreError::Refused(format!("a stored record cannot be read: {error}"))),
            Some(_) => JobError::Batch(unavailable(&error)),
        }
    }
}

/// An error after the job has begun to write: the job cannot be taken back by itself, so the transaction is lost.
pub(crate) fn whole_batch(error: rusqlite::Error) -> JobError {
    JobError::Batch(unavailable(&error))
}

/// Another process was in the way: nothing of the transaction was begun.
pub(crate) const LOCKED: &str = "another process holds the write lock";
/// A promise of the business's own tables (a deferred foreign key) was found broken at the commit of several.
pub(crate) const BROKEN: &str = "a deferred constraint was broken by somebody in this transaction";
/// The same, at the commit of one alone.
pub(crate) const BROKEN_ALONE: &str = "it leaves a deferred constraint broken";

/// Whether a transaction was lost at its commit by a promise of the business's own tables.
pub(crate) fn is_broken_constraint(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(why) if why == BROKEN || why == BROKEN_ALONE)
}

/// What a caller is told of an error of SQLite.
pub(crate) fn unavailable(error: &rusqlite::Error) -> StoreError {
    StoreError::Unavailable(match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => LOCKED.into(),
        Some(ErrorCode::DiskFull) => "the disk is full".into(),
        _ => error.to_string(),
    })
}

/// What a reader is told of an error of SQLite, or of a row that does not read.
pub(crate) fn read_failed(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(_) => unavailable(error),
        None => StoreError::Refused(format!("a stored record cannot be read: {error}")),
    }
}
