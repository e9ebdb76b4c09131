//! Transitions. Each names the state and the attempt it starts from.
//!
//! The record is looked at first, in the same transaction, which holds the one write lock: nothing comes in between.
//! A transition that finds another state or attempt changes nothing; its evidence is written all the same.

pub(crate) mod begin;

use onefold_core::{Kept, OperationId, Reconciliation, State, StoreTime};
use onefold_store::codec::{encode_kept, encode_scope, encode_texts, kept_length};
use onefold_store::{Advance, Also, Grant, Sealer, Step, StoredLease, crash};
use rusqlite::{OptionalExtension, params};

use crate::batch::Batch;
use crate::error::JobError;
use crate::hot::Hot;
use crate::outcome::{self, Outcome};
use crate::row::{RawRead, reconciliation_of, state_of};
use crate::{events, probes, read};

/// Of a record that is processing.
pub(crate) const RUNNING: &str =
    "SELECT seq, attempt, retention_ms, granted_at, until FROM onefold_leases WHERE id = ?1";
/// Of any other.
const ENDED: &str = "SELECT o.seq, o.attempt, o.retention_ms, u.state, u.expires_at, o.scope IS NULL,
        u.reconciliation
    FROM onefold_operations o LEFT JOIN onefold_outcomes u ON u.seq = o.seq WHERE o.id = ?1";
const RENEW: &str = "UPDATE onefold_leases SET granted_at = ?2, until = ?3 WHERE id = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[RUNNING, ENDED, RENEW, begin::AGAIN, begin::ANEW, begin::LEASE];

/// A transition with its parts in stored form, prepared by the caller's thread.
pub(crate) struct AdvanceWork {
    pub(crate) advance: Advance,
    /// The payload of `Settle`, the ignored fields of `Begin`.
    form: Option<Vec<u8>>,
    /// The scope of `Begin`.
    scope: Option<Vec<u8>>,
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
        let (form, scope) = match &mut advance.step {
            Step::Settle { kept, .. } | Step::Reconcile { kept, .. } => match std::mem::take(kept) {
                Kept::Nothing => (None, None),
                kept => (Some(sealer.seal(&id, kept_length(&kept), |out| encode_kept(&kept, out))), None),
            },
            Step::Begin { ignored, scope, .. } => {
                ((!ignored.is_empty()).then(|| encode_texts(ignored)), Some(encode_scope(scope)))
            }
            Step::Renew { .. } | Step::Probed { .. } | Step::LoseOutcome | Step::Lapse => (None, None),
        };
        AdvanceWork { advance, form, scope }
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        self.form.as_ref().map_or(0, Vec::len)
    }
}

/// The record that a transition starts from, as far as it matters to the transition.
pub(crate) struct Found {
    pub(crate) seq: i64,
    state: State,
    pub(crate) attempt: u32,
    /// While processing.
    lease: Option<StoredLease>,
    retention_ms: Option<i64>,
    expires_at: Option<i64>,
    tombstone: bool,
    reconciliation: Reconciliation,
}

impl Found {
    /// Whether the transition starts here.
    pub(crate) fn is_start_of(&self, advance: &Advance, batch: &Batch<'_>) -> bool {
        let needs_lease = matches!(advance.step, Step::Renew { .. } | Step::Lapse);
        let is_probed = matches!(advance.step, Step::Probed { .. });
        let reconciled = advance.start.also == Also::OrReconciled
            && self.reconciliation == Reconciliation::Settled
            && !self.expired(batch);
        self.attempt == advance.start.attempt
            && (advance.start.states.contains(&self.state) || reconciled)
            && (!needs_lease || self.lease.is_some())
            && (!is_probed || self.state == State::OutcomeUnknown)
            && match advance.start.also {
                Also::Nothing | Also::OrReconciled => true,
                Also::LeaseOver => {
                    !self.lease.is_some_and(|lease| batch.judge.judge(&lease, batch.moment).is_alive())
                }
                Also::Expired => self.expired(batch),
            }
    }

    /// Whether it is in this state under this attempt.
    pub(crate) fn is(&self, state: State, attempt: u32) -> bool {
        self.state == state && self.attempt == attempt
    }

    fn expired(&self, batch: &Batch<'_>) -> bool {
        self.state.is_terminal() && self.expires_at.is_some_and(|end| end <= batch.now_ms())
    }
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
        (Step::Reconcile { .. }, _) | (_, Some(_)) => batch.in_savepoint(|batch| transition(work, batch)),
        // The first statement that writes is the only one that can fail by itself.
        (_, None) => transition(work, batch),
    }
}

