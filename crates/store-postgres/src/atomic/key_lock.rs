//! The lock of a key: whoever performs an operation has it until the end of the transaction.
//!
//! It only keeps duplicates from beginning; the judge is the unique digest. Whoever must know what became of another
//! transaction waits for it, within bounds.

use std::time::Duration;

use onefold_core::OperationId;
use tokio_postgres::SimpleQueryMessage;
use tokio_postgres::error::SqlState;

use crate::error::Failed;
use crate::held::Held;

/// How long the lock of a key is waited for by whoever must know what became of the transaction that held it.
pub(crate) const LOCK_WAIT_MAX: Duration = Duration::from_secs(5);

/// The lock of a key: any number that no other operation is likely to have.
pub(crate) fn lock(id: OperationId) -> i64 {
    let [.., a, b, c, d, e, f, g, h] = *id.as_bytes();
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The statements that begin a transaction and take the lock of a key in it, if nobody has it; see [`tried`]. The
/// lock ends with the transaction.
pub(super) fn trying(id: OperationId) -> String {
    format!("BEGIN; SELECT pg_try_advisory_xact_lock({})", lock(id))
}

/// Sends such statements. False: another transaction has the lock.
pub(super) async fn tried(held: &Held, sql: &str) -> Result<bool, Failed> {
    let answers = held.simple_query(sql).await.map_err(|error| Failed::of(&error))?;
    let taken = answers.into_iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row.get(0) == Some("t")),
        _ => None,
    });
    Ok(taken.unwrap_or(false))
}

/// The same, waiting for the lock, which has an end of its own.
pub(super) fn beginning(id: OperationId) -> String {
    begin_with("BEGIN", id)
}

/// The same, for a transaction that is begun so.
pub(crate) fn begin_with(begin: &str, id: OperationId) -> String {
    format!("{begin}; {}", locking(id))
}

/// The statements that take the lock in a transaction that is begun.
pub(crate) fn locking(id: OperationId) -> String {
    let (lock, wait_ms) = (lock(id), LOCK_WAIT_MAX.as_millis());
    format!(
        "SET LOCAL lock_timeout = {wait_ms}; SELECT pg_advisory_xact_lock({lock});
        SET LOCAL lock_timeout = DEFAULT"
    )
}

/// What an error of the beginning means.
pub(crate) fn begun(error: &tokio_postgres::Error) -> Failed {
    if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
        return Failed::Rerun("another attempt at this operation holds its key".into());
    }
    Failed::of(error)
}
