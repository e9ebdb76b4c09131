//! The PostgreSQL store: one database for any number of gateways.
//!
//! *Promises.* What was acknowledged is committed; it survives whatever the server's commits survive (see
//! [`check`](PostgresStore::check) for settings under which that is less than it should be). All time is the
//! server's. Every transition is one conditional statement; whoever loses a race is told so. Nothing lives in a session
//! but the plans of statements, and those only where no pooler stands between, so one in transaction mode may.
//!
//! *After a crash* of a gateway every acknowledged transition stands, and its leases end by the stored time. What was
//! not acknowledged may or may not be there. A request whose connection was lost is sent once more and recognises its
//! own work by a nonce; serialization failures and deadlocks are rerun; nothing else is.
//!
//! *It does not* decide anything, and it reads no replica: one that is read-only is refused. Under asynchronous
//! replication a failover can lose what was acknowledged last.

mod about;
mod acts;
mod address;
mod advance;
mod alone;
mod ask;
mod atomic;
mod batch;
mod begin;
mod check;
mod claim;
mod committed;
mod companion;
mod consume;
mod counts;
mod driver;
mod error;
mod events;
mod forbidden;
mod grants;
mod guest;
mod held;
mod inbox;
mod inbox_row;
mod inbox_store;
mod interrupted;
mod inventory;
mod lanes;
mod list;
mod low_water;
mod marks;
mod migrate;
mod open;
mod outbox;
mod outbox_row;
mod outbox_store;
mod outgoing;
mod own;
mod param;
mod permits;
mod prepared;
mod probes;
mod projection;
mod read;
mod row;
mod seal_keys;
mod server;
#[cfg(test)]
mod sql;
mod stats;
mod steps;
mod store;
mod survey;
mod sweep;
mod tls;
mod tx;
mod versions;

pub use address::Address;
pub use atomic::{Ending, PostgresWork};
pub use driver::{BinaryParam, Columns, Guest};
pub use error::OpenError;
#[doc(hidden)]
pub use migrate::Migration;
pub use onefold_store::Applied;
pub use open::Options;
pub use param::Param;
pub use stats::Stats;
pub use store::PostgresStore;
pub use tx::{PostgresTx, TxError};

/// The latest schema that this release knows: it migrates to it, and works on later ones that allow it.
pub const SCHEMA_VERSION: u32 = migrate::LATEST;
