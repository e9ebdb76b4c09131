//! What time does to records: lost outcomes, tombstones, the end of tombstones.
//!
//! Nothing depends on the sweeper for being right: whoever reads judges leases and expiry by the time. It works in
//! small steps, each one statement and one transaction, that pass over records which somebody else has locked, or
//! whose scope's counter somebody holds, as an open transaction may: those come up again a second later. Of many
//! gateways one at a time takes a step: a lock that ends with the statement says which. A crash between steps leaves
//! nothing half done and no lock behind.

use onefold_store::{StoreError, Swept};
use tokio_postgres::types::Type;

use crate::row::{clock, count, get};
use crate::server::{Server, Unanswered};

/// Records in one step.
const STEP_RECORDS_MAX: u32 = 500;
/// The lock of whoever takes a step; any number that nobody else uses.
const STEP_LOCK: i64 = 0x4F6E_6566_0000_0001;

/// $2: at most so many; $3: the lock. A record whose end was not yet known when it was made, or that began again, is
/// only told when to be looked at next; so is one that is passed over (3). Answers how many were buried, deleted,
/// told; NULL: another sweeps.
pub(crate) const SWEEP: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    "),
    gate AS MATERIALIZED (SELECT pg_try_advisory_xact_lock($3::bigint) AS mine),
    due AS MATERIALIZED (
        SELECT o.id, o.bucket, o.shard, CASE
                WHEN NOT (o.state IN (2, 3, 4) AND coalesce(o.expires_at <= c.now, false)) THEN 0
                WHEN o.bucket IS NULL OR o.expires_at + o.tombstone_ms <= c.now THEN 2
                ELSE 1
            END AS what
        FROM onefold.operations o CROSS JOIN clock c
        WHERE o.due_at <= c.now AND (SELECT mine FROM gate)
        ORDER BY o.due_at LIMIT $2::bigint FOR UPDATE OF o SKIP LOCKED
    ),
    freed AS MATERIALIZED (
        SELECT bucket, shard FROM due WHERE what > 0 AND bucket IS NOT NULL GROUP BY bucket, shard
    ),
    held AS MATERIALIZED (
        SELECT s.bucket, s.shard FROM freed f JOIN onefold.scopes s USING (bucket, shard)
        ORDER BY s.bucket, s.shard FOR UPDATE OF s SKIP LOCKED
    ),
    judged AS MATERIALIZED (
        SELECT d.id, d.bucket, d.shard, CASE
                WHEN d.what > 0 AND h.bucket IS NULL AND EXISTS (SELECT FROM onefold.scopes s
                    WHERE s.bucket = d.bucket AND s.shard = d.shard) THEN 3
                ELSE d.what
            END AS what
        FROM due d LEFT JOIN held h ON h.bucket = d.bucket AND h.shard = d.shard
    ),
    told AS (
        UPDATE onefold.operations o SET due_at = CASE
            WHEN d.what = 3 THEN c.now + 1000::bigint
            WHEN o.state IN (2, 3, 4) THEN o.expires_at ELSE c.now + o.retention_ms END
        FROM judged d CROSS JOIN clock c WHERE o.id = d.id AND d.what IN (0, 3)
    ),
    buried AS (
        UPDATE onefold.operations o SET due_at = o.expires_at + o.tombstone_ms, bucket = NULL, shard = NULL,
            fingerprint_version = NULL, fingerprint = NULL, scope = NULL, key = NULL, owner = NULL,
            correlation_id = NULL, ignored = NULL, resource_kind = NULL, resource_id = NULL, kept = NULL
        FROM judged d WHERE o.id = d.id AND d.what = 1
    ),
    deleted AS (
        DELETE FROM onefold.operations o USING judged d WHERE o.id = d.id AND d.what = 2
    ),
    forgotten AS (
        DELETE FROM onefold.events e USING judged d WHERE e.id = d.id AND d.what = 2
    ),
    unstepped AS (
        DELETE FROM onefold.steps s USING judged d WHERE s.operation = d.id AND d.what IN (1, 2)
    ),
    counted AS (
        UPDATE onefold.scopes s SET live = s.live - f.freed FROM (
            SELECT bucket, shard, count(*) AS freed FROM judged
            WHERE what IN (1, 2) AND bucket IS NOT NULL GROUP BY bucket, shard
        ) f WHERE s.bucket = f.bucket AND s.shard = f.shard
    )
    SELECT g.mine, count(*) FILTER (WHERE d.what = 1), count(*) FILTER (WHERE d.what = 2), count(d.what)
    FROM gate g LEFT JOIN judged d ON true GROUP BY g.mine"
);

