//! Making a record.
//!
//! One statement either makes it or finds one: the unique digest is the judge, so of any number of claims in any
//! number of processes one wins. The quota is read in the same transaction, and a key that exists already is never
//! refused by it.

use onefold_core::{OperationId, StoreTime};
use onefold_store::codec::{encode_scope, encode_texts};
use onefold_store::{Claim, Grant, crash};
use rusqlite::{OptionalExtension, params};

use crate::batch::{Batch, ScopeFound};
use crate::error::{JobError, whole_batch};
use crate::hot::Hot;
use crate::read;
use crate::row::{RawRead, on_stale_number, retention_ms, tombstone_ms};

pub(crate) const CLAIM: &str =
    "INSERT INTO onefold_operations (seq, id, attempt, on_stale, retention_ms, tombstone_ms,
        created_at, scope, operation, fingerprint_version, fingerprint, key, owner, correlation_id, ignored)
    VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
    ON CONFLICT (id) DO NOTHING";
pub(crate) const LEASE: &str =
    "INSERT INTO onefold_leases (id, seq, attempt, granted_at, until, on_stale, retention_ms)
    VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6)";
const EXISTS: &str = "SELECT 1 FROM onefold_operations WHERE id = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[CLAIM, LEASE, EXISTS];

/// A claim with its parts in stored form, prepared by the caller's thread.
pub(crate) struct ClaimWork {
    pub(crate) claim: Claim,
    scope: Vec<u8>,
    ignored: Option<Vec<u8>>,
}

/// What became of a claim; a payload is still to be opened.
pub(crate) enum RawClaimed {
    Won { now: StoreTime },
    Exists(Box<RawRead>),
    QuotaReached,
    KeyTooOld { now: StoreTime },
}

impl ClaimWork {
    pub(crate) fn new(claim: Claim) -> ClaimWork {
        let scope = encode_scope(&claim.scope);
        let ignored = (!claim.ignored.is_empty()).then(|| encode_texts(&claim.ignored));
        ClaimWork { claim, scope, ignored }
    }
}

/// What speaks against a new record before it is made.
pub(crate) enum Against {
    Nothing(ScopeFound),
    KeyTooOld,
    Quota,
}

/// Looks for what speaks against a new record, but for a record that is there.
pub(crate) fn against(work: &ClaimWork, batch: &mut Batch<'_>) -> Result<Against, JobError> {
    let claim = &work.claim;
    if claim.key_expires_at.is_some_and(|end| end <= batch.moment.time) && !exists(claim.id, batch)? {
        return Ok(Against::KeyTooOld);
    }
    let scope = batch.scope(&work.scope)?;
    if let Some(max) = claim.live_keys_max
        && scope.live >= i64::try_from(max).unwrap_or(i64::MAX)
        && !exists(claim.id, batch)?
    {
        return Ok(Against::Quota);
    }
    Ok(Against::Nothing(scope))
}

/// Makes the row of the record, if there is none: says whether it did.
pub(crate) fn make(
    work: &ClaimWork,
    seq: i64,
    scope: ScopeFound,
    batch: &mut Batch<'_>,
) -> rusqlite::Result<bool> {
    let claim = &work.claim;
    let now = batch.moment.time;
    crash::point("sqlite.record.before");
    let made = batch.hot(Hot::Claim)?.execute(params![
        seq,
        claim.id.as_bytes(),
        on_stale_number(claim.promise.on_stale),
        retention_ms(&claim.promise),
        tombstone_ms(&claim.promise),
        now.0,
        scope.number,
        claim.operation,
        claim.fingerprint.version,
        claim.fingerprint.digest,
        claim.key.as_str(),
        claim.owner,
        claim.correlation_id,
        work.ignored,
    ])?;
    crash::point("sqlite.record.after");
    Ok(made == 1)
}

/// Makes the record, if there is none.
pub(crate) fn run(work: &ClaimWork, batch: &mut Batch<'_>) -> Result<RawClaimed, JobError> {
    let claim = &work.claim;
    let scope = match against(work, batch)? {
        Against::Nothing(scope) => scope,
        Against::KeyTooOld => return Ok(RawClaimed::KeyTooOld { now: batch.moment.time }),
        Against::Quota => return Ok(RawClaimed::QuotaReached),
    };
    let now = batch.moment.time;
    let seq = batch.next_seq();
    if !make(work, seq, scope, batch)? {
        return Ok(RawClaimed::Exists(Box::new(read::in_batch(claim.id, batch)?)));
    }
    let on_stale = on_stale_number(claim.promise.on_stale);
    let retention = retention_ms(&claim.promise);
    let until = now.plus(claim.lease).0;
    let lease = params![claim.id.as_bytes(), seq, now.0, until, on_stale, retention];
    batch.hot(Hot::Lease)?.execute(lease).map_err(whole_batch)?;
    crash::point("sqlite.lease.after");
    batch.wrote();
    batch.one_claimed(scope);
    batch.grant(Grant::held(claim.id, 1, batch.moment, claim.lease));
    Ok(RawClaimed::Won { now })
}

pub(crate) fn exists(id: OperationId, batch: &Batch<'_>) -> rusqlite::Result<bool> {
    let mut statement = batch.connection.prepare_cached(EXISTS)?;
    Ok(statement.query_row([id.as_bytes()], |_| Ok(())).optional()?.is_some())
}
