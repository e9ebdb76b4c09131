//! What every batch of transitions has in common: how its records are locked and judged, what is written of events,
//! and how each job gets its own answer.
//!
//! The records are locked in the order of their digests, so that two batches never wait for each other crosswise, and
//! judged as they stand once they are locked. A record that carries the job's own nonce was changed by it before.

use onefold_core::StoreTime;
use onefold_store::{Advance, Advanced, Also, Sealer, StoreError};

use crate::driver::Columns;
use crate::row::{RawRead, RawRecord, get, raw, state_bits, unreadable};

/// Locks and judges the records of `input` at `clock`; `$and` is a further condition.
macro_rules! locked {
    ($and:literal) => {
        concat!(
            "locked AS MATERIALIZED (
        SELECT i.n, o.*, o.nonce = i.nonce AS own, coalesce(o.nonce <> i.nonce AND o.attempt = i.from_attempt
            AND ((1 << o.state) & i.states <> 0
                OR i.also = 3 AND o.reconciliation = 3 AND NOT coalesce(o.expires_at <= c.now, false))
            AND CASE i.also
                WHEN 1 THEN NOT (o.state = 1 AND o.lease_until > c.now)
                WHEN 2 THEN o.state IN (2, 3, 4) AND o.expires_at <= c.now
                ELSE true
            END",
            $and,
            ", false) AS ok
        FROM input i JOIN onefold.operations o ON o.id = i.id CROSS JOIN clock c
        ORDER BY o.id FOR UPDATE OF o
    )"
        )
    };
}

/// Writes the events of `happened`, each where its transition was done or, as evidence, where it was not.
macro_rules! told {
    () => {
        "told AS (
        INSERT INTO onefold.events (id, at, kind, attempt, who, reason, evidence)
        SELECT l.id, c.now, h.kind, i.from_attempt, h.who, h.reason, h.evidence
        FROM happened h JOIN input i ON i.n = h.n JOIN locked l ON l.n = h.n CROSS JOIN clock c
        WHERE CASE WHEN h.as_evidence THEN NOT l.ok AND NOT l.own ELSE l.ok END
    )"
    };
}

/// Answers each job: what became of it, and the record where it was not changed.
macro_rules! answered {
    () => {
        concat!(
            "SELECT i.n, c.now, CASE
            WHEN l.id IS NULL THEN 2
            WHEN d.id IS NOT NULL THEN 0
            WHEN l.own THEN 3
            WHEN l.ok THEN 4
            ELSE 1
        END::smallint, d.expires_at, ",
            $crate::row::columns!("r"),
            " FROM input i CROSS JOIN clock c
    LEFT JOIN locked l ON l.n = i.n
    LEFT JOIN locked r ON r.n = i.n AND NOT r.ok
    LEFT JOIN done d ON d.id = i.id"
        )
    };
}
pub(crate) use answered;
pub(crate) use locked;
pub(crate) use told;

/// What became of a transition; a payload is still to be opened.
pub(crate) enum RawAdvanced {
    Done { now: StoreTime, expires_at: Option<StoreTime> },
    Superseded(Box<RawRead>),
    Missing,
}

impl RawAdvanced {
    /// The answer with the payload of its record.
    pub(crate) fn open(self, sealer: &Sealer) -> Result<Advanced, StoreError> {
        Ok(match self {
            RawAdvanced::Done { now, expires_at } => Advanced::Done { now, expires_at },
            RawAdvanced::Superseded(read) => Advanced::Superseded(Box::new(read.open(sealer)?)),
            RawAdvanced::Missing => Advanced::Missing,
        })
    }
}

/// Where transitions start, column by column.
pub(crate) struct Starts<'a> {
    pub(crate) ids: Vec<&'a [u8]>,
    pub(crate) states: Vec<i32>,
    pub(crate) attempts: Vec<i32>,
    pub(crate) also: Vec<i16>,
}

impl<'a> Starts<'a> {
    pub(crate) fn of(advances: impl Iterator<Item = &'a Advance>) -> Starts<'a> {
        let mut starts = Starts { ids: vec![], states: vec![], attempts: vec![], also: vec![] };
        for advance in advances {
            starts.ids.push(advance.id.as_bytes());
            starts.states.push(state_bits(advance.start.states));
            // A number that no attempt has stays one.
            starts.attempts.push(i32::try_from(advance.start.attempt).unwrap_or(-1));
            starts.also.push(match advance.start.also {
                Also::Nothing => 0,
                Also::LeaseOver => 1,
                Also::Expired => 2,
                Also::OrReconciled => 3,
            });
        }
        starts
    }
}

/// The answers of a batch of so many jobs, in order.
pub(crate) fn answers(
    rows: &[impl Columns],
    jobs: usize,
) -> Result<Vec<Result<RawAdvanced, StoreError>>, StoreError> {
    let unanswered = || Err(StoreError::Unavailable("the database gave no answer".into()));
    let mut answers: Vec<_> = (0..jobs).map(|_| unanswered()).collect();
    for row in rows {
        answers[place(row, jobs)?] = answer(row);
    }
    Ok(answers)
}

/// The place of a row's job in its batch, from the number that the statement gave it.
pub(crate) fn place(row: &impl Columns, jobs: usize) -> Result<usize, StoreError> {
    let n = get::<i64>(row, 0).ok().and_then(|n| usize::try_from(n - 1).ok());
    n.filter(|n| *n < jobs)
        .ok_or_else(|| StoreError::Unavailable("the statement answers a question that was not asked".into()))
}

fn answer(row: &impl Columns) -> Result<RawAdvanced, StoreError> {
    let now = StoreTime(get(row, 1)?);
    match get::<i16>(row, 2)? {
        0 => Ok(RawAdvanced::Done { now, expires_at: get::<Option<i64>>(row, 3)?.map(StoreTime) }),
        1 => {
            let record = Some(raw(row, 4, now)?);
            Ok(RawAdvanced::Superseded(Box::new(RawRead { now, record })))
        }
        2 => Ok(RawAdvanced::Missing),
        3 => Ok(done_before(&raw(row, 4, now)?, now)),
        _ => Err(unreadable("it was locked and did not change")),
    }
}

/// The first answer was lost, and what it did stands.
fn done_before(record: &RawRecord, now: StoreTime) -> RawAdvanced {
    let record = &record.record;
    RawAdvanced::Done { now: record.completed_at.unwrap_or(now), expires_at: record.expires_at }
}
