//! The history of a record: what happened to it beside its transitions.

use onefold_core::{Event, EventKind, OperationId, StoreTime};
use onefold_store::{NewEvent, crash};
use rusqlite::{Connection, params};

use crate::batch::Batch;
use crate::row::unknown;

const ADD: &str = "INSERT INTO onefold_events (operation, at, kind, attempt, who, reason, evidence)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
const OF: &str = "SELECT e.at, e.kind, e.attempt, e.who, e.reason, e.evidence FROM onefold_events e
    WHERE e.operation = (SELECT seq FROM onefold_operations WHERE id = ?1) ORDER BY e.seq";
const DELETE: &str = "DELETE FROM onefold_events WHERE operation = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[ADD, OF, DELETE];

/// Adds to the history of the record with this seq.
pub(crate) fn add(seq: i64, attempt: u32, event: &NewEvent, batch: &mut Batch<'_>) -> rusqlite::Result<()> {
    crash::point("sqlite.event.before");
    batch.connection.prepare_cached(ADD)?.execute(params![
        seq,
        batch.now_ms(),
        kind_number(event.kind),
        attempt,
        event.who,
        event.reason,
        event.evidence,
    ])?;
    crash::point("sqlite.event.after");
    batch.wrote();
    Ok(())
}

/// The history of a record, oldest first.
pub(crate) fn of(id: OperationId, connection: &Connection) -> rusqlite::Result<Vec<Event>> {
    let mut statement = connection.prepare_cached(OF)?;
    let events = statement.query_map([id.as_bytes()], |row| {
        Ok(Event {
            at: StoreTime(row.get(0)?),
            kind: kind_of(row.get(1)?)?,
            attempt: row.get(2)?,
            who: row.get(3)?,
            reason: row.get(4)?,
            evidence: row.get(5)?,
        })
    })?;
    events.collect()
}

/// Forgets the history of the record with this seq.
pub(crate) fn delete(seq: i64, batch: &Batch<'_>) -> rusqlite::Result<()> {
    batch.connection.prepare_cached(DELETE)?.execute([seq])?;
    Ok(())
}

const KINDS: [(i64, EventKind); 8] = [
    (0, EventKind::Unknown),
    (1, EventKind::Resolved),
    (2, EventKind::Released),
    (3, EventKind::LateSuccess),
    (4, EventKind::Happened),
    (5, EventKind::DidNotHappen),
    (6, EventKind::Inconclusive),
    (7, EventKind::Escalated),
];

fn kind_number(kind: EventKind) -> i64 {
    match kind {
        EventKind::Unknown => 0,
        EventKind::Resolved => 1,
        EventKind::Released => 2,
        EventKind::LateSuccess => 3,
        EventKind::Happened => 4,
        EventKind::DidNotHappen => 5,
        EventKind::Inconclusive => 6,
        EventKind::Escalated => 7,
    }
}

fn kind_of(number: i64) -> rusqlite::Result<EventKind> {
    let kind = KINDS.iter().find(|(known, _)| *known == number);
    kind.map(|(_, kind)| *kind).ok_or_else(|| unknown("the kind of event", number))
}
