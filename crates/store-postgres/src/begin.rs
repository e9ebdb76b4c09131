//! The next attempt of a record that exists: attempt + 1, under a new lease and a new fingerprint.
//!
//! From an expired record everything else starts anew. A tombstone has forgotten its scope and key: it is given them
//! again, and counts as live again. The attempt goes on, so that it stays a fence.

use onefold_core::{Fingerprint, Key, OperationId};
use onefold_store::codec::{encode_scope, encode_texts};
use onefold_store::{Advance, Promise, Step, StoreError, crash};
use tokio_postgres::types::Type;

use crate::ask::Ask;
use crate::batch::{self, RawAdvanced, Starts, answered, locked, told};
use crate::claim::version_number;
use crate::error::Failed;
use crate::events::Happened;
use crate::lanes::Work;
use crate::row::{clock, duration_ms, on_stale_number, retention_ms};
use crate::server::{Server, Unanswered};

/// $2 is the shard in which a tombstone is counted again.
pub(crate) const BEGIN: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    "),
    input AS MATERIALIZED (
        SELECT * FROM unnest($3::bytea[], $4::bigint[], $5::integer[], $6::integer[], $7::smallint[], $8::bigint[],
            $9::bigint[], $10::bigint[], $11::bigint[], $12::smallint[], $13::smallint[], $14::bytea[], $15::bytea[],
            $16::bytea[], $17::bytea[], $18::bytea[])
        WITH ORDINALITY AS i (id, nonce, states, from_attempt, also, bucket, lease_ms, retention_ms, tombstone_ms,
            on_stale, fingerprint_version, fingerprint, scope, key, owner, ignored, n)
    ),
    happened AS MATERIALIZED (
        SELECT * FROM unnest($19::bigint[], $20::boolean[], $21::smallint[], $22::bytea[], $23::bytea[], $24::bytea[])
        AS h (n, as_evidence, kind, who, reason, evidence)
    ),
    ",
    locked!(""),
    ",
    begun AS MATERIALIZED (
        SELECT l.id, l.n, l.state IN (2, 3, 4) AND l.expires_at <= c.now AS anew, l.bucket IS NULL AS was_tombstone,
            l.state IN (2, 3, 4) AS was_finished
        FROM locked l CROSS JOIN clock c WHERE l.ok
    ),
    done AS (
        UPDATE onefold.operations o SET
            nonce = i.nonce,
            attempt = o.attempt + 1,
            state = 1,
            lease_until = c.now + i.lease_ms,
            ended_at = NULL,
            expires_at = NULL,
            reconciliation = NULL,
            probes = NULL,
            probe_at = NULL,
            negative_at = NULL,
            due_at = c.now + i.retention_ms,
            retention_ms = i.retention_ms,
            tombstone_ms = i.tombstone_ms,
            on_stale = i.on_stale,
            fingerprint_version = i.fingerprint_version,
            fingerprint = i.fingerprint,
            owner = i.owner,
            ignored = i.ignored,
            resource_kind = NULL,
            resource_id = NULL,
            kept = NULL,
            created_at = CASE WHEN b.anew THEN c.now ELSE o.created_at END,
            correlation_id = CASE WHEN NOT b.anew THEN o.correlation_id END,
            duplicates = CASE WHEN NOT b.anew THEN o.duplicates END,
            conflicts = CASE WHEN NOT b.anew THEN o.conflicts END,
            replays = CASE WHEN NOT b.anew THEN o.replays END,
            key = CASE WHEN b.anew THEN i.key ELSE o.key END,
            scope = CASE WHEN b.was_tombstone THEN i.scope ELSE o.scope END,
            bucket = CASE WHEN b.was_tombstone THEN i.bucket ELSE o.bucket END,
            shard = CASE WHEN b.was_tombstone THEN $2::smallint ELSE o.shard END
        FROM begun b JOIN input i ON i.n = b.n CROSS JOIN clock c
        WHERE o.id = b.id
        RETURNING o.id, o.expires_at, o.bucket, b.anew, b.was_tombstone, b.was_finished
    ),
    opened AS (
        INSERT INTO onefold.open (id) SELECT id FROM done ORDER BY id
        ON CONFLICT (id) DO UPDATE SET unknown_since = NULL, probe_at = NULL
    ),
    counted AS (
        INSERT INTO onefold.scopes AS s (bucket, shard, live)
        SELECT bucket, $2::smallint, count(*) FROM done WHERE was_tombstone GROUP BY bucket ORDER BY bucket
        ON CONFLICT (bucket, shard) DO UPDATE SET live = s.live + excluded.live
    ),
    forgotten AS (
        DELETE FROM onefold.events e USING done d WHERE e.id = d.id AND d.anew
    ),
    unstepped AS (
        DELETE FROM onefold.steps s USING done d WHERE s.operation = d.id AND d.was_finished
    ),
    ",
    told!(),
    " ",
    answered!()
);

