//! Probes of unknown outcomes: which are due and whose turn it is.
//!
//! A turn is given by one statement: it counts the probe and moves the due time, so of several gateways one gets it,
//! and a turn whose holder died comes back by itself. What somebody else has locked is passed over. Records that are
//! not open (escalated, free to be retried) have no due time. Where none is due the statement writes nothing.

use onefold_core::StoreTime;
use onefold_store::{ProbeTurn, Sealer, StoreError, TakeProbes};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::row::{clock, columns, duration_ms, get, raw, unreadable};
use crate::server::{Server, Unanswered};

/// $2: of these operations; $3: at most so many; $4: how long the turn is.
pub(crate) const TAKE: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    "),
    due AS MATERIALIZED (
        SELECT o.id, o.probe_at FROM onefold.open p JOIN onefold.operations o ON o.id = p.id CROSS JOIN clock c
        WHERE p.probe_at <= c.now AND o.state = 5 AND o.probe_at <= c.now AND o.operation = ANY ($2::bytea[])
        ORDER BY o.probe_at LIMIT $3::bigint FOR UPDATE OF o SKIP LOCKED
    ),
    given AS (
        UPDATE onefold.operations o SET probes = coalesce(o.probes, 0) + 1, probe_at = c.now + $4::bigint
        FROM due d CROSS JOIN clock c WHERE o.id = d.id
        RETURNING o.*
    ),
    moved AS (
        UPDATE onefold.open p SET probe_at = g.probe_at FROM given g WHERE p.id = g.id
    )
    SELECT c.now, g.probes, g.negative_at, g.ended_at, ",
    columns!("g"),
    " FROM given g JOIN due d ON d.id = g.id CROSS JOIN clock c ORDER BY d.probe_at"
);

/// Gives turns. Whoever loses the answer has lost the turns: they come back when they are over.
pub(crate) async fn take(
    take: &TakeProbes,
    server: &Server,
    sealer: &Sealer,
) -> Result<Vec<ProbeTurn>, StoreError> {
    if take.limit == 0 || take.operations.is_empty() {
        return Ok(Vec::new());
    }
    let operations: Vec<&[u8]> = take.operations.iter().map(|name| name.as_bytes()).collect();
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
        (&server.now(), Type::INT8),
        (&operations, Type::BYTEA_ARRAY),
        (&i64::from(take.limit), Type::INT8),
        (&duration_ms(take.turn), Type::INT8),
    ];
    let rows = server.ask(TAKE, &params, Unanswered::GiveUp).await?;
    rows.iter().map(|row| turn(row, sealer)).collect()
}

fn turn(row: &Row, sealer: &Sealer) -> Result<ProbeTurn, StoreError> {
    let now = StoreTime(get(row, 0)?);
    Ok(ProbeTurn {
        now,
        record: raw(row, 4, now)?.open(sealer)?,
        probe: get::<i32>(row, 1)?.try_into().map_err(unreadable)?,
        unknown_since: StoreTime(get(row, 3)?),
        negative_since: get::<Option<i64>>(row, 2)?.map(StoreTime),
    })
}
