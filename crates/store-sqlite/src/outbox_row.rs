//! Rows of the outbox, read beside the writer or taken by it; their content is opened on the caller's side.

use std::time::Duration;

use onefold_core::{IdentityKey, Key, Message, OutboxEntry, OutboxState, StoreTime, outgoing_id};
use onefold_store::codec::decode_message;
use onefold_store::{Judge, KeptMessage, OutboxPage, OutboxQuery, OutboxSurvey, Sealer, StoreError, Taken};
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use crate::read;
use crate::row::unknown;

macro_rules! entries {
    ($from:literal) => {
        concat!(
            "SELECT m.seq, m.id, m.destination, m.address, m.ordering_key, m.created_at, m.form,
                coalesce(o.state, d.state), coalesce(o.attempt, d.attempt), coalesce(o.failures, d.failures),
                CASE o.state WHEN 0 THEN o.due_at END, coalesce(o.ended_at, d.at), coalesce(o.reason, d.reason) ",
            $from
        )
    };
}

const ONE: &str = entries!(
    "FROM onefold_outbox m LEFT JOIN onefold_outbox_open o ON o.seq = m.seq
    LEFT JOIN onefold_outbox_done d ON d.seq = m.seq WHERE m.id = :id"
);
const ALL: &str = entries!(
    "FROM onefold_outbox m LEFT JOIN onefold_outbox_open o ON o.seq = m.seq
    LEFT JOIN onefold_outbox_done d ON d.seq = m.seq WHERE m.seq > :cursor
        AND (:state IS NULL OR coalesce(o.state, d.state) = :state)
        AND (:destination IS NULL OR m.destination = :destination)
        AND (:ordering_key IS NULL OR m.ordering_key = :ordering_key)
        AND (:made_by IS NULL OR m.created_at <= :made_by) ORDER BY m.seq"
);
/// By those that are not done, which are few.
const NOT_DONE: &str = entries!(
    "FROM onefold_outbox_open o CROSS JOIN onefold_outbox m ON m.seq = o.seq
    LEFT JOIN onefold_outbox_done d ON d.seq = m.seq WHERE o.seq > :cursor AND o.state = :state
        AND (:destination IS NULL OR o.destination = :destination)
        AND (:ordering_key IS NULL OR o.ordering_key = :ordering_key)
        AND (:made_by IS NULL OR o.created_at <= :made_by) ORDER BY o.seq"
);
const SURVEY: &str = "SELECT destination, state, count(*), min(created_at) FROM onefold_outbox_open
    GROUP BY destination, state ORDER BY destination";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[ONE, ALL, NOT_DONE, SURVEY];

/// A page ends early when the content on it is longer than this, in bytes.
const PAGE_BYTES_MAX: usize = 8 << 20;

/// The stored number of a state.
pub(crate) fn state_number(state: OutboxState) -> i64 {
    match state {
        OutboxState::Waiting => 0,
        OutboxState::Sending => 1,
        OutboxState::Delivered => 2,
        OutboxState::Dead => 3,
        OutboxState::Unknown => 4,
        OutboxState::Discarded => 5,
    }
}

fn state_of(number: i64) -> rusqlite::Result<OutboxState> {
    let state = OutboxState::ALL.into_iter().find(|state| state_number(*state) == number);
    state.ok_or_else(|| unknown("the state of an outgoing message", number))
}

