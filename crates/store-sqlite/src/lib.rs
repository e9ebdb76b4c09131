//! The SQLite store: one file, one writer with group commit, readers beside it.
//!
//! *Promises.* What was acknowledged is in the write-ahead log and synced: it survives SIGKILL, and it survives a
//! loss of power as far as the disk keeps what it says it has synced. What was not acknowledged may or may not be
//! there. Several processes may open one file; SQLite's own locks let one of them write at a time, and whoever loses
//! a race is told so.
//!
//! *After a crash* the next one to open the file finds every acknowledged transition; SQLite replays the log.
//! Leases of the dead process end by the stored time.
//!
//! *It does not* decide anything, retry anything, or work on a network file system: SQLite's locks do not hold there.
//! Bytes of deleted payloads are overwritten in the database, and they leave the log when it is next truncated, which
//! happens when the store is idle or closed.

mod acts;
mod advance;
mod atomic;
mod batch;
mod check;
mod checkpoint;
mod claim;
mod closure;
mod companion;
mod connection;
mod consume;
mod counts;
mod errand;
mod error;
mod events;
mod fence;
mod file;
mod guest;
mod header;
mod hot;
mod inbox;
mod inbox_row;
mod inbox_store;
mod interrupted;
mod inventory;
mod job;
mod list;
mod migrate;
mod open;
mod outbox;
mod outbox_row;
mod outbox_store;
mod outcome;
mod outgoing;
mod own;
mod permits;
mod probes;
mod projection;
mod queue;
mod read;
mod readers;
mod row;
mod seal_keys;
#[cfg(test)]
mod sql;
mod stats;
mod steps;
mod store;
mod survey;
mod sweep;
mod tx;
mod versions;
mod writer;

pub use closure::SqliteWork;
pub use error::OpenError;
#[doc(hidden)]
pub use migrate::Migration;
pub use onefold_store::Applied;
pub use open::{FileUse, Options};
pub use stats::Stats;
pub use store::SqliteStore;
pub use tx::SqliteTx;

/// The latest schema that this release knows: it migrates to it, and works on later ones that allow it.
pub const SCHEMA_VERSION: u32 = migrate::LATEST;
