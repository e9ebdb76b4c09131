//! Rows of the inbox as entries, read beside the writer or by it; a kept message is opened on the caller's side.

use onefold_core::{Fingerprint, InboxEntry, InboxState, Key, MessageIdentity, OperationId, StoreTime};
use onefold_store::codec::decode_message;
use onefold_store::{InboxPage, InboxQuery, InboxSurvey, Judge, KeptMessage, Sealer, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use crate::read;
use crate::row::unknown;

macro_rules! entries {
    ($rest:literal) => {
        concat!(
            "SELECT i.seq, i.id, i.round, i.state, i.failures, i.duplicates, i.conflicts, i.received_at, i.ended_at,
                i.expires_at, i.consumer, i.source, i.message, i.handler, i.fingerprint_version, i.fingerprint,
                i.reason, i.kept IS NOT NULL FROM onefold_inbox i ",
            $rest
        )
    };
}

const OF: &str = entries!("WHERE i.id = ?1 ORDER BY i.round");
const ALL: &str = entries!(
    "WHERE i.seq > :cursor
        AND (:state IS NULL OR i.state = :state) AND (:consumer IS NULL OR i.consumer = :consumer)
        AND (:source IS NULL OR i.source = :source) AND (:handler IS NULL OR i.handler = :handler)
        AND (:message IS NULL OR i.message = :message) AND (NOT :conflicts OR i.conflicts > 0)
    ORDER BY i.seq"
);
/// The same, over those that are not done alone: they are few.
const NOT_DONE: &str = entries!(
    "INDEXED BY onefold_inbox_open WHERE i.state IN (0, 4) AND i.seq > :cursor
        AND i.state = :state AND (:consumer IS NULL OR i.consumer = :consumer)
        AND (:source IS NULL OR i.source = :source) AND (:handler IS NULL OR i.handler = :handler)
        AND (:message IS NULL OR i.message = :message) AND (NOT :conflicts OR i.conflicts > 0)
    ORDER BY i.seq"
);
const KEPT: &str = "SELECT kept FROM onefold_inbox WHERE id = ?1 AND round = ?2";
const SURVEY: &str =
    "SELECT state, count(*), min(ended_at) FROM onefold_inbox WHERE state IN (0, 4) GROUP BY state";

const DUE: &str = "SELECT i.expires_at FROM onefold_inbox i WHERE i.expires_at IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM onefold_outbox_open o WHERE o.cause = i.id) ORDER BY i.expires_at LIMIT 1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[OF, ALL, NOT_DONE, KEPT, SURVEY, DUE];

/// The stored number of a state.
pub(crate) fn state_number(state: InboxState) -> i64 {
    match state {
        InboxState::Failing => 0,
        InboxState::Processed => 1,
        InboxState::Rejected => 2,
        InboxState::Superseded => 3,
        InboxState::Parked => 4,
    }
}

fn state_of(number: i64) -> rusqlite::Result<InboxState> {
    let state = InboxState::ALL.into_iter().find(|state| state_number(*state) == number);
    state.ok_or_else(|| unknown("the state of a message", number))
}

/// A text that is a sender's id.
pub(crate) fn key(row: &Row<'_>, column: usize) -> rusqlite::Result<Key> {
    Key::new(row.get::<_, String>(column)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}

fn entry(row: &Row<'_>) -> rusqlite::Result<InboxEntry> {
    let count = |column: usize| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)?.max(0).unsigned_abs());
    Ok(InboxEntry {
        id: OperationId::from_bytes(row.get(1)?),
        round: row.get(2)?,
        state: state_of(row.get(3)?)?,
        failures: row.get(4)?,
        duplicates: count(5)?,
        conflicts: count(6)?,
        received_at: StoreTime(row.get(7)?),
        ended_at: StoreTime(row.get(8)?),
        expires_at: row.get::<_, Option<i64>>(9)?.map(StoreTime),
        identity: MessageIdentity { consumer: row.get(10)?, source: row.get(11)?, message: key(row, 12)? },
        handler: row.get(13)?,
        fingerprint: Fingerprint { version: row.get(14)?, digest: row.get(15)? },
        reason: row.get(16)?,
        kept: row.get(17)?,
    })
}

/// Every entry of an identity, in the order of the rounds.
pub(crate) fn entries(id: OperationId, connection: &Connection) -> rusqlite::Result<Vec<InboxEntry>> {
    connection.prepare_cached(OF)?.query_map([id.as_bytes()], entry)?.collect()
}

/// Lists one page.
pub(crate) fn list(
    query: &InboxQuery,
    connection: &Connection,
    judge: &Judge,
) -> rusqlite::Result<InboxPage> {
    let now = read::moment(connection, judge)?.time;
    let waits = matches!(query.state, Some(InboxState::Failing | InboxState::Parked));
    let mut statement = connection.prepare_cached(if waits { NOT_DONE } else { ALL })?;
    let mut rows = statement.query(named_params! {
        ":cursor": query.cursor.unwrap_or(0),
        ":state": query.state.map(state_number),
        ":consumer": query.consumer,
        ":source": query.source,
        ":handler": query.handler,
        ":message": query.message.as_ref().map(Key::as_str),
        ":conflicts": query.conflicts,
    })?;
    let (mut page, mut last) = (InboxPage { now, ..InboxPage::default() }, None);
    while let Some(row) = rows.next()? {
        if page.entries.len() == query.limit.clamp(1, 1000) as usize {
            page.next_cursor = last;
            break;
        }
        last = Some(row.get(0)?);
        page.entries.push(entry(row)?);
    }
    Ok(page)
}

/// The sealed form of a message.
pub(crate) fn kept(
    id: OperationId,
    round: u32,
    connection: &Connection,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut statement = connection.prepare_cached(KEPT)?;
    let form = statement.query_row(params![id.as_bytes(), round], |row| row.get(0)).optional()?;
    Ok(form.flatten())
}

/// Opens a sealed form.
pub(crate) fn open(id: OperationId, form: &[u8], sealer: &Sealer) -> Result<KeptMessage, StoreError> {
    let refused = |why: String| StoreError::Refused(format!("the content of a message: {why}"));
    let plain = sealer.open(&id, form).map_err(|error| refused(error.to_string()))?;
    decode_message(&plain).map_err(|error| refused(error.to_string()))
}

/// Counts what stands.
pub(crate) fn survey(connection: &Connection, judge: &Judge) -> rusqlite::Result<InboxSurvey> {
    let now = read::moment(connection, judge)?.time;
    let due: Option<i64> = connection.prepare_cached(DUE)?.query_row([], |row| row.get(0)).optional()?;
    let sweep_lag = due.map_or(std::time::Duration::ZERO, |due| StoreTime(due).until(now));
    let mut survey = InboxSurvey { sweep_lag, ..InboxSurvey::default() };
    let mut statement = connection.prepare_cached(SURVEY)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let count = row.get::<_, i64>(1)?.unsigned_abs();
        if state_of(row.get(0)?)? == InboxState::Parked {
            survey.parked = count;
            survey.parked_oldest = Some(StoreTime(row.get(2)?).until(now));
        } else {
            survey.failing = count;
        }
    }
    Ok(survey)
}
