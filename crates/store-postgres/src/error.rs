//! Why a store does not open, in sentences for whoever has to mend it; and what an error of the server means.
//!
//! An open that fails has changed nothing but perhaps the schema, and that by whole migrations. No sentence repeats
//! an address, since people write passwords into them.

use onefold_store::{KeyId, StoreError};
use tokio_postgres::error::SqlState;

/// Why the store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is no address of a PostgreSQL database.
    #[error("the address of the store cannot be used: {0}")]
    Address(String),
    /// Nobody answers, or not as a PostgreSQL server does.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The server refuses the user, or the user may not do what is needed.
    #[error("the database refuses: {0}")]
    Denied(String),
    /// The server is older than what the statements need.
    #[error("the server is PostgreSQL {found}; Onefold needs {needed} or later")]
    TooOld {
        /// The server's major version.
        found: i32,
        /// The oldest that is enough.
        needed: i32,
    },
    /// The server takes no writes.
    #[error("the database is read-only ({0}); the store needs the primary server")]
    ReadOnly(String),
    /// A later release has migrated the schema, and this one may not work on it.
    #[error(
        "the store in the database {database} has schema {found}, on which releases of schema {min_reader} or later may work; this release is of schema {known}: start the release that migrated it, or a later one"
    )]
    Newer {
        /// The database that the store is in.
        database: String,
        /// The schema of the database.
        found: u32,
        /// The oldest schema whose release may work on it.
        min_reader: u32,
        /// The latest schema of this release.
        known: u32,
    },
    /// The schema is old or absent, and migrating is off.
    #[error("the store has schema {found} and this release needs {needed}; run `onefold store migrate`")]
    NeedsMigration {
        /// The schema of the database; 0 when there is none.
        found: u32,
        /// The schema of this release.
        needed: u32,
    },
    /// Others held the tables that a migration changes.
    #[error(
        "the store could not be migrated: for {waited_s} s its tables were held ({by}); nothing was changed by this migration: end that, or start again when it has ended"
    )]
    Held {
        /// How long they were waited for, in seconds.
        waited_s: u64,
        /// Who held them at last.
        by: String,
    },
    /// The schema `onefold` belongs to something else.
    #[error("the database has a schema `onefold` that is not Onefold's; it was left untouched")]
    Foreign,
    /// The store is sealed and no key is configured.
    #[error("the store is encrypted and no key is configured; it needs the key {0}")]
    NoKey(KeyId),
    /// The store is sealed under a key that is not among the configured ones.
    #[error("the store is encrypted under the key {0}, which is not among the configured keys")]
    OtherKey(KeyId),
    /// The content is not what a release wrote.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Anything else the server says.
    #[error("the database cannot be used as a store: {0}")]
    Other(String),
}

impl From<Failed> for OpenError {
    fn from(failed: Failed) -> OpenError {
        match failed {
            Failed::Unreachable(why) | Failed::Lost(why) => OpenError::Unreachable(why),
            Failed::Denied(why) => OpenError::Denied(why),
            Failed::ReadOnly(why) => OpenError::ReadOnly(why),
            Failed::Rerun(why) | Failed::Refused(why) | Failed::Server(why) => OpenError::Other(why),
        }
    }
}

/// What became of a statement that was not carried out, or of which nobody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// It was never sent: no connection could be had.
    Unreachable(String),
    /// It was sent and its answer was lost: it may or may not have been carried out, or be under way still.
    Lost(String),
    /// Another transaction came in between; it had no effect and may be run again.
    Rerun(String),
    /// What it says can never be stored.
    Refused(String),
    /// The user may not.
    Denied(String),
    /// The server takes no writes now.
    ReadOnly(String),
    /// Any other word of the server.
    Server(String),
}

impl Failed {
    /// What an error of a statement means.
    pub(crate) fn of(error: &tokio_postgres::Error) -> Failed {
        let Some(told) = error.as_db_error() else {
            return if unsent(error) { Failed::Refused(words(error)) } else { Failed::Lost(words(error)) };
        };
        let why = format!("{} ({})", told.message(), told.code().code());
        match told.code() {
            code if *code == SqlState::T_R_SERIALIZATION_FAILURE
                || *code == SqlState::T_R_DEADLOCK_DETECTED =>
            {
                Failed::Rerun(why)
            }
            code if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Failed::ReadOnly(why),
            code if *code == SqlState::INSUFFICIENT_PRIVILEGE => Failed::Denied(why),
            // The session ends: an administrator, a crash or a time-out of the server; a transaction of ours may have
            // been committed just before.
            code if code.code().starts_with("57P") || code.code().starts_with("08") => Failed::Lost(why),
            // What was prepared on this connection is gone, or returns other columns since the schema was changed.
            code if *code == SqlState::INVALID_SQL_STATEMENT_NAME
                || *code == SqlState::DUPLICATE_PSTATEMENT
                || (*code == SqlState::FEATURE_NOT_SUPPORTED && told.message().contains("cached plan")) =>
            {
                Failed::Lost(why)
            }
            // Data that the server cannot take, a constraint, or a limit of the program.
            code if ["22", "23", "54"].iter().any(|class| code.code().starts_with(class)) => {
                Failed::Refused(why)
            }
            _ => Failed::Server(why),
        }
    }

    /// Whether the connection is of no more use: it is broken, or its server is no longer the one to write to.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(self, Failed::Lost(_) | Failed::ReadOnly(_))
    }
}

/// Whether the statement could not be written, as a value that is too long, so that no byte of it was sent. The
/// driver says so in words alone.
fn unsent(error: &tokio_postgres::Error) -> bool {
    let words = error.to_string();
    words.starts_with("error serializing parameter") || words.starts_with("error encoding message")
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> StoreError {
        match failed {
            Failed::Refused(why) => StoreError::Refused(why),
            Failed::Unreachable(why) => {
                StoreError::Unavailable(format!("no connection to the database: {why}"))
            }
            Failed::Lost(why) => {
                StoreError::Unavailable(format!("the connection to the database was lost: {why}"))
            }
            Failed::Rerun(why) => {
                StoreError::Unavailable(format!("too many transactions came in between: {why}"))
            }
            Failed::ReadOnly(why) => StoreError::Unavailable(format!("the database is read-only: {why}")),
            Failed::Denied(why) | Failed::Server(why) => StoreError::Unavailable(why),
        }
    }
}

/// An error with what caused it, without the parameters of the connection.
pub(crate) fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        source = cause.source();
    }
    words
}
