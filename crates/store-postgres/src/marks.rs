//! What is done to marks beside handling: deliveries are counted, dead letters are let go on, and marks whose time is
//! over are forgotten. Counts may lag, and what was sent while the connection was lost is not sent again.

use std::collections::BTreeMap;

use onefold_core::{ActKind, OperationId};
use onefold_store::{DeliveryCounts, StoreError, Unparking};
use tokio_postgres::types::{ToSql, Type};

use crate::acts;
use crate::inbox_row::round_number;
use crate::row::{clock, count as counted, get};
use crate::server::{Server, Unanswered};

/// Marks in one statement, at most.
const STEP_MAX: u32 = 500;

/// Locks in one order.
pub(crate) const COUNT: &str = "WITH input AS MATERIALIZED (
        SELECT * FROM unnest($1::bytea[], $2::integer[], $3::bigint[], $4::bigint[])
        AS i (id, round, duplicates, conflicts)
    ),
    locked AS MATERIALIZED (
        SELECT i.* FROM input i JOIN onefold.inbox o ON o.id = i.id AND o.round = i.round
        ORDER BY o.id, o.round FOR UPDATE OF o
    )
    UPDATE onefold.inbox o SET duplicates = o.duplicates + l.duplicates, conflicts = o.conflicts + l.conflicts
    FROM locked l WHERE o.id = l.id AND o.round = l.round";
/// A row: it was a dead letter.
pub(crate) const UNPARK: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    "),
    unparked AS (
        UPDATE onefold.inbox i SET state = 0, failures = 0, ended_at = c.now + $7::bigint FROM clock c
        WHERE i.id = $2 AND i.round = $3 AND i.state = 4 RETURNING c.now
    )
    SELECT onefold.act(u.now, true, $2, $4, $3, $5, $6) FROM unparked u"
);
/// $2: at most so many. The acts go with the last round.
pub(crate) const SWEEP: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    "),
    old AS MATERIALIZED (
        SELECT i.id, i.round FROM onefold.inbox i CROSS JOIN clock c
        WHERE i.expires_at <= c.now AND NOT EXISTS (SELECT FROM onefold.outbox_open o WHERE o.cause = i.id)
        ORDER BY i.expires_at LIMIT $2::bigint FOR UPDATE OF i SKIP LOCKED
    ),
    gone AS (DELETE FROM onefold.inbox i USING old WHERE i.id = old.id AND i.round = old.round),
    unacted AS (
        DELETE FROM onefold.acts a USING old WHERE a.incoming AND a.message = old.id AND NOT EXISTS (
            SELECT FROM onefold.inbox k WHERE k.id = old.id
                AND NOT EXISTS (SELECT FROM old o WHERE o.id = k.id AND o.round = k.round))
    )
    SELECT count(*) FROM old"
);

/// Adds to counters; marks that are gone are passed over.
pub(crate) async fn count(
    counts: Vec<(OperationId, u32, DeliveryCounts)>,
    server: &Server,
) -> Result<(), StoreError> {
    let mut sums: BTreeMap<(OperationId, u32), DeliveryCounts> = BTreeMap::new();
    for (id, round, more) in counts {
        let sum = sums.entry((id, round)).or_default();
        sum.duplicates += more.duplicates;
        sum.conflicts += more.conflicts;
    }
    let sums: Vec<_> = sums.into_iter().collect();
    for some in sums.chunks(STEP_MAX as usize) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let ids: Vec<&[u8]> = some.iter().map(|((id, _), _)| id.as_bytes().as_slice()).collect();
        let rounds: Vec<i32> = some.iter().map(|((_, round), _)| round_number(*round)).collect();
        let duplicates: Vec<i64> = some.iter().map(|(_, sum)| number(sum.duplicates)).collect();
        let conflicts: Vec<i64> = some.iter().map(|(_, sum)| number(sum.conflicts)).collect();
        let params: [(&(dyn ToSql + Sync), Type); 4] = [
            (&ids, Type::BYTEA_ARRAY),
            (&rounds, Type::INT4_ARRAY),
            (&duplicates, Type::INT8_ARRAY),
            (&conflicts, Type::INT8_ARRAY),
        ];
        server.ask(COUNT, &params, Unanswered::GiveUp).await?;
    }
    Ok(())
}

/// Lets a dead letter go on; false: it is none.
pub(crate) async fn unpark(unparking: &Unparking, server: &Server) -> Result<bool, StoreError> {
    let Unparking { id, round, after, who, reason } = unparking;
    let params: [(&(dyn ToSql + Sync), Type); 7] = [
        (&server.now(), Type::INT8),
        (&id.as_bytes().as_slice(), Type::BYTEA),
        (&round_number(*round), Type::INT4),
        (&acts::kind_number(ActKind::Redriven), Type::INT2),
        (&who.as_bytes(), Type::BYTEA),
        (&reason.as_bytes(), Type::BYTEA),
        (&i64::try_from(after.as_millis()).unwrap_or(i64::MAX), Type::INT8),
    ];
    Ok(!server.ask_committed(UNPARK, &params).await?.is_empty())
}

/// Forgets at most `limit` marks whose time is over.
pub(crate) async fn sweep(limit: u32, server: &Server) -> Result<u64, StoreError> {
    let mut swept = 0;
    loop {
        let left = u64::from(limit).saturating_sub(swept);
        let step = u32::try_from(left).unwrap_or(u32::MAX).min(STEP_MAX);
        if step == 0 {
            return Ok(swept);
        }
        let params: [(&(dyn ToSql + Sync), Type); 2] =
            [(&server.now(), Type::INT8), (&i64::from(step), Type::INT8)];
        let rows = server.ask(SWEEP, &params, Unanswered::GiveUp).await?;
        let done = rows.first().map(|row| get::<i64>(row, 0)).transpose()?.map_or(0, counted);
        if done == 0 {
            return Ok(swept);
        }
        swept += done;
    }
}
