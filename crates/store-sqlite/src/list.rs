//! Listing records, oldest first, page by page.
//!
//! Pages go by `seq`, which is given under the write lock in the order of commits and never twice: a record that
//! exists when the listing begins is listed once, however many come and go meanwhile. Filters other than an open
//! state walk over the table; they run on a reader and hold up no writer.

use onefold_core::{State, StoreTime};
use onefold_store::{Judge, Query};
use rusqlite::{Connection, named_params};

use crate::read;
use crate::row::{RawRecord, beside, columns, raw, state_number};

/// Records on a page, at most.
const PAGE_MAX: u32 = 1000;
/// A page ends early when the payloads on it are longer than this.
const PAGE_BYTES_MAX: usize = 8 << 20;

macro_rules! list {
    ($from:literal, $where:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            $from,
            beside!(),
            $where,
            " o.seq > :cursor
                AND (:state IS NULL OR CASE WHEN l.id IS NULL THEN u.state ELSE 1 END = :state)
                AND (:operation IS NULL OR o.operation = :operation)
                AND (:key IS NULL OR o.key = :key)
                AND (:resource IS NULL OR u.resource_id = :resource)
                AND (:made_by IS NULL OR o.created_at <= :made_by)
            ORDER BY o.seq"
        )
    };
}

const ALL: &str = list!(" FROM onefold_operations o ", "WHERE");
/// By the leases, which are few.
const PROCESSING: &str =
    list!(" FROM onefold_leases a CROSS JOIN onefold_operations o ON o.seq = a.seq ", "WHERE");
/// By the small index of unknown outcomes.
const UNKNOWN: &str = list!(
    " FROM onefold_outcomes a INDEXED BY onefold_outcomes_unknown CROSS JOIN onefold_operations o ON o.seq = a.seq ",
    "WHERE a.state = 5 AND"
);

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[ALL, PROCESSING, UNKNOWN];

/// A page whose payloads are still to be opened.
pub(crate) struct RawPage {
    pub(crate) now: StoreTime,
    pub(crate) records: Vec<RawRecord>,
    pub(crate) next_cursor: Option<i64>,
}

/// Lists one page.
pub(crate) fn run(query: &Query, connection: &Connection, judge: &Judge) -> rusqlite::Result<RawPage> {
    let moment = read::moment(connection, judge)?;
    let sql = match query.state {
        Some(State::Processing) => PROCESSING,
        Some(State::OutcomeUnknown) => UNKNOWN,
        _ => ALL,
    };
    let made_by = query.older_than.map(|age| moment.time.0.saturating_sub(StoreTime(0).plus(age).0));
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(named_params! {
        ":cursor": query.cursor.unwrap_or(0),
        ":state": query.state.map(state_number),
        ":operation": query.operation,
        ":key": query.key,
        ":resource": query.resource,
        ":made_by": made_by,
    })?;
    let limit = query.limit.clamp(1, PAGE_MAX) as usize;
    let mut page = RawPage { now: moment.time, records: Vec::new(), next_cursor: None };
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let record = raw(row, 0, judge, moment)?;
        if query.scope.as_ref().is_some_and(|scope| *scope != record.record.scope.to_string()) {
            continue;
        }
        if page.records.len() == limit || bytes > PAGE_BYTES_MAX {
            page.next_cursor = page.records.last().map(|last| last.seq);
            break;
        }
        bytes += record.payload_bytes();
        page.records.push(record);
    }
    Ok(page)
}