/// What `run` does in its savepoint.
pub(crate) fn transition(work: &AdvanceWork, batch: &mut Batch<'_>) -> Result<RawAdvanced, JobError> {
    let advance = &work.advance;
    let Some(found) = found(advance.id, batch)? else { return Ok(RawAdvanced::Missing) };
    if !found.is_start_of(advance, batch) {
        return superseded(advance, &found, batch);
    }
    let (now, id) = (batch.moment.time, advance.id.as_bytes());
    let mut expires_at = None;
    let grant = match &advance.step {
        Step::Begin { .. } => begin::run(work, &found, batch)?,
        Step::Settle { state, resource, .. } | Step::Reconcile { state, resource, .. } => {
            expires_at = found.retention_ms.map(|retention| now.0.saturating_add(retention));
            let outcome = Outcome {
                expires_at,
                resource_kind: resource.as_ref().map(|resource| resource.kind.as_str()),
                resource_id: resource.as_ref().map(|resource| resource.id.as_str()),
                kept: work.form.as_deref(),
            };
            outcome::put(advance.id, found.seq, found.state, *state, &outcome, batch)?;
            if matches!(advance.step, Step::Reconcile { .. }) {
                probes::settled(found.seq, batch)?;
            }
            Grant::Ended(advance.id)
        }
        Step::Probed { after, negative, reconciliation } => {
            probes::note(found.seq, *after, *negative, *reconciliation, batch)?;
            Grant::Ended(advance.id)
        }
        Step::LoseOutcome => {
            outcome::put(
                advance.id,
                found.seq,
                found.state,
                State::OutcomeUnknown,
                &Outcome::default(),
                batch,
            )?;
            Grant::Ended(advance.id)
        }
        Step::Renew { lease } => {
            let mut renew = batch.connection.prepare_cached(RENEW)?;
            crash::point("sqlite.renew.before");
            renew.execute(params![id, now.0, now.plus(*lease).0])?;
            crash::point("sqlite.renew.after");
            Grant::held(advance.id, found.attempt, batch.moment, *lease)
        }
        Step::Lapse => {
            crash::point("sqlite.lapse.before");
            batch.connection.prepare_cached(RENEW)?.execute(params![id, now.0, now.0])?;
            crash::point("sqlite.lapse.after");
            Grant::Ended(advance.id)
        }
    };
    batch.wrote();
    batch.grant(grant);
    if let Some(event) = &advance.event {
        events::add(found.seq, found.attempt, event, batch)?;
    }
    Ok(RawAdvanced::Done { now, expires_at: expires_at.map(StoreTime) })
}

/// The record was found otherwise: nothing but the evidence is written.
fn superseded(advance: &Advance, found: &Found, batch: &mut Batch<'_>) -> Result<RawAdvanced, JobError> {
    let read = read::in_batch(advance.id, batch)?;
    if let Some(event) = &advance.if_superseded {
        events::add(found.seq, advance.start.attempt, event, batch)?;
    }
    Ok(RawAdvanced::Superseded(Box::new(read)))
}

pub(crate) fn found(id: OperationId, batch: &mut Batch<'_>) -> rusqlite::Result<Option<Found>> {
    let running = batch.hot(Hot::Running)?.query_row([id.as_bytes()], |row| {
        let attempt = row.get(1)?;
        let (granted, until) = (StoreTime(row.get(3)?), StoreTime(row.get(4)?));
        Ok(Found {
            seq: row.get(0)?,
            state: State::Processing,
            attempt,
            lease: Some(StoredLease { id, attempt, granted, until }),
            retention_ms: row.get(2)?,
            expires_at: None,
            tombstone: false,
            reconciliation: Reconciliation::Open,
        })
    });
    if let Some(found) = running.optional()? {
        return Ok(Some(found));
    }
    let ended = batch.connection.prepare_cached(ENDED)?.query_row([id.as_bytes()], |row| {
        Ok(Found {
            seq: row.get(0)?,
            state: state_of(row.get(3)?)?,
            attempt: row.get(1)?,
            lease: None,
            retention_ms: row.get(2)?,
            expires_at: row.get(4)?,
            tombstone: row.get(5)?,
            reconciliation: reconciliation_of(row.get(6)?)?,
        })
    });
    ended.optional()
}
