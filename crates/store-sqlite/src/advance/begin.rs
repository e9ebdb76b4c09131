//! The next attempt of a record that exists: attempt + 1, under a new lease and a new fingerprint.
//!
//! From an expired record everything else starts anew. A tombstone has forgotten its scope and key: it is given them
//! again, and counts as live again. The attempt goes on, so that it stays a fence.

use onefold_core::State;
use onefold_store::{Grant, Step, crash};
use rusqlite::params;

use super::{AdvanceWork, Found};
use crate::batch::Batch;
use crate::error::JobError;
use crate::row::{on_stale_number, retention_ms, tombstone_ms};
use crate::{events, outcome, steps};

pub(super) const AGAIN: &str =
    "UPDATE onefold_operations SET attempt = attempt + 1, on_stale = ?2, retention_ms = ?3,
        tombstone_ms = ?4, fingerprint_version = ?5, fingerprint = ?6, owner = ?7, ignored = ?8
    WHERE seq = ?1";
pub(super) const ANEW: &str =
    "UPDATE onefold_operations SET attempt = attempt + 1, on_stale = ?2, retention_ms = ?3,
        tombstone_ms = ?4, fingerprint_version = ?5, fingerprint = ?6, owner = ?7, ignored = ?8,
        created_at = ?9, scope = coalesce(?10, scope), key = ?11, duplicates = 0, conflicts = 0, replays = 0,
        correlation_id = NULL
    WHERE seq = ?1";
pub(super) const LEASE: &str =
    "INSERT OR REPLACE INTO onefold_leases (id, seq, attempt, granted_at, until, on_stale, retention_ms)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// Begins the attempt after the one that was found. In a savepoint.
pub(crate) fn run(work: &AdvanceWork, found: &Found, batch: &mut Batch<'_>) -> Result<Grant, JobError> {
    let advance = &work.advance;
    let Step::Begin { key, owner, lease, fingerprint, promise, .. } = &advance.step else {
        unreachable!("only `Begin` comes here")
    };
    let now = batch.moment.time;
    let anew = found.expired(batch);
    debug_assert!(!anew || found.state != State::Processing, "only terminal records expire");
    let on_stale = on_stale_number(promise.on_stale);
    let (retention, tombstone) = (retention_ms(promise), tombstone_ms(promise));
    let (version, digest) = (fingerprint.version, fingerprint.digest);
    crash::point("sqlite.next.before");
    if anew {
        let scope = match &work.scope {
            Some(scope) if found.tombstone => Some(batch.one_more(scope)?),
            _ => None,
        };
        batch.connection.prepare_cached(ANEW)?.execute(params![
            found.seq,
            on_stale,
            retention,
            tombstone,
            version,
            digest,
            owner,
            work.form,
            now.0,
            scope,
            key.as_str(),
        ])?;
        events::delete(found.seq, batch)?;
    } else {
        batch.connection.prepare_cached(AGAIN)?.execute(params![
            found.seq, on_stale, retention, tombstone, version, digest, owner, work.form,
        ])?;
    }
    crash::point("sqlite.next.after");
    if anew || found.state == State::Failed {
        // Another request may begin, and what was finished under the one before is none of its steps.
        steps::delete(found.seq, batch)?;
        crash::point("sqlite.steps_forgotten.after");
    }
    outcome::forget(found.seq, batch)?;
    crash::point("sqlite.outcome_forgotten.after");
    batch.connection.prepare_cached(LEASE)?.execute(params![
        advance.id.as_bytes(),
        found.seq,
        found.attempt + 1,
        now.0,
        now.plus(*lease).0,
        on_stale,
        retention,
    ])?;
    crash::point("sqlite.next_lease.after");
    Ok(Grant::held(advance.id, found.attempt + 1, batch.moment, *lease))
}
