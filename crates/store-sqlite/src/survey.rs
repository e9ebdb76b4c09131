//! What stands in the store, for gauges: the leases, and the small index of unknown outcomes.

use std::time::Duration;

use onefold_core::StoreTime;
use onefold_store::{Judge, Survey};
use rusqlite::Connection;

use crate::read;

const UNKNOWN: &str = "SELECT count(*), min(at) FROM onefold_outcomes WHERE state = 5";
const PROCESSING: &str = "SELECT count(*) FROM onefold_leases";
const DUE: &str = "SELECT min(due_at) FROM onefold_outcomes WHERE due_at IS NOT NULL";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[UNKNOWN, PROCESSING, DUE];

/// Counts what stands. The age of an unknown outcome counts from when it became unknown.
pub(crate) fn run(connection: &Connection, judge: &Judge) -> rusqlite::Result<Survey> {
    let (unknown, since): (u64, Option<i64>) = connection
        .prepare_cached(UNKNOWN)?
        .query_row([], |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?)))?;
    let processing =
        connection.prepare_cached(PROCESSING)?.query_row([], |row| row.get::<_, i64>(0))?.unsigned_abs();
    let due: Option<i64> = connection.prepare_cached(DUE)?.query_row([], |row| row.get(0))?;
    let now = read::moment(connection, judge)?.time;
    Ok(Survey {
        unknown,
        unknown_oldest: since.map(|since| StoreTime(since).until(now)),
        processing,
        sweep_lag: due.map_or(Duration::ZERO, |due| StoreTime(due).until(now)),
    })
}