/// The beginning of an attempt with its parts in stored form.
pub(crate) struct BeginWork {
    advance: Advance,
    scope: Vec<u8>,
    bucket: i64,
    ignored: Option<Vec<u8>>,
    nonce: i64,
    shard: i16,
}

/// What [`Step::Begin`] says, where nothing else can be.
struct Begins<'a> {
    key: &'a Key,
    owner: &'a str,
    lease_ms: i64,
    fingerprint: &'a Fingerprint,
    promise: &'a Promise,
}

impl BeginWork {
    /// `advance` must begin an attempt; its scope is counted in this bucket and shard.
    pub(crate) fn new(advance: Advance, bucket: impl FnOnce(&[u8]) -> i64, shard: i16) -> BeginWork {
        let (scope, ignored) = match &advance.step {
            Step::Begin { scope, ignored, .. } => {
                (encode_scope(scope), (!ignored.is_empty()).then(|| encode_texts(ignored)))
            }
            _ => unreachable!("only beginnings come here"),
        };
        BeginWork { bucket: bucket(&scope), advance, scope, ignored, nonce: rand::random(), shard }
    }

    fn begins(&self) -> Begins<'_> {
        match &self.advance.step {
            Step::Begin { key, owner, lease, fingerprint, promise, .. } => {
                Begins { key, owner, lease_ms: duration_ms(*lease), fingerprint, promise }
            }
            _ => unreachable!("only beginnings come here"),
        }
    }
}

impl Work for BeginWork {
    type Answer = RawAdvanced;

    fn id(&self) -> OperationId {
        self.advance.id
    }

    fn bytes(&self) -> usize {
        self.scope.len() + self.ignored.as_ref().map_or(0, Vec::len)
    }

    async fn carry_out(
        works: &[BeginWork],
        server: &Server,
    ) -> Result<Vec<Result<RawAdvanced, StoreError>>, Failed> {
        BeginWork::run(works, server).await
    }
}

impl BeginWork {
    /// Carries out all of a batch, wherever statements go.
    pub(crate) async fn run<A: Ask>(
        works: &[BeginWork],
        server: &A,
    ) -> Result<Vec<Result<RawAdvanced, StoreError>>, A::Error> {
        macro_rules! each {
            ($of:expr) => {
                works.iter().map($of).collect::<Vec<_>>()
            };
        }
        let starts = Starts::of(works.iter().map(|work| &work.advance));
        let nonces = each!(|w| w.nonce);
        let buckets = each!(|w| w.bucket);
        let leases = each!(|w| w.begins().lease_ms);
        let retentions = each!(|w| retention_ms(w.begins().promise));
        let tombstones = each!(|w| duration_ms(w.begins().promise.tombstone));
        let on_stale = each!(|w| on_stale_number(w.begins().promise.on_stale));
        let versions = each!(|w| version_number(w.begins().fingerprint.version));
        let fingerprints = each!(|w| w.begins().fingerprint.digest.as_slice());
        let scopes = each!(|w| w.scope.as_slice());
        let keys = each!(|w| w.begins().key.as_str().as_bytes());
        let owners = each!(|w| w.begins().owner.as_bytes());
        let ignored = each!(|w| w.ignored.as_deref());
        let shard = works.first().map_or(0, |work| work.shard);
        let happened = Happened::of(works.iter().map(|work| &work.advance));
        crash::point("postgres.next.before");
        let rows = server
            .ask(
                BEGIN,
                &[
                    (&server.now(), Type::INT8),
                    (&shard, Type::INT2),
                    (&starts.ids, Type::BYTEA_ARRAY),
                    (&nonces, Type::INT8_ARRAY),
                    (&starts.states, Type::INT4_ARRAY),
                    (&starts.attempts, Type::INT4_ARRAY),
                    (&starts.also, Type::INT2_ARRAY),
                    (&buckets, Type::INT8_ARRAY),
                    (&leases, Type::INT8_ARRAY),
                    (&retentions, Type::INT8_ARRAY),
                    (&tombstones, Type::INT8_ARRAY),
                    (&on_stale, Type::INT2_ARRAY),
                    (&versions, Type::INT2_ARRAY),
                    (&fingerprints, Type::BYTEA_ARRAY),
                    (&scopes, Type::BYTEA_ARRAY),
                    (&keys, Type::BYTEA_ARRAY),
                    (&owners, Type::BYTEA_ARRAY),
                    (&ignored, Type::BYTEA_ARRAY),
                    (&happened.jobs, Type::INT8_ARRAY),
                    (&happened.as_evidence, Type::BOOL_ARRAY),
                    (&happened.kinds, Type::INT2_ARRAY),
                    (&happened.who, Type::BYTEA_ARRAY),
                    (&happened.reasons, Type::BYTEA_ARRAY),
                    (&happened.evidence, Type::BYTEA_ARRAY),
                ],
                Unanswered::AskAgain,
            )
            .await?;
        crash::point("postgres.next.after");
        Ok(batch::answers(&rows, works.len())?)
    }
}
