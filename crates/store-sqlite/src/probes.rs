//! Probes of unknown outcomes: which are due, whose turn it is, what was noted.
//!
//! A turn is given by the writer in one transaction: it counts the probe and moves the due time, so of several
//! processes one gets it, and a turn whose holder died comes back by itself. Records that are not open (escalated,
//! free to be retried) are not in the index. Whether any is due is looked up by a reader, so an idle store is not
//! written to.

use std::time::Duration;

use onefold_core::{OperationId, Reconciliation, StoreTime};
use onefold_store::{Judge, ProbeTurn, Sealer, StoreError, TakeProbes};
use rusqlite::{Connection, params};

use crate::batch::Batch;
use crate::error::JobError;
use crate::read;
use crate::row::{RawRecord, reconciliation_number};

const DUE: &str = "SELECT o.operation, o.seq, o.id, coalesce(a.probes, 0), a.at, a.negative_at
    FROM onefold_outcomes a INDEXED BY onefold_outcomes_probes CROSS JOIN onefold_operations o ON o.seq = a.seq
    WHERE a.state = 5 AND a.reconciliation IS NULL AND coalesce(a.probe_at, a.at) <= ?1
    ORDER BY coalesce(a.probe_at, a.at)";
const TAKE: &str = "UPDATE onefold_outcomes SET probes = ?2, probe_at = ?3 WHERE seq = ?1";
const NOTE: &str = "UPDATE onefold_outcomes
    SET reconciliation = ?2, probe_at = ?3, negative_at = coalesce(negative_at, ?4) WHERE seq = ?1";
const SETTLED: &str = "UPDATE onefold_outcomes SET reconciliation = ?2 WHERE seq = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[DUE, TAKE, NOTE, SETTLED];

struct Due {
    seq: i64,
    id: OperationId,
    probes: u32,
    unknown_since: StoreTime,
    negative_since: Option<StoreTime>,
}

/// A turn whose record is still to be opened.
pub(crate) struct RawTurn {
    now: StoreTime,
    record: RawRecord,
    probe: u32,
    unknown_since: StoreTime,
    negative_since: Option<StoreTime>,
}

impl RawTurn {
    /// The turn with its record.
    pub(crate) fn open(self, sealer: &Sealer) -> Result<ProbeTurn, StoreError> {
        let RawTurn { now, record, probe, unknown_since, negative_since } = self;
        Ok(ProbeTurn { now, record: record.open(sealer)?, probe, unknown_since, negative_since })
    }
}

/// Whether any is due, beside the writer.
pub(crate) fn any_due(take: &TakeProbes, connection: &Connection, judge: &Judge) -> rusqlite::Result<bool> {
    let now = read::moment(connection, judge)?.time;
    Ok(!due(&TakeProbes { limit: 1.min(take.limit), ..take.clone() }, now, connection)?.is_empty())
}

/// Gives the turns.
pub(crate) fn take(take: &TakeProbes, batch: &mut Batch<'_>) -> Result<Vec<RawTurn>, JobError> {
    batch.in_savepoint(|batch| {
        let now = batch.moment.time;
        let mut turns = Vec::new();
        for Due { seq, id, probes, unknown_since, negative_since } in due(take, now, batch.connection)? {
            let probe = probes.saturating_add(1);
            batch.connection.prepare_cached(TAKE)?.execute(params![seq, probe, now.plus(take.turn).0])?;
            batch.wrote();
            if let Some(record) = read::in_batch(id, batch)?.record {
                turns.push(RawTurn { now, record, probe, unknown_since, negative_since });
            }
        }
        Ok(turns)
    })
}

fn due(take: &TakeProbes, now: StoreTime, connection: &Connection) -> rusqlite::Result<Vec<Due>> {
    let mut statement = connection.prepare_cached(DUE)?;
    let mut rows = statement.query([now.0])?;
    let mut found = Vec::new();
    while found.len() < take.limit as usize
        && let Some(row) = rows.next()?
    {
        let operation: String = row.get(0)?;
        if take.operations.contains(&operation) {
            found.push(Due {
                seq: row.get(1)?,
                id: OperationId::from_bytes(row.get(2)?),
                probes: row.get(3)?,
                unknown_since: StoreTime(row.get(4)?),
                negative_since: row.get::<_, Option<i64>>(5)?.map(StoreTime),
            });
        }
    }
    Ok(found)
}

/// A probe settled nothing.
pub(crate) fn note(
    seq: i64,
    after: Duration,
    negative: bool,
    reconciliation: Reconciliation,
    batch: &mut Batch<'_>,
) -> rusqlite::Result<()> {
    let now = batch.moment.time;
    let (due, negative) = (now.plus(after).0, negative.then_some(now.0));
    let number = reconciliation_number(reconciliation);
    batch.connection.prepare_cached(NOTE)?.execute(params![seq, number, due, negative])?;
    Ok(())
}

/// A verdict settled the record.
pub(crate) fn settled(seq: i64, batch: &mut Batch<'_>) -> rusqlite::Result<()> {
    let number = reconciliation_number(Reconciliation::Settled);
    batch.connection.prepare_cached(SETTLED)?.execute(params![seq, number])?;
    Ok(())
}
