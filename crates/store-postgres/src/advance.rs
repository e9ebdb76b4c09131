//! Transitions of attempts that exist: settling, losing, renewing, lapsing, noting a probe.
//!
//! One statement for a batch changes those records that are found where their transition starts. An outcome changes
//! no column that an index has, so the longer row takes the place of the shorter one on its page.

use onefold_core::{Kept, OperationId, Reconciliation};
use onefold_store::codec::{encode_kept, kept_length};
use onefold_store::{Advance, Sealer, Start, Step, StoreError, crash};
use tokio_postgres::types::Type;

use crate::ask::Ask;
use crate::batch::{self, RawAdvanced, Starts, answered, locked, told};
use crate::error::Failed;
use crate::events::Happened;
use crate::lanes::Work;
use crate::row::{clock, duration_ms, reconciliation_number, state_number};
use crate::server::{Server, Unanswered};

/// Kinds: 0 settle, 1 lose the outcome, 2 renew, 3 lapse, 4 note a probe. 2 and 3 are for what is processing, 4 for
/// what is unknown. `ms` is how long the lease runs, or until the next probe.
pub(crate) const ADVANCE: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    "),
    input AS MATERIALIZED (
        SELECT * FROM unnest($2::bytea[], $3::bigint[], $4::integer[], $5::integer[], $6::smallint[],
            $7::smallint[], $8::smallint[], $9::bigint[], $10::bytea[], $11::bytea[], $12::bytea[],
            $13::smallint[], $14::boolean[])
        WITH ORDINALITY AS i (id, nonce, states, from_attempt, also, kind, to_state, ms, resource_kind,
            resource_id, kept, reconciliation, negative, n)
    ),
    happened AS MATERIALIZED (
        SELECT * FROM unnest($15::bigint[], $16::boolean[], $17::smallint[], $18::bytea[], $19::bytea[], $20::bytea[])
        AS h (n, as_evidence, kind, who, reason, evidence)
    ),
    ",
    locked!(" AND CASE WHEN i.kind < 2 THEN true WHEN i.kind = 4 THEN o.state = 5 ELSE o.state = 1 END"),
    ",
    done AS (
        UPDATE onefold.operations o SET
            nonce = i.nonce,
            state = CASE i.kind WHEN 0 THEN i.to_state WHEN 1 THEN 5 ELSE o.state END,
            lease_until = CASE i.kind WHEN 2 THEN c.now + i.ms WHEN 3 THEN c.now END,
            ended_at = CASE WHEN i.kind < 2 THEN c.now WHEN i.kind = 4 THEN o.ended_at END,
            expires_at = CASE i.kind WHEN 0 THEN c.now + o.retention_ms END,
            reconciliation = i.reconciliation,
            probes = CASE i.kind WHEN 4 THEN o.probes END,
            probe_at = CASE WHEN i.kind = 1 THEN c.now
                WHEN i.kind = 4 AND i.reconciliation IS NULL THEN c.now + i.ms END,
            negative_at = CASE i.kind WHEN 4 THEN coalesce(o.negative_at, CASE WHEN i.negative THEN c.now END) END,
            resource_kind = CASE i.kind WHEN 0 THEN i.resource_kind END,
            resource_id = CASE i.kind WHEN 0 THEN i.resource_id END,
            kept = CASE i.kind WHEN 0 THEN i.kept END
        FROM locked l JOIN input i ON i.n = l.n CROSS JOIN clock c
        WHERE o.id = l.id AND l.ok
        RETURNING o.id, o.state, o.ended_at, o.probe_at, o.expires_at
    ),
    closed AS (
        DELETE FROM onefold.open p USING done d WHERE p.id = d.id AND d.state IN (2, 3, 4)
    ),
    unknown AS (
        INSERT INTO onefold.open (id, unknown_since, probe_at)
        SELECT d.id, d.ended_at, d.probe_at FROM done d WHERE d.state = 5 ORDER BY d.id
        ON CONFLICT (id) DO UPDATE SET unknown_since = excluded.unknown_since, probe_at = excluded.probe_at
    ),
    ",
    told!(),
    " ",
    answered!()
);

/// A transition with its payload in stored form.
pub(crate) struct AdvanceWork {
    advance: Advance,
    kept: Option<Vec<u8>>,
    nonce: i64,
}

impl AdvanceWork {
    pub(crate) fn new(mut advance: Advance, sealer: &Sealer) -> AdvanceWork {
        let kept = match &mut advance.step {
            Step::Settle { kept, .. } | Step::Reconcile { kept, .. } => match std::mem::take(kept) {
                Kept::Nothing => None,
                kept => Some(sealer.seal(&advance.id, kept_length(&kept), |out| encode_kept(&kept, out))),
            },
            _ => None,
        };
        AdvanceWork { advance, kept, nonce: rand::random() }
    }

    /// What the record carries once this is done.
    pub(crate) fn nonce(&self) -> i64 {
        self.nonce
    }

