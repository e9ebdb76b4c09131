//! What people did to messages: added with the act, forgotten with the message.

use onefold_core::{Act, ActKind, OperationId, StoreTime};
use onefold_store::{Redrive, crash};
use rusqlite::{Connection, params};

use crate::batch::Batch;
use crate::row::unknown;

const ADD: &str =
    "INSERT INTO onefold_acts (message, at, kind, attempt, who, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const OF: &str = "SELECT at, kind, attempt, who, reason FROM onefold_acts WHERE message = ?1 ORDER BY seq";
const FORGET: &str = "DELETE FROM onefold_acts WHERE message = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[ADD, OF, FORGET];

const fn kind_number(kind: ActKind) -> i64 {
    match kind {
        ActKind::Redriven => 0,
        ActKind::Delivered => 1,
        ActKind::Discarded => 2,
    }
}

/// What an act on an outgoing message is called.
pub(crate) const fn kind_of_redrive(redrive: Redrive) -> ActKind {
    match redrive {
        Redrive::SendAgain => ActKind::Redriven,
        Redrive::Delivered => ActKind::Delivered,
        Redrive::Discard => ActKind::Discarded,
    }
}

/// Adds to the history of a message.
pub(crate) fn add(
    message: OperationId,
    kind: ActKind,
    attempt: u32,
    who: &str,
    reason: &str,
    batch: &mut Batch<'_>,
) -> rusqlite::Result<()> {
    let row = params![message.as_bytes(), batch.now_ms(), kind_number(kind), attempt, who, reason];
    batch.connection.prepare_cached(ADD)?.execute(row)?;
    crash::point("sqlite.act.after");
    batch.wrote();
    Ok(())
}

/// The history of a message, oldest first.
pub(crate) fn of(message: OperationId, connection: &Connection) -> rusqlite::Result<Vec<Act>> {
    let mut statement = connection.prepare_cached(OF)?;
    let acts = statement.query_map([message.as_bytes()], |row| {
        let number: i64 = row.get(1)?;
        let kind = ActKind::ALL.into_iter().find(|kind| kind_number(*kind) == number);
        Ok(Act {
            at: StoreTime(row.get(0)?),
            kind: kind.ok_or_else(|| unknown("the kind of act", number))?,
            attempt: row.get(2)?,
            who: row.get(3)?,
            reason: row.get(4)?,
        })
    })?;
    acts.collect()
}

/// Forgets the history of a message.
pub(crate) fn forget(message: OperationId, batch: &Batch<'_>) -> rusqlite::Result<()> {
    batch.connection.prepare_cached(FORGET)?.execute([message.as_bytes()]).map(drop)
}
