//! Making records.
//!
//! One statement for a batch of claims: it makes those that may be made and brings those that stand in the way. The
//! unique digest is the judge, so of any number of claims in any number of gateways one wins. Records are made in the
//! order of their digests, so that two batches never wait for each other crosswise. A claim that finds a record with
//! its own nonce has won before: its first answer was lost.
//!
//! The quota is read in the same statement. Claims of one scope go through one lane, so within a gateway it is exact;
//! gateways that claim at the same moment may each be a batch over it.

use onefold_core::{OperationId, StoreTime};
use onefold_store::codec::{encode_scope, encode_texts};
use onefold_store::{Claim, StoreError, crash};
use tokio_postgres::types::Type;

use crate::ask::Ask;
use crate::batch::place;
use crate::driver::Columns;
use crate::error::Failed;
use crate::lanes::Work;
use crate::read;
use crate::row::{RawRead, clock, columns, duration_ms, found, get, on_stale_number, retention_ms};
use crate::server::{Server, Unanswered};

/// $2 is the shard in which new records are counted.
pub(crate) const CLAIM: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    "),
    input AS MATERIALIZED (
        SELECT * FROM unnest($3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::bigint[], $11::smallint[], $12::smallint[], $13::bytea[], $14::bytea[],
            $15::bytea[], $16::bytea[], $17::bytea[], $18::bytea[], $19::bytea[])
        WITH ORDINALITY AS i (id, nonce, bucket, lease_ms, retention_ms, tombstone_ms, live_max, key_until,
            on_stale, fingerprint_version, fingerprint, operation, key, scope, owner, correlation_id, ignored, n)
    ),
    live AS MATERIALIZED (
        SELECT bucket, sum(live)::bigint AS live FROM onefold.scopes WHERE bucket = ANY ($5) GROUP BY bucket
    ),
    young AS MATERIALIZED (
        SELECT i.*, coalesce(i.key_until <= c.now, false) AS too_old, coalesce(l.live, 0)
            + count(*) FILTER (WHERE i.key_until IS NULL OR i.key_until > c.now)
                OVER (PARTITION BY i.bucket ORDER BY i.n) AS number
        FROM input i CROSS JOIN clock c LEFT JOIN live l ON l.bucket = i.bucket
        WHERE NOT EXISTS (SELECT FROM onefold.operations o WHERE o.id = i.id)
    ),
    made AS (
        INSERT INTO onefold.operations (place, created_at, nonce, lease_until, due_at, retention_ms, tombstone_ms,
            bucket, attempt, shard, state, on_stale, fingerprint_version, id, fingerprint, operation, scope, key,
            owner, correlation_id, ignored)
        SELECT (floor(extract(epoch FROM statement_timestamp()) * 1000000::numeric)::bigint << 10) + y.n, c.now, y.nonce,
            c.now + y.lease_ms, c.now + y.retention_ms, y.retention_ms, y.tombstone_ms, y.bucket, 1, $2::smallint,
            1, y.on_stale, y.fingerprint_version, y.id, y.fingerprint, y.operation, y.scope, y.key, y.owner,
            y.correlation_id, y.ignored
        FROM young y CROSS JOIN clock c
        WHERE NOT y.too_old AND (y.live_max IS NULL OR y.number <= y.live_max)
        ORDER BY y.id
        ON CONFLICT (id) DO NOTHING
        RETURNING id, bucket
    ),
    opened AS (
        INSERT INTO onefold.open (id) SELECT id FROM made
        ON CONFLICT (id) DO UPDATE SET unknown_since = NULL, probe_at = NULL
    ),
    counted AS (
        INSERT INTO onefold.scopes AS s (bucket, shard, live)
        SELECT bucket, $2::smallint, count(*) FROM made GROUP BY bucket ORDER BY bucket
        ON CONFLICT (bucket, shard) DO UPDATE SET live = s.live + excluded.live
    )
    SELECT i.n, c.now, CASE
            WHEN m.id IS NOT NULL THEN 0
            WHEN y.id IS NULL THEN 1
            WHEN y.too_old THEN 2
            WHEN y.number > y.live_max THEN 3
            ELSE 1
        END::smallint, ",
    columns!("o"),
    " FROM input i CROSS JOIN clock c
    LEFT JOIN made m ON m.id = i.id
    LEFT JOIN young y ON y.id = i.id
    LEFT JOIN onefold.operations o ON o.id = i.id AND y.id IS NULL"
);

