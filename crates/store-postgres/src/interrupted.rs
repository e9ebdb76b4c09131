//! Attempts that were interrupted and may be resumed. Nothing is locked and nothing changes.

use onefold_core::{Record, StoreTime};
use onefold_store::{Sealer, StoreError};
use tokio_postgres::types::{ToSql, Type};

use crate::row::{clock, columns, get, raw};
use crate::server::{Server, Unanswered};

/// $2: of these operations; $3: at most so many.
pub(crate) const OVER: &str = concat!(
    "SELECT c.now, ",
    columns!("o"),
    " FROM (",
    clock!(),
    ") c CROSS JOIN onefold.open p JOIN onefold.operations o ON o.id = p.id
    WHERE p.unknown_since IS NULL AND o.state = 1 AND o.on_stale = 1 AND o.lease_until <= c.now
        AND o.operation = ANY ($2::bytea[])
    ORDER BY o.lease_until LIMIT $3::bigint"
);

/// Those that wait longest first.
pub(crate) async fn run(
    operations: &[String],
    limit: u32,
    server: &Server,
    sealer: &Sealer,
) -> Result<Vec<Record>, StoreError> {
    let operations: Vec<&[u8]> = operations.iter().map(|name| name.as_bytes()).collect();
    let params: [(&(dyn ToSql + Sync), Type); 3] =
        [(&server.now(), Type::INT8), (&operations, Type::BYTEA_ARRAY), (&i64::from(limit), Type::INT8)];
    let rows = server.ask(OVER, &params, Unanswered::AskAgain).await?;
    rows.iter().map(|row| raw(row, 1, StoreTime(get(row, 0)?))?.open(sealer)).collect()
}