    fn kind(&self) -> i16 {
        match self.advance.step {
            Step::Settle { .. } | Step::Reconcile { .. } => 0,
            Step::LoseOutcome => 1,
            Step::Renew { .. } => 2,
            Step::Lapse => 3,
            Step::Probed { .. } => 4,
            Step::Begin { .. } => unreachable!("attempts begin elsewhere"),
        }
    }

    fn to_state(&self) -> Option<i16> {
        match self.advance.step {
            Step::Settle { state, .. } | Step::Reconcile { state, .. } => Some(state_number(state)),
            _ => None,
        }
    }

    fn ms(&self) -> Option<i64> {
        match self.advance.step {
            Step::Renew { lease } => Some(duration_ms(lease)),
            Step::Probed { after, .. } => Some(duration_ms(after)),
            _ => None,
        }
    }

    fn reconciliation(&self) -> Option<i16> {
        match self.advance.step {
            Step::Reconcile { .. } => reconciliation_number(Reconciliation::Settled),
            Step::Probed { reconciliation, .. } => reconciliation_number(reconciliation),
            _ => None,
        }
    }

    fn negative(&self) -> bool {
        matches!(self.advance.step, Step::Probed { negative: true, .. })
    }

    fn resource(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        match &self.advance.step {
            Step::Settle { resource: Some(resource), .. }
            | Step::Reconcile { resource: Some(resource), .. } => {
                (Some(resource.kind.as_bytes()), Some(resource.id.as_bytes()))
            }
            _ => (None, None),
        }
    }
}

/// An end that says nothing but itself.
pub(crate) struct Settling<'a> {
    pub(crate) id: &'a [u8],
    pub(crate) start: &'a Start,
    pub(crate) to_state: i16,
    pub(crate) resource: (Option<&'a [u8]>, Option<&'a [u8]>),
    pub(crate) kept: Option<&'a [u8]>,
    pub(crate) nonce: i64,
}

impl AdvanceWork {
    /// The end that it is, if it is nothing else.
    pub(crate) fn settling(&self) -> Option<Settling<'_>> {
        let Advance { id, start, step: Step::Settle { state, .. }, event: None, if_superseded: None } =
            &self.advance
        else {
            return None;
        };
        Some(Settling {
            id: id.as_bytes(),
            start,
            to_state: state_number(*state),
            resource: self.resource(),
            kept: self.kept.as_deref(),
            nonce: self.nonce,
        })
    }
}

impl Work for AdvanceWork {
    type Answer = RawAdvanced;

    fn id(&self) -> OperationId {
        self.advance.id
    }

    fn bytes(&self) -> usize {
        let (kind, id) = self.resource();
        self.kept.as_ref().map_or(0, Vec::len) + kind.map_or(0, <[u8]>::len) + id.map_or(0, <[u8]>::len)
    }

    async fn carry_out(
        works: &[AdvanceWork],
        server: &Server,
    ) -> Result<Vec<Result<RawAdvanced, StoreError>>, Failed> {
        AdvanceWork::run(works, server).await
    }
}

impl AdvanceWork {
    /// Carries out all of a batch, wherever statements go.
    pub(crate) async fn run<A: Ask>(
        works: &[AdvanceWork],
        server: &A,
    ) -> Result<Vec<Result<RawAdvanced, StoreError>>, A::Error> {
        let starts = Starts::of(works.iter().map(|work| &work.advance));
        let nonces: Vec<i64> = works.iter().map(|work| work.nonce).collect();
        let kinds: Vec<i16> = works.iter().map(AdvanceWork::kind).collect();
        let to_states: Vec<Option<i16>> = works.iter().map(AdvanceWork::to_state).collect();
        let ms: Vec<Option<i64>> = works.iter().map(AdvanceWork::ms).collect();
        let (resource_kinds, resource_ids): (Vec<_>, Vec<_>) =
            works.iter().map(AdvanceWork::resource).unzip();
        let kept: Vec<Option<&[u8]>> = works.iter().map(|work| work.kept.as_deref()).collect();
        let reconciliations: Vec<Option<i16>> = works.iter().map(AdvanceWork::reconciliation).collect();
        let negatives: Vec<bool> = works.iter().map(AdvanceWork::negative).collect();
        let happened = Happened::of(works.iter().map(|work| &work.advance));
        crash::point("postgres.advance.before");
        let rows = server
            .ask(
                ADVANCE,
                &[
                    (&server.now(), Type::INT8),
                    (&starts.ids, Type::BYTEA_ARRAY),
                    (&nonces, Type::INT8_ARRAY),
                    (&starts.states, Type::INT4_ARRAY),
                    (&starts.attempts, Type::INT4_ARRAY),
                    (&starts.also, Type::INT2_ARRAY),
                    (&kinds, Type::INT2_ARRAY),
                    (&to_states, Type::INT2_ARRAY),
                    (&ms, Type::INT8_ARRAY),
                    (&resource_kinds, Type::BYTEA_ARRAY),
                    (&resource_ids, Type::BYTEA_ARRAY),
                    (&kept, Type::BYTEA_ARRAY),
                    (&reconciliations, Type::INT2_ARRAY),
                    (&negatives, Type::BOOL_ARRAY),
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
        crash::point("postgres.advance.after");
        Ok(batch::answers(&rows, works.len())?)
    }
}