/// Between losing a claim and reading the record it may have gone; then the claim is sent again, so many times.
const ROUNDS_MAX: usize = 4;

/// A claim with its parts in stored form.
pub(crate) struct ClaimWork {
    pub(crate) claim: Claim,
    pub(crate) bucket: i64,
    pub(crate) scope: Vec<u8>,
    pub(crate) ignored: Option<Vec<u8>>,
    pub(crate) nonce: i64,
    pub(crate) shard: i16,
}

/// What became of a claim; a payload is still to be opened.
pub(crate) enum RawClaimed {
    Won { now: StoreTime },
    Exists(Box<RawRead>),
    QuotaReached,
    KeyTooOld { now: StoreTime },
}

impl ClaimWork {
    /// A claim of a scope that is counted in this bucket and shard.
    pub(crate) fn new(claim: Claim, bucket: impl FnOnce(&[u8]) -> i64, shard: i16) -> ClaimWork {
        let scope = encode_scope(&claim.scope);
        let ignored = (!claim.ignored.is_empty()).then(|| encode_texts(&claim.ignored));
        ClaimWork { bucket: bucket(&scope), claim, scope, ignored, nonce: rand::random(), shard }
    }
}

impl Work for ClaimWork {
    type Answer = RawClaimed;

    fn id(&self) -> OperationId {
        self.claim.id
    }

    fn bytes(&self) -> usize {
        self.scope.len() + self.ignored.as_ref().map_or(0, Vec::len)
    }

    async fn carry_out(
        batch: &[ClaimWork],
        server: &Server,
    ) -> Result<Vec<Result<RawClaimed, StoreError>>, Failed> {
        ClaimWork::run(batch, server).await
    }
}

impl ClaimWork {
    /// Carries out all of a batch, wherever statements go.
    pub(crate) async fn run<A: Ask>(
        batch: &[ClaimWork],
        server: &A,
    ) -> Result<Vec<Result<RawClaimed, StoreError>>, A::Error> {
        let mut answers: Vec<Option<Result<RawClaimed, StoreError>>> = batch.iter().map(|_| None).collect();
        for _ in 0..ROUNDS_MAX {
            let open: Vec<usize> = (0..batch.len()).filter(|n| answers[*n].is_none()).collect();
            if open.is_empty() {
                break;
            }
            let works: Vec<&ClaimWork> = open.iter().map(|n| &batch[*n]).collect();
            for (n, answer) in claim(&works, server).await?.into_iter().enumerate() {
                answers[open[n]] = answer;
            }
            read_what_stands_in_the_way(batch, &mut answers, server).await?;
        }
        let gone = || Err(StoreError::Unavailable("the record comes and goes".into()));
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(gone)).collect())
    }
}

