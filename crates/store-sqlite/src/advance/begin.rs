//! The next attempt of a record that exists: attempt + 1, under a new lease and a new fingerprint.
//!
//! From an expired record everything else starts anew, and a tombstone counts as live again. The attempt goes on, so
//! that it stays a fence.

use onefold_core::State;
use onefold_store::{Grant, Step};
use rusqlite::params;

use super::{AdvanceWork, Found, RawAdvanced, state_set, superseded};
use crate::batch::Batch;
use crate::error::JobError;
use crate::events;
use crate::row::{on_stale_number, retention_ms, tombstone_ms};

pub(super) const AGAIN: &str = "UPDATE operations SET state = 1, attempt = attempt + 1, leased_at = ?4,
        lease_until = ?5, on_stale = ?6, retention_ms = ?11, tombstone_ms = ?12, begun_at = coalesce(begun_at, ?4), completed_at = NULL, expires_at = NULL,
        due_at = NULL, fingerprint_version = ?7, fingerprint = ?8, owner = ?9,
        ignored = ?10, resource_kind = NULL, resource_id = NULL, kept = NULL
    WHERE id = ?1 AND attempt = ?2 AND (?3 >> state) & 1";
pub(super) const ANEW: &str = "UPDATE operations SET state = 1, attempt = attempt + 1, leased_at = ?4,
        lease_until = ?5, on_stale = ?6, retention_ms = ?11, tombstone_ms = ?12, created_at = ?4, begun_at = ?4, completed_at = NULL, expires_at = NULL,
        due_at = NULL, duplicates = 0, conflicts = 0, replays = 0,
        fingerprint_version = ?7, fingerprint = ?8, owner = ?9, correlation_id = NULL,
        ignored = ?10, resource_kind = NULL, resource_id = NULL, kept = NULL
    WHERE id = ?1 AND attempt = ?2 AND (?3 >> state) & 1";

/// Begins the attempt after the one that `work` starts from.
pub(super) fn run(work: &AdvanceWork, found: &Found, batch: &mut Batch<'_>) -> Result<RawAdvanced, JobError> {
    let advance = &work.advance;
    let Step::Begin { owner, lease, fingerprint, promise, .. } = &advance.step else {
        unreachable!("only `Begin` comes here")
    };
    let now = batch.moment.time;
    debug_assert!(!found.expired || found.state != State::Processing, "only terminal records expire");
    let sql = if found.expired { ANEW } else { AGAIN };
    let changed = batch.connection.prepare_cached(sql)?.execute(params![
        advance.id.as_bytes(),
        advance.start.attempt,
        state_set(advance.start.states),
        now.0,
        now.plus(*lease).0,
        on_stale_number(promise.on_stale),
        fingerprint.version,
        fingerprint.digest,
        owner,
        work.form,
        retention_ms(promise),
        tombstone_ms(promise),
    ])?;
    if changed == 0 {
        return superseded(advance, batch);
    }
    batch.wrote();
    if found.expired {
        events::delete(found.seq, batch)?;
    }
    if found.tombstone {
        batch.one_more(&found.scope)?;
    }
    batch.grant(Grant::held(advance.id, advance.start.attempt + 1, batch.moment, *lease));
    if let Some(event) = &advance.event {
        events::add(found.seq, advance.start.attempt, event, batch)?;
    }
    Ok(RawAdvanced::Done { now, expires_at: None })
}
