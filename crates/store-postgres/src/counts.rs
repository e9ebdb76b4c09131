//! Counters of records, added in batches. They may lag, and what was sent while the connection was lost is not sent
//! again.

use std::collections::BTreeMap;

use onefold_core::{Counters, OperationId};
use onefold_store::StoreError;
use tokio_postgres::types::Type;

use crate::server::{Server, Unanswered};

/// Records in one statement, at most.
const RECORDS_MAX: usize = 500;

/// Locks in the order of digests, as every statement does.
pub(crate) const COUNT: &str = "WITH input AS MATERIALIZED (
        SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[])
        AS i (id, duplicates, conflicts, replays)
    ),
    locked AS MATERIALIZED (
        SELECT i.* FROM input i JOIN onefold.operations o ON o.id = i.id ORDER BY o.id FOR UPDATE OF o
    )
    UPDATE onefold.operations o SET
        duplicates = coalesce(o.duplicates, 0) + l.duplicates,
        conflicts = coalesce(o.conflicts, 0) + l.conflicts,
        replays = coalesce(o.replays, 0) + l.replays
    FROM locked l WHERE o.id = l.id";

/// Adds to counters; records that are gone are passed over.
pub(crate) async fn run(counts: Vec<(OperationId, Counters)>, server: &Server) -> Result<(), StoreError> {
    let mut sums: BTreeMap<OperationId, Counters> = BTreeMap::new();
    for (id, more) in counts {
        let sum = sums.entry(id).or_default();
        sum.duplicates += more.duplicates;
        sum.conflicts += more.conflicts;
        sum.replays += more.replays;
    }
    let sums: Vec<_> = sums.into_iter().collect();
    for some in sums.chunks(RECORDS_MAX) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let ids: Vec<&[u8]> = some.iter().map(|(id, _)| id.as_bytes().as_slice()).collect();
        let duplicates: Vec<i64> = some.iter().map(|(_, sum)| number(sum.duplicates)).collect();
        let conflicts: Vec<i64> = some.iter().map(|(_, sum)| number(sum.conflicts)).collect();
        let replays: Vec<i64> = some.iter().map(|(_, sum)| number(sum.replays)).collect();
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 4] = [
            (&ids, Type::BYTEA_ARRAY),
            (&duplicates, Type::INT8_ARRAY),
            (&conflicts, Type::INT8_ARRAY),
            (&replays, Type::INT8_ARRAY),
        ];
        server.ask(COUNT, &params, Unanswered::GiveUp).await?;
    }
    Ok(())
}
