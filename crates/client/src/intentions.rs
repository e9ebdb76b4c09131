//! Intentions: a key that is on the disk before its first attempt is sent, and found again after a restart.
//!
//! *Promised.* When [`Intentions::begin`] returns, the key is flushed: whoever begins the same intention again, in this
//! process or after a crash at any point, gets the same key, until it is finished. A journal belongs to one process at
//! a time; a second one is refused. After a failed write or flush nothing more is begun until it is opened again.
//!
//! *After a crash.* A record that was being written may be cut: it was never acknowledged, so nothing was sent under
//! its key, and it is thrown away. A record that is damaged otherwise stops the opening: a lost key would be a second
//! effect. *Not promised.* The name is the caller's: it must name one intention for ever, or until it is finished.
//!
//! One file of lines, `CHECKSUM JSON`, and a lock beside it (`….lock`). It holds keys: on Unix only its owner can read
//! it. Concurrent writers share one flush.

mod journal;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::OperationKey;
use crate::limits::{INTENTION_NAME_BYTES_MAX, INTENTIONS_MAX};
use journal::Journal;

/// The kept intentions of this process.
#[derive(Clone)]
pub struct Intentions(Arc<Journal>);

/// One intention and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intention {
    /// The caller's name for it.
    pub name: String,
    /// Its key, the same in every attempt.
    pub key: OperationKey,
    /// It was begun before and not finished: there may have been attempts.
    pub found: bool,
    /// How long ago it was begun, by this host's clock.
    pub age: Duration,
}

/// Why an intention cannot be begun or finished.
#[derive(Debug, thiserror::Error)]
pub enum IntentionError {
    /// Another process has the journal.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// It cannot be read or written.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// A record is damaged: its key is lost, and a new one could be a second effect.
    #[error("{path} is damaged at byte {at}; without that record its operation's key is not known")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        at: usize,
    },
    /// An earlier write failed. Open it again.
    #[error("an earlier write to the journal failed; open it again")]
    Poisoned,
    /// It is full.
    #[error("there are {INTENTIONS_MAX} open intentions already")]
    Full,
    /// The name is empty or too long.
    #[error("the name of an intention has 1 to {INTENTION_NAME_BYTES_MAX} bytes")]
    Name,
    /// The intention is open under another key.
    #[error("this intention was begun with another key")]
    OtherKey,
}

impl Intentions {
    /// Opens the journal, or makes it. Blocks on the disk.
    ///
    /// # Errors
    /// In use by another process, damaged, or not readable and writable.
    pub fn open(path: impl AsRef<Path>) -> Result<Intentions, IntentionError> {
        Journal::open(path.as_ref()).map(|journal| Intentions(Arc::new(journal)))
    }

    /// The intention with this name: found with its key, or begun with a new one. Durable when this returns. Blocks on
    /// the disk.
    ///
    /// # Errors
    /// Nothing may be sent then: the key is not certain to be found again.
    pub fn begin(&self, name: &str) -> Result<Intention, IntentionError> {
        self.0.begin(name, None)
    }

    /// As [`Intentions::begin`], with a key of the business for an intention that is new.
    ///
    /// # Errors
    /// Also when it was begun with another key.
    pub fn begin_with(&self, name: &str, key: &OperationKey) -> Result<Intention, IntentionError> {
        self.0.begin(name, Some(key))
    }

    /// Removes an intention whose operation is final. Durable when this returns. Blocks on the disk. What is not open
    /// is no error. Never for an operation that may still happen: the next one of this name would get a new key.
    ///
    /// # Errors
    /// The intention may be found again, with its old key.
    pub fn finish(&self, name: &str) -> Result<(), IntentionError> {
        self.0.finish(name)
    }

    /// All open intentions, oldest first.
    pub fn open_intentions(&self) -> Vec<Intention> {
        self.0.all()
    }
}

#[cfg(test)]
mod tests;