/// One statement. `None`: another claim has won meanwhile.
async fn claim<A: Ask>(
    works: &[&ClaimWork],
    server: &A,
) -> Result<Vec<Option<Result<RawClaimed, StoreError>>>, A::Error> {
    macro_rules! each {
        ($of:expr) => {
            works.iter().map($of).collect::<Vec<_>>()
        };
    }
    let ids = each!(|w| w.claim.id.as_bytes().as_slice());
    let nonces = each!(|w| w.nonce);
    let buckets = each!(|w| w.bucket);
    let leases = each!(|w| duration_ms(w.claim.lease));
    let retentions = each!(|w| retention_ms(&w.claim.promise));
    let tombstones = each!(|w| duration_ms(w.claim.promise.tombstone));
    let live_max = each!(|w| w.claim.live_keys_max.map(|max| i64::try_from(max).unwrap_or(i64::MAX)));
    let key_until = each!(|w| w.claim.key_expires_at.map(|end| end.0));
    let on_stale = each!(|w| on_stale_number(w.claim.promise.on_stale));
    let versions = each!(|w| version_number(w.claim.fingerprint.version));
    let fingerprints = each!(|w| w.claim.fingerprint.digest.as_slice());
    let operations = each!(|w| w.claim.operation.as_bytes());
    let keys = each!(|w| w.claim.key.as_str().as_bytes());
    let scopes = each!(|w| w.scope.as_slice());
    let owners = each!(|w| w.claim.owner.as_bytes());
    let correlations = each!(|w| w.claim.correlation_id.as_deref().map(str::as_bytes));
    let ignored = each!(|w| w.ignored.as_deref());
    let shard = works.first().map_or(0, |work| work.shard);
    crash::point("postgres.claim.before");
    let rows = server
        .ask(
            CLAIM,
            &[
                (&server.now(), Type::INT8),
                (&shard, Type::INT2),
                (&ids, Type::BYTEA_ARRAY),
                (&nonces, Type::INT8_ARRAY),
                (&buckets, Type::INT8_ARRAY),
                (&leases, Type::INT8_ARRAY),
                (&retentions, Type::INT8_ARRAY),
                (&tombstones, Type::INT8_ARRAY),
                (&live_max, Type::INT8_ARRAY),
                (&key_until, Type::INT8_ARRAY),
                (&on_stale, Type::INT2_ARRAY),
                (&versions, Type::INT2_ARRAY),
                (&fingerprints, Type::BYTEA_ARRAY),
                (&operations, Type::BYTEA_ARRAY),
                (&keys, Type::BYTEA_ARRAY),
                (&scopes, Type::BYTEA_ARRAY),
                (&owners, Type::BYTEA_ARRAY),
                (&correlations, Type::BYTEA_ARRAY),
                (&ignored, Type::BYTEA_ARRAY),
            ],
            Unanswered::AskAgain,
        )
        .await?;
    crash::point("postgres.claim.after");
    let mut answers: Vec<_> = works.iter().map(|_| None).collect();
    for row in rows {
        let n = place(&row, works.len())?;
        answers[n] = answer(&row, works[n]).transpose();
    }
    Ok(answers)
}

fn answer(row: &impl Columns, work: &ClaimWork) -> Result<Option<RawClaimed>, StoreError> {
    let now = StoreTime(get(row, 1)?);
    Ok(match get::<i16>(row, 2)? {
        0 => Some(RawClaimed::Won { now }),
        2 => Some(RawClaimed::KeyTooOld { now }),
        3 => Some(RawClaimed::QuotaReached),
        _ => found(row, 3, now)?.map(|record| known(RawRead { now, record: Some(record) }, work)),
    })
}

/// A record stands in the way, unless it is the claim's own.
fn known(read: RawRead, work: &ClaimWork) -> RawClaimed {
    match &read.record {
        Some(record) if record.nonce == work.nonce => RawClaimed::Won { now: record.record.created_at },
        _ => RawClaimed::Exists(Box::new(read)),
    }
}

async fn read_what_stands_in_the_way<A: Ask>(
    batch: &[ClaimWork],
    answers: &mut [Option<Result<RawClaimed, StoreError>>],
    server: &A,
) -> Result<(), A::Error> {
    let lost: Vec<usize> = (0..batch.len()).filter(|n| answers[*n].is_none()).collect();
    if lost.is_empty() {
        return Ok(());
    }
    let ids: Vec<OperationId> = lost.iter().map(|n| batch[*n].claim.id).collect();
    for (n, read) in read::many(&ids, server).await? {
        let work = &batch[lost[n]];
        answers[lost[n]] = match read {
            Ok(read) if read.record.is_none() => None,
            read => Some(read.map(|read| known(read, work))),
        };
    }
    Ok(())
}

/// Versions are few: the column is a smallint.
pub(crate) fn version_number(version: u16) -> i16 {
    i16::try_from(version).expect("no release has so many versions of fingerprints")
}
