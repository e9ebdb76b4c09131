//! Transitions. Each names the state and the attempt it starts from, in the statement that makes it.
//!
//! A transition that finds another state or attempt changes nothing; its evidence is written all the same. What SQL
//! cannot judge (a lease, by the monotonic clock) is looked at first in the same transaction, which holds the one
//! write lock, so nothing comes in between.

mod begin;

use onefold_core::{Kept, OperationId, State, StoreTime};
use onefold_store::codec::{encode_kept, encode_texts, kept_length};
use onefold_store::{Advance, Also, Grant, Sealer, Step};
use rusqlite::{OptionalExtension, params};

use crate::batch::Batch;
use crate::error::JobError;
use crate::row::{RawRead, state_number, state_of, stored_lease};
use crate::{events, read};

const SETTLE: &str = "UPDATE operations SET state = ?4, leased_at = NULL, lease_until = NULL, completed_at = ?5,
        expires_at = ?5 + retention_ms, due_at = ?5 + retention_ms, resource_kind = ?6, resource_id = ?7, kept = ?8
    WHERE id = ?1 AND attempt = ?2 AND (?3 >> state) & 1
    RETURNING expires_at";
const RENEW: &str = "UPDATE operations SET leased_at = ?4, lease_until = ?5
    WHERE id = ?1 AND attempt = ?2 AND (?3 >> state) & 1 AND state = 1";
const LOSE: &str = "UPDATE operations SET state = 5, leased_at = NULL, lease_until = ?4
    WHERE id = ?1 AND attempt = ?2 AND (?3 >> state) & 1";
const LAPSE: &str = "UPDATE operations SET leased_at = ?4, lease_until = ?4
    WHERE id = ?1 AND attempt = ?2 AND (?3 >> state) & 1 AND state = 1";
const FOUND: &str =
    "SELECT seq, state, attempt, leased_at, lease_until, expires_at, scope, fingerprint IS NULL
    FROM operations WHERE id = ?1";
const SEQ: &str = "SELECT seq FROM operations WHERE id = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[SETTLE, RENEW, LOSE, LAPSE, FOUND, SEQ, begin::AGAIN, begin::ANEW];

/// A transition with its parts in stored form, prepared by the caller's thread.
pub(crate) struct AdvanceWork {
    advance: Advance,
    /// The payload of `Settle`, the ignored fields of `Begin`.
    form: Option<Vec<u8>>,
}

/// What became of a transition; a payload is still to be opened.
pub(crate) enum RawAdvanced {
    Done { now: StoreTime, expires_at: Option<StoreTime> },
    Superseded(Box<RawRead>),
    Missing,
}

impl AdvanceWork {
    pub(crate) fn new(mut advance: Advance, sealer: &Sealer) -> AdvanceWork {
        let id = advance.id;
        let form = match &mut advance.step {
            Step::Settle { kept, .. } => match std::mem::take(kept) {
                Kept::Nothing => None,
                kept => Some(sealer.seal(&id, kept_length(&kept), |out| encode_kept(&kept, out))),
            },
            Step::Begin { ignored, .. } => (!ignored.is_empty()).then(|| encode_texts(ignored)),
            Step::Renew { .. } | Step::LoseOutcome | Step::Lapse => None,
        };
        AdvanceWork { advance, form }
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        self.form.as_ref().map_or(0, Vec::len)
    }
}

/// The row that a transition starts from, as far as it matters to the transition.
struct Found {
    seq: i64,
    state: State,
    lease_alive: bool,
    expired: bool,
    scope: Vec<u8>,
    tombstone: bool,
}

/// Carries out the transition, if the record is found where it starts.
pub(crate) fn run(work: &AdvanceWork, batch: &mut Batch<'_>) -> Result<RawAdvanced, JobError> {
    let advance = &work.advance;
    match (&advance.step, &advance.event) {
        (Step::Begin { .. }, _) => {
            // A tombstone that begins anew counts as live again.
            batch.write_claimed()?;
            batch.in_savepoint(|batch| transition(work, batch))
        }
        (_, Some(_)) => batch.in_savepoint(|batch| transition(work, batch)),
        // One statement writes: the transition, or else the evidence.
        (_, None) => transition(work, batch),
    }
}