/// Scopes without live records.
pub(crate) const EMPTY_SCOPES: &str = "DELETE FROM onefold.scopes s USING (
        SELECT bucket, shard FROM onefold.scopes WHERE live <= 0 LIMIT 1000 FOR UPDATE SKIP LOCKED
    ) e WHERE s.bucket = e.bucket AND s.shard = e.shard AND s.live <= 0";

/// $2: at most so many; $3: the number of the transition; $4, $5: who and why.
pub(crate) const LOSE: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    "),
    stale AS MATERIALIZED (
        SELECT o.id FROM onefold.open p JOIN onefold.operations o ON o.id = p.id CROSS JOIN clock c
        WHERE p.unknown_since IS NULL AND o.state = 1 AND o.on_stale <> 1 AND o.lease_until <= c.now
        ORDER BY o.lease_until LIMIT $2::bigint FOR UPDATE OF o SKIP LOCKED
    ),
    lost AS (
        UPDATE onefold.operations o SET nonce = $3::bigint, state = 5, lease_until = NULL, ended_at = c.now,
            probe_at = c.now
        FROM stale s CROSS JOIN clock c WHERE o.id = s.id
        RETURNING o.id, o.attempt
    ),
    marked AS (
        UPDATE onefold.open p SET unknown_since = c.now, probe_at = c.now FROM lost l CROSS JOIN clock c WHERE p.id = l.id
    ),
    told AS (
        INSERT INTO onefold.events (id, at, kind, attempt, who, reason, evidence)
        SELECT l.id, c.now, 0, l.attempt, $4::bytea, $5::bytea, ''::bytea FROM lost l CROSS JOIN clock c
    )
    SELECT count(*) FROM lost"
);

/// Buries and deletes at most `limit` records.
pub(crate) async fn run(limit: u32, server: &Server) -> Result<Swept, StoreError> {
    let mut swept = Swept::default();
    loop {
        let step = step_of(limit, swept.tombstones + swept.deleted);
        if step == 0 {
            break;
        }
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&server.now(), Type::INT8), (&i64::from(step), Type::INT8), (&STEP_LOCK, Type::INT8)];
        let rows = server.ask(SWEEP, &params, Unanswered::GiveUp).await?;
        let Some(row) = rows.first() else { break };
        let touched: i64 = get(row, 3)?;
        swept.tombstones += count(get(row, 1)?);
        swept.deleted += count(get(row, 2)?);
        if touched == 0 || !get::<bool>(row, 0)? {
            break;
        }
    }
    if swept != Swept::default() {
        server.ask(EMPTY_SCOPES, &[], Unanswered::AskAgain).await?;
    }
    Ok(swept)
}

/// Marks at most `limit` lost outcomes.
pub(crate) async fn lose_stale(limit: u32, server: &Server) -> Result<u64, StoreError> {
    let (who, why) = (&b"onefold"[..], &b"the lease ended without an outcome"[..]);
    let mut lost = 0;
    loop {
        let step = step_of(limit, lost);
        if step == 0 {
            return Ok(lost);
        }
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 5] = [
            (&server.now(), Type::INT8),
            (&i64::from(step), Type::INT8),
            (&rand::random::<i64>(), Type::INT8),
            (&who, Type::BYTEA),
            (&why, Type::BYTEA),
        ];
        let rows = server.ask(LOSE, &params, Unanswered::GiveUp).await?;
        let done = rows.first().map(|row| get::<i64>(row, 0)).transpose()?.map_or(0, count);
        if done == 0 {
            return Ok(lost);
        }
        lost += done;
    }
}

/// How many records the next step may touch.
fn step_of(limit: u32, done: u64) -> u32 {
    let left = u64::from(limit).saturating_sub(done);
    u32::try_from(left).map_or(STEP_RECORDS_MAX, |left| left.min(STEP_RECORDS_MAX))
}
