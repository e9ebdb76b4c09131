//! An operation of which there is no record: one insert, of the finished record. A crash before its commit leaves
//! nothing, and the key is free.

use std::time::Duration;

use onefold_core::contract::Retention;
use onefold_core::{OperationId, StoreTime};
use onefold_store::{Atomically, Claim, Finish, crash};
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::ending::fate;
use super::key_lock::{tried, trying};
use super::{Answers, End, Finished, PostgresWork, Stopped, bounded, closure, ended, found, in_turn, lock};
use crate::about::About;
use crate::claim::{ClaimWork, version_number};
use crate::error::Failed;
use crate::held::Held;
use crate::row::{self, duration_ms, get, micros, on_stale_number, retention_ms, state_number};
use crate::server::Unanswered;
use crate::store::PostgresStore;

/// The year 2000, from which the server counts, in microseconds of the Unix epoch.
const YEAR_2000_US: i64 = 946_684_800_000_000;

/// Shards in which the scopes of atomic operations are counted: whoever counts holds a row until its commit.
const SHARDS: i16 = 64;

/// Takes the lock of the key $1, looks for the record $2, and limits the statements of the transaction to $3 (as text,
/// milliseconds). Its time when it had the lock, NULL where another transaction has it. For connections on which it is
/// prepared, and keys that no quota counts.
pub(crate) const LOOK: &str =
    "SELECT CASE WHEN pg_try_advisory_xact_lock($1) THEN pg_catalog.clock_timestamp() END,
        EXISTS (SELECT FROM onefold.operations o WHERE o.id = $2),
        pg_catalog.set_config('statement_timeout'::text, $3, true)";
/// Inserts the finished record; nothing is counted. For the same connections.
pub(crate) const FINISH_PREPARED: &str = concat!(
    "INSERT INTO onefold.operations (place, created_at, due_at, retention_ms, tombstone_ms, bucket, attempt, shard,
        on_stale, fingerprint_version, id, operation, fingerprint, scope, key, owner, correlation_id, ignored, state,
        nonce, ended_at, expires_at, resource_kind, resource_id, kept)
    SELECT c.us << 10, c.now, c.now + $2, $2, $3, $4, 1, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, c.now,
        c.now + $2, $18, $19, $20
    FROM (
        SELECT t.us, coalesce($1, t.us / 1000::bigint) AS now FROM (SELECT ",
    micros!(),
    " AS us OFFSET 0) t
    ) c
    RETURNING created_at"
);
/// The same as functions of the schema, for every other connection, and where a quota counts: what a function does is
/// planned once for each connection, an unnamed statement each time.
pub(crate) const ENTER: &str =
    "SELECT now, stands, blind_until FROM onefold.atomic_enter($1, $2, $3, $4, $5, $6)";
pub(crate) const FINISH: &str = "SELECT onefold.atomic_finish($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
    $12, $13, $14, $15, $16, $17, $18, $19, $20)";

/// Whether the record $1 was made before $2.
pub(crate) const BEFORE: &str = "SELECT FROM onefold.operations WHERE id = $1 AND place >> 10 < $2";

pub(crate) async fn run(
    claim: Claim,
    work: &mut PostgresWork,
    store: &PostgresStore,
) -> Result<Atomically, Stopped> {
    let begun = Instant::now();
    let shard = rand::random_range(0..SHARDS);
    let claim = ClaimWork::new(claim, |scope| store.bucket(scope), shard);
    let id = claim.claim.id;
    let (held, now, blind_until) = enter(&claim, store).await?;
    let (held, finished) = match (closure(held, id, About::Operation, now, work, store).await, blind_until) {
        (Ok(finished), _) => finished,
        (Err(Stopped::Undone(ended)), Some(until)) => return undone(id, *ended, until, store).await,
        (Err(stopped), _) => return Err(stopped),
    };
    let held = match finished.finish {
        Finish::Succeeded => held,
        // Its writes go; the record is made in a transaction of its own, and the unique digest is the judge again.
        Finish::Rejected => again(held, id).await?,
    };
    commit(held, &claim, begun, finished, store).await
}