fn transition(work: &AdvanceWork, batch: &mut Batch<'_>) -> Result<RawAdvanced, JobError> {
    let advance = &work.advance;
    let begins = matches!(advance.step, Step::Begin { .. });
    if begins || advance.start.also != Also::Nothing {
        match found(advance.id, batch)? {
            Some(found) if holds(advance.start.also, &found) => {
                if begins {
                    return begin::run(work, &found, batch);
                }
            }
            _ => return superseded(advance, batch),
        }
    }
    let now = batch.moment.time;
    let id = advance.id.as_bytes();
    let (attempt, states) = (advance.start.attempt, state_set(advance.start.states));
    let (changed, expires_at) = match &advance.step {
        Step::Begin { .. } => (0, None),
        Step::Settle { state, resource, .. } => {
            let (kind, resource_id) = match resource {
                Some(resource) => (Some(&resource.kind), Some(&resource.id)),
                None => (None, None),
            };
            let mut settle = batch.connection.prepare_cached(SETTLE)?;
            let settled = settle.query_row(
                params![id, attempt, states, state_number(*state), now.0, kind, resource_id, work.form],
                |row| row.get::<_, Option<i64>>(0),
            );
            match settled.optional()? {
                Some(expires_at) => (1, expires_at.map(StoreTime)),
                None => (0, None),
            }
        }
        Step::Renew { lease } => {
            let mut renew = batch.connection.prepare_cached(RENEW)?;
            (renew.execute(params![id, attempt, states, now.0, now.plus(*lease).0])?, None)
        }
        Step::LoseOutcome => {
            (batch.connection.prepare_cached(LOSE)?.execute(params![id, attempt, states, now.0])?, None)
        }
        Step::Lapse => {
            (batch.connection.prepare_cached(LAPSE)?.execute(params![id, attempt, states, now.0])?, None)
        }
    };
    if changed == 0 {
        return superseded(advance, batch);
    }
    batch.wrote();
    batch.grant(match &advance.step {
        Step::Renew { lease } => Grant::held(advance.id, attempt, batch.moment, *lease),
        _ => Grant::Ended(advance.id),
    });
    if let Some(event) = &advance.event {
        let seq = batch.connection.prepare_cached(SEQ)?.query_row([id], |row| row.get(0))?;
        events::add(seq, attempt, event, batch)?;
    }
    Ok(RawAdvanced::Done { now, expires_at })
}

fn holds(also: Also, found: &Found) -> bool {
    match also {
        Also::Nothing => true,
        Also::LeaseOver => !found.lease_alive,
        Also::Expired => found.expired,
    }
}

/// The record was found otherwise: nothing but the evidence is written.
fn superseded(advance: &Advance, batch: &mut Batch<'_>) -> Result<RawAdvanced, JobError> {
    let read = read::in_batch(advance.id, batch)?;
    let Some(record) = &read.record else { return Ok(RawAdvanced::Missing) };
    if let Some(event) = &advance.if_superseded {
        events::add(record.seq, advance.start.attempt, event, batch)?;
    }
    Ok(RawAdvanced::Superseded(Box::new(read)))
}

fn found(id: OperationId, batch: &Batch<'_>) -> rusqlite::Result<Option<Found>> {
    let mut statement = batch.connection.prepare_cached(FOUND)?;
    let found = statement.query_row([id.as_bytes()], |row| {
        let state = state_of(row.get(1)?)?;
        let lease = stored_lease(id, row.get(2)?, row.get(3)?, row.get(4)?);
        let alive = |lease| batch.judge.judge(&lease, batch.moment).is_alive();
        let expires_at: Option<i64> = row.get(5)?;
        Ok(Found {
            seq: row.get(0)?,
            state,
            lease_alive: state == State::Processing && lease.is_some_and(alive),
            expired: state.is_terminal() && expires_at.is_some_and(|end| end <= batch.now_ms()),
            scope: row.get(6)?,
            tombstone: row.get(7)?,
        })
    });
    found.optional()
}

/// The states as bits by their stored numbers.
fn state_set(states: &[State]) -> i64 {
    states.iter().fold(0, |set, state| set | 1 << state_number(*state))
}
