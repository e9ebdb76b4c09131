//! What time does to records: lost outcomes, tombstones, the end of tombstones.
//!
//! Nothing depends on the sweeper for being right: whoever reads judges leases and expiry by the time. It makes room
//! and it makes lost outcomes visible. It works in small steps, each a job among others, so that it never holds up
//! the foreground; a crash between steps leaves work for the next sweep and nothing half done.

use onefold_core::{EventKind, OperationId};
use onefold_store::{Grant, NewEvent, Swept};
use rusqlite::params;

use crate::batch::Batch;
use crate::error::JobError;
use crate::events;
use crate::row::stored_lease;

/// Records of each kind in one step: 100 take about 2 ms, 10 000 would hold up everybody for 200 ms.
pub(crate) const STEP_RECORDS_MAX: u32 = 100;
/// Payload bytes that are overwritten in one step.
const STEP_BYTES_MAX: i64 = 4 << 20;

const OVER: &str = "SELECT seq, id, attempt, leased_at, lease_until FROM operations
    WHERE state = 1 AND lease_until <= ?1 AND on_stale = 0 ORDER BY lease_until";
const LOST: &str = "UPDATE operations SET state = 5, leased_at = NULL, lease_until = ?3
    WHERE seq = ?1 AND attempt = ?2 AND state = 1";
const DUE: &str =
    "SELECT seq, scope, fingerprint IS NULL, expires_at + tombstone_ms, coalesce(length(kept), 0)
    FROM operations WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2";
const BURY: &str = "UPDATE operations SET fingerprint_version = NULL, fingerprint = NULL, correlation_id = NULL,
        ignored = NULL, resource_kind = NULL, resource_id = NULL, kept = NULL, due_at = expires_at + tombstone_ms
    WHERE seq = ?1 AND due_at <= ?2";
const DELETE: &str = "DELETE FROM operations WHERE seq = ?1 AND due_at <= ?2";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[OVER, LOST, DUE, BURY, DELETE];

struct Due {
    seq: i64,
    scope: Vec<u8>,
    tombstone: bool,
    tombstone_until: i64,
    bytes: i64,
}

/// One step: buries and deletes at most `limit` records.
pub(crate) fn run(limit: u32, batch: &mut Batch<'_>) -> Result<Swept, JobError> {
    let limit = limit.min(STEP_RECORDS_MAX);
    batch.write_claimed()?;
    let swept = batch.in_savepoint(|batch| bury_and_delete(limit, batch))?;
    if swept != Swept::default() {
        batch.wrote();
    }
    Ok(swept)
}

/// One step: marks at most `limit` lost outcomes.
pub(crate) fn lose_stale(limit: u32, batch: &mut Batch<'_>) -> Result<u64, JobError> {
    batch.judge.forget_ended(batch.moment);
    batch.in_savepoint(|batch| lose_outcomes(limit.min(STEP_RECORDS_MAX), batch))
}

fn lose_outcomes(limit: u32, batch: &mut Batch<'_>) -> Result<u64, JobError> {
    let event = NewEvent {
        kind: EventKind::Unknown,
        who: "onefold".into(),
        reason: "the lease ended without an outcome".into(),
        evidence: String::new(),
    };
    let lost = over(limit, batch)?;
    for (seq, id, attempt) in &lost {
        batch.connection.prepare_cached(LOST)?.execute(params![seq, attempt, batch.now_ms()])?;
        events::add(*seq, *attempt, &event, batch)?;
        batch.grant(Grant::Ended(*id));
    }
    Ok(lost.len() as u64)
}

/// Records whose stored lease has ended and which are judged to be over. The limit is not SQL's: after a leap of the
/// clock many look over and are alive.
fn over(limit: u32, batch: &Batch<'_>) -> rusqlite::Result<Vec<(i64, OperationId, u32)>> {
    let mut statement = batch.connection.prepare_cached(OVER)?;
    let mut rows = statement.query([batch.now_ms()])?;
    let mut over = Vec::new();
    while over.len() < limit as usize
        && let Some(row) = rows.next()?
    {
        let (seq, id, attempt) = (row.get(0)?, OperationId::from_bytes(row.get(1)?), row.get(2)?);
        let lease = stored_lease(id, attempt, row.get(3)?, row.get(4)?);
        if !lease.is_some_and(|lease| batch.judge.judge(&lease, batch.moment).is_alive()) {
            over.push((seq, id, attempt));
        }
    }
    Ok(over)
}

fn bury_and_delete(limit: u32, batch: &mut Batch<'_>) -> Result<Swept, JobError> {
    let now = batch.now_ms();
    let mut swept = Swept::default();
    let mut bytes = 0;
    for due in due(limit, batch)? {
        if bytes > STEP_BYTES_MAX {
            break;
        }
        bytes += due.bytes;
        if !due.tombstone {
            batch.one_less(&due.scope)?;
        }
        if due.tombstone || due.tombstone_until <= now {
            batch.connection.prepare_cached(DELETE)?.execute([due.seq, now])?;
            events::delete(due.seq, batch)?;
            swept.deleted += 1;
        } else {
            batch.connection.prepare_cached(BURY)?.execute([due.seq, now])?;
            swept.tombstones += 1;
        }
    }
    Ok(swept)
}

fn due(limit: u32, batch: &Batch<'_>) -> rusqlite::Result<Vec<Due>> {
    let mut statement = batch.connection.prepare_cached(DUE)?;
    let due = statement.query_map([batch.now_ms(), i64::from(limit)], |row| {
        Ok(Due {
            seq: row.get(0)?,
            scope: row.get(1)?,
            tombstone: row.get(2)?,
            tombstone_until: row.get(3)?,
            bytes: row.get(4)?,
        })
    })?;
    due.collect()
}
