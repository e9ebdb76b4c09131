//! Attempts that were interrupted and may be resumed, beside the writer.
//!
//! Few attempts run at a time, so whoever looks for the ends of leases looks at all of them.

use onefold_core::{OperationId, StoreTime};
use onefold_store::{Judge, StoredLease};
use rusqlite::Connection;

use crate::read;
use crate::row::RawRecord;

const OVER: &str = "SELECT l.id, l.attempt, l.granted_at, l.until, o.operation
    FROM onefold_leases l CROSS JOIN onefold_operations o
    WHERE o.seq = l.seq AND l.until <= ?1 AND l.on_stale = 1 ORDER BY l.until";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[OVER];

/// Those of these operations, those that wait longest first.
pub(crate) fn run(
    operations: &[String],
    limit: u32,
    connection: &Connection,
    judge: &Judge,
) -> rusqlite::Result<Vec<RawRecord>> {
    let moment = read::moment(connection, judge)?;
    let mut statement = connection.prepare_cached(OVER)?;
    let mut rows = statement.query([moment.time.0])?;
    let mut found = Vec::new();
    while found.len() < limit as usize
        && let Some(row) = rows.next()?
    {
        let id = OperationId::from_bytes(row.get(0)?);
        let (granted, until) = (StoreTime(row.get(2)?), StoreTime(row.get(3)?));
        let lease = StoredLease { id, attempt: row.get(1)?, granted, until };
        // After a leap of the clock one may look over and be alive.
        if operations.contains(&row.get(4)?) && !judge.judge(&lease, moment).is_alive() {
            found.extend(read::beside(id, connection, judge)?.record);
        }
    }
    Ok(found)
}
