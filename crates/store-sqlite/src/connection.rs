//! How connections to the file are opened, and the settings that durability and speed rest on.
//!
//! `journal_mode = WAL` and `synchronous = FULL`: a commit returns when its part of the log is synced.
//! `secure_delete = ON`: freed bytes are overwritten, so that a payload that was dropped is not in a copy of the file.
//! Checkpoints do not happen on the writing connection; the checkpointer has one of its own.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

/// How long a statement waits for another process's lock. A caller is not to be held much longer than this.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// Page cache of the writer: the dirty pages of the largest batch, the inner pages of a million records, recent leaves.
/// Not more: a commit that has split a page of an index walks over the whole cache, and a page that is not in it is
/// still in the system's.
const WRITER_CACHE_KIB: i64 = 8 * 1024;
/// Page cache of each reader.
const READER_CACHE_KIB: i64 = 4 * 1024;
/// The checkpointer copies pages without keeping them.
const CHECKPOINTER_CACHE_KIB: i64 = 64;
/// Statements kept prepared: ours, which are fewer, and those of closures.
const STATEMENTS: usize = 128;

/// The connection of the writer.
pub(crate) fn writer(path: &Path, record_bytes_max: i32) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    settings(&connection, WRITER_CACHE_KIB)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, record_bytes_max)?;
    Ok(connection)
}

/// Switches the log on, for this connection and in the file. Says whether it is on.
pub(crate) fn switch_log_on(connection: &Connection) -> rusqlite::Result<bool> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(mode == "wal")
}

/// A connection that only reads.
pub(crate) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    settings(&connection, READER_CACHE_KIB)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// The connection of the checkpointer.
pub(crate) fn checkpointer(path: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    settings(&connection, CHECKPOINTER_CACHE_KIB)?;
    connection.busy_timeout(busy_timeout)?;
    Ok(connection)
}

fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    // No SQLITE_OPEN_URI, and the path is absolute: no name of a file means anything but that file.
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

fn settings(connection: &Connection, cache_kib: i64) -> rusqlite::Result<()> {
    // A plan does not depend on what is bound: otherwise a statement may be prepared again each time it is used.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -cache_kib)
}
