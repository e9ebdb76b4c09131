//! The end of an attempt: its outcome is written and its lease goes, or one outcome replaces another.

use onefold_core::{OperationId, State};
use onefold_store::crash;
use rusqlite::params;

use crate::batch::Batch;
use crate::error::{JobError, whole_batch};
use crate::hot::Hot;
use crate::row::state_number;

pub(crate) const PUT: &str =
    "INSERT INTO onefold_outcomes (seq, state, at, expires_at, due_at, resource_kind, resource_id, kept)
    VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7)";
const REPLACE: &str =
    "INSERT OR REPLACE INTO onefold_outcomes (seq, state, at, expires_at, due_at, resource_kind, resource_id, kept)
    VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7)";
pub(crate) const END_LEASE: &str = "DELETE FROM onefold_leases WHERE id = ?1";
const FORGET: &str = "DELETE FROM onefold_outcomes WHERE seq = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[PUT, REPLACE, END_LEASE, FORGET];

/// How an attempt ended.
#[derive(Default)]
pub(crate) struct Outcome<'a> {
    pub(crate) expires_at: Option<i64>,
    pub(crate) resource_kind: Option<&'a str>,
    pub(crate) resource_id: Option<&'a str>,
    pub(crate) kept: Option<&'a [u8]>,
}

/// Writes the outcome of the record that was in the state `was`. All or nothing without a savepoint: only the first
/// statement can fail by itself (the payload is too big).
pub(crate) fn put(
    id: OperationId,
    seq: i64,
    was: State,
    state: State,
    outcome: &Outcome<'_>,
    batch: &mut Batch<'_>,
) -> Result<(), JobError> {
    let Outcome { expires_at, resource_kind, resource_id, kept } = outcome;
    let at = batch.now_ms();
    let outcome = params![seq, state_number(state), at, expires_at, resource_kind, resource_id, kept];
    if was == State::Processing {
        crash::point("sqlite.outcome.before");
        batch.hot(Hot::Outcome)?.execute(outcome)?;
        crash::point("sqlite.outcome.after");
        batch.hot(Hot::EndLease)?.execute([id.as_bytes()]).map_err(whole_batch)?;
        crash::point("sqlite.lease_ended.after");
    } else {
        crash::point("sqlite.outcome_replaced.before");
        batch.connection.prepare_cached(REPLACE)?.execute(outcome)?;
        crash::point("sqlite.outcome_replaced.after");
    }
    batch.wrote();
    Ok(())
}

/// The record has no outcome: the next attempt begins, or the record goes.
pub(crate) fn forget(seq: i64, batch: &Batch<'_>) -> rusqlite::Result<()> {
    batch.connection.prepare_cached(FORGET)?.execute([seq])?;
    Ok(())
}