/// Begins the transaction; what stands in the way ends it.
async fn enter(claim: &ClaimWork, store: &PostgresStore) -> Result<(Held, StoreTime, Option<i64>), Stopped> {
    let id = claim.claim.id;
    let mut held = store.server().for_closure().await?;
    let most = store.closure_time_max();
    crash::point("postgres.enter.before");
    let looked = if held.prepares() && !is_counted(claim) {
        bounded(look(&mut held, most, claim, store)).await
    } else {
        bounded(call(&mut held, most, claim, store)).await
    };
    crash::point("postgres.enter.after");
    let entered = match looked {
        Ok(entered) => entered,
        Err(failed) => return Err(held.failed(failed).await.into()),
    };
    let Some(Entered { now, stands, blind_until }) = entered else {
        held.roll_back().await;
        return Err(Stopped::busy());
    };
    if stands == 0 {
        return Ok((held, now, blind_until));
    }
    held.roll_back().await;
    Err(Stopped::ended(match stands {
        1 => found(id, store).await?,
        2 => Atomically::KeyTooOld { now },
        _ => Atomically::QuotaReached,
    }))
}

/// A transaction that has the lock of its key.
struct Entered {
    now: StoreTime,
    /// 0 nothing, 1 a record, 2 the age of the key, 3 the quota.
    stands: i16,
    /// It may not see what was committed before.
    blind_until: Option<i64>,
}

/// By a prepared statement. `None`: another attempt has the lock. What is committed between the statement's snapshot
/// and the lock is not seen.
async fn look(
    held: &mut Held,
    most: Duration,
    claim: &ClaimWork,
    store: &PostgresStore,
) -> Result<Option<Entered>, Failed> {
    let claimed = &claim.claim;
    let limit = held.limited_from_the_start(most).as_millis().to_string();
    let params: [(&(dyn ToSql + Sync), Type); 3] = [
        (&lock(claimed.id), Type::INT8),
        (&claimed.id.as_bytes().as_slice(), Type::BYTEA),
        (&limit, Type::TEXT),
    ];
    let asked = async {
        let statement = held.prepared(LOOK, &params).await?;
        let (open, rows) = tokio::join!(biased; held.batch_execute("BEGIN"), statement.query(held, &params));
        open?;
        rows
    };
    let rows = asked.await.map_err(|error| Failed::of(&error))?;
    let Some(row) = rows.first() else { return Err(unanswered()) };
    let Some(since_2000_us) = get::<Option<i64>>(row, 0)? else { return Ok(None) };
    let us = since_2000_us.saturating_add(YEAR_2000_US);
    let now = store.server().now().unwrap_or(us / 1000);
    let stands = match claimed.key_expires_at {
        _ if get::<bool>(row, 1)? => 1,
        Some(end) if end.0 <= now => 2,
        _ => 0,
    };
    Ok(Some(Entered { now: StoreTime(now), stands, blind_until: Some(us) }))
}

/// By the function of the schema. `None`: another attempt has the lock.
async fn call(
    held: &mut Held,
    most: Duration,
    claim: &ClaimWork,
    store: &PostgresStore,
) -> Result<Option<Entered>, Failed> {
    let claimed = &claim.claim;
    let params: [(&(dyn ToSql + Sync), Type); 6] = [
        (&store.server().now(), Type::INT8),
        (&claimed.id.as_bytes().as_slice(), Type::BYTEA),
        (&lock(claimed.id), Type::INT8),
        (&claim.bucket, Type::INT8),
        (&live_keys_max(claim), Type::INT8),
        (&claimed.key_expires_at.map(|end| end.0), Type::INT8),
    ];
    let begin = held.begin(most);
    let asked = async {
        let statement = held.prepared(ENTER, &params).await?;
        let (open, rows) = tokio::join!(biased; held.batch_execute(&begin), statement.query(held, &params));
        open?;
        rows
    };
    let rows = asked.await.map_err(|error| Failed::of(&error))?;
    let Some(row) = rows.first() else { return Err(unanswered()) };
    let stands = get(row, 1)?;
    if stands == 4 {
        return Ok(None);
    }
    Ok(Some(Entered { now: StoreTime(get(row, 0)?), stands, blind_until: get(row, 2)? }))
}

/// Whether a quota counts it.
fn is_counted(claim: &ClaimWork) -> bool {
    claim.claim.live_keys_max.is_some()
}

fn live_keys_max(claim: &ClaimWork) -> Option<i64> {
    claim.claim.live_keys_max.map(|most| i64::try_from(most).unwrap_or(i64::MAX))
}

