//! Counters of records, added in batches. They may lag, and a crash loses what was not yet asked for.

use onefold_core::{Counters, OperationId};
use rusqlite::params;

use crate::batch::Batch;
use crate::error::JobError;

const COUNT: &str = "UPDATE onefold_operations
    SET duplicates = duplicates + ?2, conflicts = conflicts + ?3, replays = replays + ?4
    WHERE id = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[COUNT];

/// Adds to counters; records that are gone are passed over.
pub(crate) fn run(counts: &[(OperationId, Counters)], batch: &mut Batch<'_>) -> Result<(), JobError> {
    batch.in_savepoint(|batch| {
        let mut statement = batch.connection.prepare_cached(COUNT)?;
        let mut changed = 0;
        for (id, counters) in counts {
            let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
            changed += statement.execute(params![
                id.as_bytes(),
                number(counters.duplicates),
                number(counters.conflicts),
                number(counters.replays),
            ])?;
        }
        if changed > 0 {
            batch.wrote();
        }
        Ok(())
    })
}
