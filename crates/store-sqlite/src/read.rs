//! Reading one record, with the time and the lease as the writer would judge them.
//!
//! One statement reads the record and the latest committed time, so a reading is never earlier than a commit that it
//! sees. Nothing here waits for a commit.

use onefold_core::{OperationId, StoreTime};
use onefold_store::{Judge, Moment};
use rusqlite::{Connection, OptionalExtension};

use crate::batch::Batch;
use crate::row::{RawRead, beside, columns, raw};

const READ: &str = concat!(
    "SELECT c.at, ",
    columns!(),
    " FROM onefold_clock c LEFT JOIN onefold_operations o ON o.id = ?1",
    beside!(),
    "WHERE c.one = 1"
);
const READ_IN_BATCH: &str =
    concat!("SELECT ", columns!(), " FROM onefold_operations o", beside!(), "WHERE o.id = ?1");

const CLOCK: &str = "SELECT at FROM onefold_clock WHERE one = 1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[READ, READ_IN_BATCH, CLOCK];

/// Reads beside the writer.
pub(crate) fn beside(id: OperationId, connection: &Connection, judge: &Judge) -> rusqlite::Result<RawRead> {
    connection.prepare_cached(READ)?.query_row([id.as_bytes()], |row| {
        let moment = judge.timeline().at_least(StoreTime(row.get(0)?));
        let record = match row.get::<_, Option<i64>>(1)? {
            Some(_) => Some(raw(row, 1, judge, moment)?),
            None => None,
        };
        Ok(RawRead { now: moment.time, record })
    })
}

/// The time of a reading beside the writer, no earlier than any commit that it can see.
pub(crate) fn moment(connection: &Connection, judge: &Judge) -> rusqlite::Result<Moment> {
    let floor = connection.prepare_cached(CLOCK)?.query_row([], |row| row.get(0))?;
    Ok(judge.timeline().at_least(StoreTime(floor)))
}

/// Reads inside the writer's transaction.
pub(crate) fn in_batch(id: OperationId, batch: &Batch<'_>) -> rusqlite::Result<RawRead> {
    let mut statement = batch.connection.prepare_cached(READ_IN_BATCH)?;
    let record =
        statement.query_row([id.as_bytes()], |row| raw(row, 0, batch.judge, batch.moment)).optional()?;
    Ok(RawRead { now: batch.moment.time, record })
}