fn unanswered() -> Failed {
    row::unreadable("no answer").into()
}

/// A look may not see what was committed just before it had the lock, and above READ COMMITTED neither does the
/// closure. So one that did nothing may have been a duplicate's that did not know: then the record stands, made before
/// it had the lock.
async fn undone(
    id: OperationId,
    ended: Atomically,
    until: i64,
    store: &PostgresStore,
) -> Result<Atomically, Stopped> {
    let params: [(&(dyn ToSql + Sync), Type); 2] =
        [(&id.as_bytes().as_slice(), Type::BYTEA), (&until, Type::INT8)];
    if store.server().ask(BEFORE, &params, Unanswered::AskAgain).await?.is_empty() {
        return Err(Stopped::ended(ended));
    }
    found(id, store).await
}

async fn again(held: Held, id: OperationId) -> Result<Held, Stopped> {
    let sql = format!("ROLLBACK; {}", trying(id));
    crash::point("postgres.again.before");
    let taken = bounded(tried(&held, &sql)).await?;
    crash::point("postgres.again.after");
    if taken {
        return Ok(held);
    }
    held.roll_back().await;
    Err(Stopped::busy())
}

/// Commits with the finished record.
async fn commit(
    held: Held,
    claim: &ClaimWork,
    begun: Instant,
    finished: Finished,
    store: &PostgresStore,
) -> Result<Atomically, Stopped> {
    let (id, promise) = (claim.claim.id, &claim.claim.promise);
    crash::point("postgres.finish.before");
    let asked = bounded(insert(&held, claim, &finished, store)).await;
    crash::point("postgres.finish.after");
    match ended(held, "operations", asked).await? {
        End::Done(rows) => {
            let row = rows.first().ok_or_else(|| row::unreadable("no answer"))?;
            let now: i64 = get(row, 0)?;
            let expires_at = retention_ms(promise).map(|retention| StoreTime(now.saturating_add(retention)));
            Ok(finished.committed(StoreTime(now), 1, expires_at, store))
        }
        End::Exists => Err(Stopped::ended(found(id, store).await?)),
        End::Lost(why) => {
            let gone_from = match promise.retention {
                Retention::For(retention) => begun.checked_add(retention.saturating_add(promise.tombstone)),
                Retention::Forever => None,
            };
            fate(id, claim.nonce, gone_from, why, finished, store).await
        }
    }
}

/// Inserts the finished record and commits, in one round trip.
async fn insert(
    held: &Held,
    claim: &ClaimWork,
    finished: &Finished,
    store: &PostgresStore,
) -> Result<Answers<Vec<Row>>, Failed> {
    let Claim { operation, key, fingerprint, owner, correlation_id, promise, .. } = &claim.claim;
    let (counted, resource) = (is_counted(claim), finished.resource.as_ref());
    let params: [(&(dyn ToSql + Sync), Type); 20] = [
        (&store.server().now(), Type::INT8),
        (&retention_ms(promise), Type::INT8),
        (&duration_ms(promise.tombstone), Type::INT8),
        (&claim.bucket, Type::INT8),
        (&counted.then_some(claim.shard), Type::INT2),
        (&on_stale_number(promise.on_stale), Type::INT2),
        (&version_number(fingerprint.version), Type::INT2),
        (&claim.claim.id.as_bytes().as_slice(), Type::BYTEA),
        (&operation.as_bytes(), Type::BYTEA),
        (&fingerprint.digest.as_slice(), Type::BYTEA),
        (&claim.scope, Type::BYTEA),
        (&key.as_str().as_bytes(), Type::BYTEA),
        (&owner.as_bytes(), Type::BYTEA),
        (&correlation_id.as_deref().map(str::as_bytes), Type::BYTEA),
        (&claim.ignored, Type::BYTEA),
        (&state_number(finished.state()), Type::INT2),
        (&claim.nonce, Type::INT8),
        (&resource.map(|resource| resource.kind.as_bytes()), Type::BYTEA),
        (&resource.map(|resource| resource.id.as_bytes()), Type::BYTEA),
        (&finished.form, Type::BYTEA),
    ];
    let sql = if held.prepares() && !counted { FINISH_PREPARED } else { FINISH };
    let statement = held.prepared(sql, &params).await.map_err(|error| Failed::of(&error))?;
    Ok(in_turn(statement.query(held, &params), held.batch_execute("COMMIT")).await)
}
