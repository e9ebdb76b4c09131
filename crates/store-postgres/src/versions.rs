//! What is known of the versions of entities, as far as it is forgotten again.
//!
//! The latest version of an entity that webhooks are about goes with the mark of the message that brought it; a note
//! that a version came too late goes with the mark, or the record, of what brought it. Neither has an index for that,
//! which each write would pay for: some are looked at from a place that moves on. What another transaction holds is
//! passed over. The versions of projections stay (decision 0022).

use onefold_store::StoreError;
use parking_lot::Mutex;
use tokio_postgres::types::{ToSql, Type};

use crate::row::{count, get};
use crate::server::Server;

/// Of at most $2 entities from $1 on: how many were looked at, and how many are forgotten.
pub(crate) const ENTITIES: &str = "WITH looked AS MATERIALIZED (
        SELECT e.entity, e.message FROM onefold.entities e WHERE e.entity >= $1 ORDER BY e.entity LIMIT $2::bigint
    ),
    old AS MATERIALIZED (
        SELECT e.entity FROM looked l JOIN onefold.entities e ON e.entity = l.entity
        WHERE e.message = l.message AND NOT EXISTS (SELECT FROM onefold.inbox i WHERE i.id = l.message)
        FOR UPDATE OF e SKIP LOCKED
    ),
    gone AS (DELETE FROM onefold.entities e USING old WHERE e.entity = old.entity)
    SELECT (SELECT count(*) FROM looked), (SELECT count(*) FROM old)";
/// Of at most $4 notes behind the place of the first three: the last, how many were looked at, how many are forgotten.
pub(crate) const NOTES: &str = "WITH looked AS MATERIALIZED (
        SELECT s.entity, s.version, s.operation FROM onefold.superseded s
        WHERE (s.entity, s.version, s.operation) > ($1, $2::bigint, $3)
        ORDER BY s.entity, s.version, s.operation LIMIT $4::bigint
    ),
    gone AS (
        DELETE FROM onefold.superseded s USING looked l
        WHERE s.entity = l.entity AND s.version = l.version AND s.operation = l.operation
            AND NOT EXISTS (SELECT FROM onefold.inbox i WHERE i.id = l.operation)
            AND NOT EXISTS (SELECT FROM onefold.operations r WHERE r.id = l.operation)
        RETURNING s.version
    )
    SELECT l.entity, l.version, l.operation, (SELECT count(*) FROM looked), (SELECT count(*) FROM gone)
    FROM looked l ORDER BY l.entity DESC, l.version DESC, l.operation DESC LIMIT 1";

type Note = (Vec<u8>, i64, Vec<u8>);

/// Up to where notes were looked at; behind the last one it begins anew.
#[derive(Default)]
pub(crate) struct Place(Mutex<Option<Note>>);

/// Looks at `limit` of each kind at most; says how many are forgotten.
pub(crate) async fn sweep(limit: u32, place: &Place, server: &Server) -> Result<u64, StoreError> {
    let limit = i64::from(limit);
    // Digests lie anywhere, so a place among them is as good as any other.
    let start: [u8; 32] = rand::random();
    let (looked, mut forgotten) = entities(&start, limit, server).await?;
    if looked < limit {
        forgotten += entities(&[], limit - looked, server).await?.1;
    }
    Ok(forgotten + notes(limit, place, server).await?)
}

async fn entities(from: &[u8], limit: i64, server: &Server) -> Result<(i64, u64), StoreError> {
    let params: [(&(dyn ToSql + Sync), Type); 2] = [(&from, Type::BYTEA), (&limit, Type::INT8)];
    let rows = server.ask_committed(ENTITIES, &params).await?;
    let Some(row) = rows.first() else { return Ok((limit, 0)) };
    Ok((get(row, 0)?, count(get(row, 1)?)))
}

async fn notes(limit: i64, place: &Place, server: &Server) -> Result<u64, StoreError> {
    let (entity, version, operation) = place.0.lock().clone().unwrap_or((Vec::new(), i64::MIN, Vec::new()));
    let params: [(&(dyn ToSql + Sync), Type); 4] =
        [(&entity, Type::BYTEA), (&version, Type::INT8), (&operation, Type::BYTEA), (&limit, Type::INT8)];
    let rows = server.ask_committed(NOTES, &params).await?;
    let Some(row) = rows.first() else {
        *place.0.lock() = None;
        return Ok(0);
    };
    let last: Note = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
    *place.0.lock() = (get::<i64>(row, 3)? == limit).then_some(last);
    Ok(count(get(row, 4)?))
}