fn key(row: &Row<'_>, column: usize) -> rusqlite::Result<Key> {
    Key::new(row.get::<_, String>(column)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}

fn content(id: &Key, form: &[u8], secret: &IdentityKey, sealer: &Sealer) -> Result<KeptMessage, StoreError> {
    let refused = |why: String| StoreError::Refused(format!("the content of an outgoing message: {why}"));
    let plain =
        sealer.open_as(|| outgoing_id(id, secret), form).map_err(|error| refused(error.to_string()))?;
    decode_message(&plain).map_err(|error| refused(error.to_string()))
}

/// A message that is given to a relay, still sealed.
pub(crate) struct RawTaken {
    pub(crate) seq: i64,
    pub(crate) id: Key,
    pub(crate) attempt: u32,
    pub(crate) failures: u32,
    /// Of a sending that was not settled: when its lease was given and when it ends.
    pub(crate) lease: Option<(StoreTime, StoreTime)>,
    destination: String,
    address: String,
    ordering_key: Option<String>,
    created_at: StoreTime,
    now: StoreTime,
    form: Vec<u8>,
}

impl RawTaken {
    /// The length of its content.
    pub(crate) fn bytes(&self) -> u64 {
        self.form.len() as u64
    }

    pub(crate) fn of(row: &Row<'_>, destination: &str, now: StoreTime) -> rusqlite::Result<RawTaken> {
        let until = StoreTime(row.get(5)?);
        let lease = match state_of(row.get(1)?)? {
            OutboxState::Sending => Some((StoreTime(row.get(4)?), until)),
            _ => None,
        };
        Ok(RawTaken {
            seq: row.get(0)?,
            attempt: row.get(2)?,
            failures: row.get(3)?,
            lease,
            id: key(row, 6)?,
            destination: destination.to_owned(),
            address: row.get(7)?,
            ordering_key: row.get(8)?,
            created_at: StoreTime(row.get(9)?),
            now,
            form: row.get(10)?,
        })
    }

    /// The message with its content.
    pub(crate) fn open(self, secret: &IdentityKey, sealer: &Sealer) -> Result<Taken, StoreError> {
        let KeptMessage { headers, body } = content(&self.id, &self.form, secret, sealer)?;
        let RawTaken { id, destination, address, ordering_key, attempt, failures, created_at, now, .. } =
            self;
        let message = Message { id, destination, address, ordering_key, headers, body };
        Ok(Taken { message, attempt, failures, created_at, now })
    }
}

/// An entry whose content is still sealed.
pub(crate) struct RawEntry {
    seq: i64,
    entry: OutboxEntry,
    form: Vec<u8>,
}

impl RawEntry {
    fn of(row: &Row<'_>) -> rusqlite::Result<RawEntry> {
        let message = Message {
            id: key(row, 1)?,
            destination: row.get(2)?,
            address: row.get(3)?,
            ordering_key: row.get(4)?,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let entry = OutboxEntry {
            message,
            created_at: StoreTime(row.get(5)?),
            state: state_of(row.get(7)?)?,
            attempt: row.get(8)?,
            failures: row.get(9)?,
            due_at: row.get::<_, Option<i64>>(10)?.map(StoreTime),
            ended_at: row.get::<_, Option<i64>>(11)?.map(StoreTime),
            reason: row.get(12)?,
        };
        Ok(RawEntry { seq: row.get(0)?, entry, form: row.get(6)? })
    }

    /// The entry with its content.
    pub(crate) fn open(self, secret: &IdentityKey, sealer: &Sealer) -> Result<OutboxEntry, StoreError> {
        let mut entry = self.entry;
        let KeptMessage { headers, body } = content(&entry.message.id, &self.form, secret, sealer)?;
        (entry.message.headers, entry.message.body) = (headers, body);
        Ok(entry)
    }
}

/// One message.
pub(crate) fn one(id: &Key, connection: &Connection) -> rusqlite::Result<Option<RawEntry>> {
    connection.prepare_cached(ONE)?.query_row(named_params! { ":id": id.as_str() }, RawEntry::of).optional()
}

/// Lists one page: its entries are still sealed.
pub(crate) fn list(
    query: &OutboxQuery,
    connection: &Connection,
    judge: &Judge,
) -> rusqlite::Result<(OutboxPage, Vec<RawEntry>)> {
    let now = read::moment(connection, judge)?.time;
    let sql = if query.state.is_some_and(|state| !state.is_done()) { NOT_DONE } else { ALL };
    let made_by = query.older_than.map(|age| now.0.saturating_sub(StoreTime(0).plus(age).0));
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(named_params! {
        ":cursor": query.cursor.unwrap_or(0),
        ":state": query.state.map(state_number),
        ":destination": query.destination,
        ":ordering_key": query.ordering_key,
        ":made_by": made_by,
    })?;
    let mut page = OutboxPage { now, ..OutboxPage::default() };
    let (mut entries, mut bytes): (Vec<RawEntry>, usize) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        if entries.len() == query.limit.clamp(1, 1000) as usize || bytes > PAGE_BYTES_MAX {
            page.next_cursor = entries.last().map(|last| last.seq);
            break;
        }
        let entry = RawEntry::of(row)?;
        bytes += entry.form.len();
        entries.push(entry);
    }
    Ok((page, entries))
}

/// Counts what stands.
pub(crate) fn survey(connection: &Connection, judge: &Judge) -> rusqlite::Result<Vec<OutboxSurvey>> {
    let now = read::moment(connection, judge)?.time;
    let mut statement = connection.prepare_cached(SURVEY)?;
    let mut rows = statement.query([])?;
    let mut surveys: Vec<OutboxSurvey> = Vec::new();
    while let Some(row) = rows.next()? {
        let destination: String = row.get(0)?;
        let (count, since) = (row.get::<_, i64>(2)?.unsigned_abs(), StoreTime(row.get(3)?));
        if surveys.last().is_none_or(|last| last.destination != destination) {
            surveys.push(OutboxSurvey { destination, ..OutboxSurvey::default() });
        }
        let Some(survey) = surveys.last_mut() else { continue };
        match state_of(row.get(1)?)? {
            OutboxState::Dead => survey.dead += count,
            OutboxState::Unknown => survey.unknown += count,
            _ => {
                survey.depth += count;
                survey.oldest = survey.oldest.max(Some(since.until(now))).or(Some(Duration::ZERO));
            }
        }
    }
    Ok(surveys)
}
