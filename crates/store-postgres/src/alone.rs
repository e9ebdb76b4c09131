//! A claim and an end of one record, in a transaction that somebody else owns.
//!
//! The statements for batches are planned anew each time, since a plan for any number of records is worse than one for
//! this number; for one record that plan costs more than all the rest. These two have the same plan for all parameters,
//! so a driver that prepares has it once. They do what is usual, and do nothing otherwise: then the batch of one is
//! asked, which says what stands in the way. A record that no quota counts has no counter.

use onefold_core::StoreTime;
use onefold_store::{Also, StoreError, crash};
use tokio_postgres::types::Type;

use crate::advance::Settling;
use crate::ask::Ask;
use crate::batch::RawAdvanced;
use crate::claim::{ClaimWork, version_number};
use crate::row::{duration_ms, get, micros, millis, on_stale_number, retention_ms, state_bits};
use crate::server::Unanswered;

pub(crate) const CLAIM: &str = concat!(
    "WITH made AS (
        INSERT INTO onefold.operations (place, created_at, nonce, lease_until, due_at, retention_ms, tombstone_ms,
            bucket, attempt, state, on_stale, fingerprint_version, id, fingerprint, operation, scope, key, owner,
            correlation_id, ignored)
        SELECT c.us << 10, c.now, $2, c.now + $3, c.now + $4, $4, $5, $6, 1, 1, $8, $9, $10, $11, $12, $13, $14, $15,
            $16, $17
        FROM (
            SELECT t.us, coalesce($1::bigint, t.us / 1000::bigint) AS now FROM (SELECT ",
    micros!(),
    " AS us OFFSET 0) t
        ) c
        WHERE $7::bigint IS NULL OR $7 > c.now
        ON CONFLICT (id) DO NOTHING
        RETURNING id, created_at
    ),
    opened AS (
        INSERT INTO onefold.open (id) SELECT id FROM made
        ON CONFLICT (id) DO UPDATE SET unknown_since = NULL, probe_at = NULL
    )
    SELECT created_at FROM made"
);
pub(crate) const SETTLE: &str = concat!(
    "WITH done AS (
        UPDATE onefold.operations o SET
            nonce = $5,
            state = $6,
            lease_until = NULL,
            ended_at = ",
    millis!(),
    ",
            expires_at = ",
    millis!(),
    " + o.retention_ms,
            reconciliation = NULL,
            probes = NULL,
            probe_at = NULL,
            negative_at = NULL,
            resource_kind = $7,
            resource_id = $8,
            kept = $9
        WHERE o.id = $2 AND o.attempt = $4 AND (1 << o.state) & $3 <> 0
        RETURNING o.id, o.ended_at, o.expires_at
    ),
    closed AS (
        DELETE FROM onefold.open p USING done d WHERE p.id = d.id
    )
    SELECT ended_at, expires_at FROM done"
);

/// Makes the record, if none stands in the way. `None`: something does, or it must be counted.
pub(crate) async fn claim<A: Ask>(work: &ClaimWork, ask: &A) -> Result<Option<StoreTime>, A::Error> {
    let claim = &work.claim;
    if claim.live_keys_max.is_some() {
        return Ok(None);
    }
    crash::point("postgres.claim_alone.before");
    let rows = ask
        .ask(
            CLAIM,
            &[
                (&ask.now(), Type::INT8),
                (&work.nonce, Type::INT8),
                (&duration_ms(claim.lease), Type::INT8),
                (&retention_ms(&claim.promise), Type::INT8),
                (&duration_ms(claim.promise.tombstone), Type::INT8),
                (&work.bucket, Type::INT8),
                (&claim.key_expires_at.map(|end| end.0), Type::INT8),
                (&on_stale_number(claim.promise.on_stale), Type::INT2),
                (&version_number(claim.fingerprint.version), Type::INT2),
                (&claim.id.as_bytes().as_slice(), Type::BYTEA),
                (&claim.fingerprint.digest.as_slice(), Type::BYTEA),
                (&claim.operation.as_bytes(), Type::BYTEA),
                (&work.scope.as_slice(), Type::BYTEA),
                (&claim.key.as_str().as_bytes(), Type::BYTEA),
                (&claim.owner.as_bytes(), Type::BYTEA),
                (&claim.correlation_id.as_deref().map(str::as_bytes), Type::BYTEA),
                (&work.ignored.as_deref(), Type::BYTEA),
            ],
            Unanswered::GiveUp,
        )
        .await?;
    crash::point("postgres.claim_alone.after");
    let made = rows.first().map(|row| get(row, 0).map(StoreTime)).transpose();
    made.map_err(|error: StoreError| error.into())
}

/// Ends the attempt, if the record is found where it starts. `None`: it is not, or there is more to it.
pub(crate) async fn settle<A: Ask>(
    settling: &Settling<'_>,
    ask: &A,
) -> Result<Option<RawAdvanced>, A::Error> {
    let start = &settling.start;
    if start.also != Also::Nothing {
        return Ok(None);
    }
    crash::point("postgres.settle_alone.before");
    let rows = ask
        .ask(
            SETTLE,
            &[
                (&ask.now(), Type::INT8),
                (&settling.id, Type::BYTEA),
                (&state_bits(start.states), Type::INT4),
                (&i32::try_from(start.attempt).unwrap_or(-1), Type::INT4),
                (&settling.nonce, Type::INT8),
                (&settling.to_state, Type::INT2),
                (&settling.resource.0, Type::BYTEA),
                (&settling.resource.1, Type::BYTEA),
                (&settling.kept, Type::BYTEA),
            ],
            Unanswered::GiveUp,
        )
        .await?;
    crash::point("postgres.settle_alone.after");
    let Some(row) = rows.first() else { return Ok(None) };
    let expires_at = get::<Option<i64>>(row, 1)?.map(StoreTime);
    Ok(Some(RawAdvanced::Done { now: StoreTime(get(row, 0)?), expires_at }))
}
