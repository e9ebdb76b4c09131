//! What time does to records: lost outcomes, tombstones, the end of tombstones.
//!
//! Nothing depends on the sweeper for being right: whoever reads judges leases and expiry by the time. It makes room
//! and it makes lost outcomes visible. It works in small steps, each a job among others, so that it never holds up
//! the foreground; a crash between steps leaves work for the next sweep and nothing half done. Of several processes
//! on one file one sweeps at a time: all would wait for the one lock of the file, and the foreground with them. Whose
//! turn it is stands in the file and ends by itself, so a sweeper that was killed keeps nobody away for long.

use onefold_core::{EventKind, OperationId, State, StoreTime};
use onefold_store::{Grant, NewEvent, StoredLease, Swept};
use rusqlite::OptionalExtension;

use crate::batch::Batch;
use crate::error::JobError;
use crate::outcome::{self, Outcome};
use crate::{events, steps};

/// Records of each kind in one step: 100 take about 2 ms, 10 000 would hold up everybody for 200 ms.
pub(crate) const STEP_RECORDS_MAX: u32 = 100;
/// Payload bytes that are overwritten in one step.
const STEP_BYTES_MAX: i64 = 4 << 20;

const OVER: &str = "SELECT seq, id, attempt, granted_at, until FROM onefold_leases
    WHERE until <= ?1 AND on_stale <> 1 ORDER BY until";
const DUE: &str = "SELECT u.seq, o.scope, u.expires_at + o.tombstone_ms, coalesce(length(u.kept), 0)
    FROM onefold_outcomes u CROSS JOIN onefold_operations o ON o.seq = u.seq WHERE u.due_at <= ?1 ORDER BY u.due_at LIMIT ?2";
/// The digest, the operation's name, the times, the counters and what was promised stay.
const BURY: &str =
    "UPDATE onefold_operations SET scope = NULL, fingerprint_version = NULL, fingerprint = NULL, key = NULL,
        owner = NULL, correlation_id = NULL, ignored = NULL WHERE seq = ?1";
const BURY_OUTCOME: &str =
    "UPDATE onefold_outcomes SET resource_kind = NULL, resource_id = NULL, kept = NULL, due_at = ?2
    WHERE seq = ?1";
const DELETE: &str = "DELETE FROM onefold_operations WHERE seq = ?1";
/// Who sweeps, and until when: eight bytes each.
const TURN: &str = "SELECT value FROM onefold_meta WHERE name = 'sweeper'";
const TAKE_TURN: &str = "INSERT INTO onefold_meta (name, value) VALUES ('sweeper', ?1)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[OVER, DUE, BURY, BURY_OUTCOME, DELETE, TURN, TAKE_TURN];

/// How long a step keeps the others away: longer than the rest between two steps of a sweep.
pub(crate) const TURN_MS: i64 = 5_000;

/// A step of a sweep.
#[derive(Clone, Copy)]
pub(crate) struct SweepWork {
    /// Records that it may touch.
    pub(crate) limit: u32,
    /// Who sweeps: a number of the open store's own.
    pub(crate) sweeper: i64,
}

struct Due {
    seq: i64,
    /// `None`: a tombstone.
    scope: Option<i64>,
    tombstone_until: i64,
    bytes: i64,
}

/// One step: buries and deletes some records, none when it is the turn of another process.
pub(crate) fn run(work: SweepWork, batch: &mut Batch<'_>) -> Result<Swept, JobError> {
    if is_anothers_turn(work.sweeper, batch)? {
        return Ok(Swept::default());
    }
    let limit = work.limit.min(STEP_RECORDS_MAX);
    batch.write_claimed()?;
    let swept = batch.in_savepoint(|batch| {
        let swept = bury_and_delete(limit, batch)?;
        if swept != Swept::default() {
            take_turn(work.sweeper, batch)?;
        }
        Ok(swept)
    })?;
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
        outcome::put(*id, *seq, State::Processing, State::OutcomeUnknown, &Outcome::default(), batch)?;
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
        let (granted, until) = (StoreTime(row.get(3)?), StoreTime(row.get(4)?));
        let lease = StoredLease { id, attempt, granted, until };
        if !batch.judge.judge(&lease, batch.moment).is_alive() {
            over.push((seq, id, attempt));
        }
    }
    Ok(over)
}

fn is_anothers_turn(sweeper: i64, batch: &Batch<'_>) -> rusqlite::Result<bool> {
    let turn: Option<[u8; 16]> =
        batch.connection.prepare_cached(TURN)?.query_row([], |row| row.get(0)).optional()?;
    let Some(turn) = turn else { return Ok(false) };
    let (of, until) = turn.split_at(8);
    let until = until.try_into().map_or(0, i64::from_be_bytes);
    Ok(of != sweeper.to_be_bytes() && batch.now_ms() < until)
}

fn take_turn(sweeper: i64, batch: &Batch<'_>) -> rusqlite::Result<()> {
    let until = batch.now_ms() + TURN_MS;
    let turn = [sweeper.to_be_bytes(), until.to_be_bytes()].concat();
    batch.connection.prepare_cached(TAKE_TURN)?.execute([turn]).map(drop)
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
        if let Some(scope) = due.scope {
            batch.one_less(scope)?;
        }
        steps::delete(due.seq, batch)?;
        if due.scope.is_none() || due.tombstone_until <= now {
            batch.connection.prepare_cached(DELETE)?.execute([due.seq])?;
            outcome::forget(due.seq, batch)?;
            events::delete(due.seq, batch)?;
            swept.deleted += 1;
        } else {
            batch.connection.prepare_cached(BURY)?.execute([due.seq])?;
            batch.connection.prepare_cached(BURY_OUTCOME)?.execute([due.seq, due.tombstone_until])?;
            swept.tombstones += 1;
        }
    }
    Ok(swept)
}

fn due(limit: u32, batch: &Batch<'_>) -> rusqlite::Result<Vec<Due>> {
    let mut statement = batch.connection.prepare_cached(DUE)?;
    let due = statement.query_map([batch.now_ms(), i64::from(limit)], |row| {
        Ok(Due { seq: row.get(0)?, scope: row.get(1)?, tombstone_until: row.get(2)?, bytes: row.get(3)? })
    })?;
    due.collect()
}
