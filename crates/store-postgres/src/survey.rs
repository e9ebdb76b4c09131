//! What stands in the store, for gauges: by the small table of what is open.

use std::time::Duration;

use onefold_core::StoreTime;
use onefold_store::{StoreError, Survey};
use tokio_postgres::types::Type;

use crate::row::{clock, count, get};
use crate::server::{Server, Unanswered};

pub(crate) const SURVEY: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    ")
    SELECT c.now, s.*, (SELECT min(due_at) FROM onefold.operations WHERE due_at IS NOT NULL) FROM clock c CROSS JOIN (
        SELECT count(*) FILTER (WHERE o.state = 5), min(o.ended_at) FILTER (WHERE o.state = 5),
            count(*) FILTER (WHERE o.state = 1)
        FROM onefold.open p JOIN onefold.operations o ON o.id = p.id
    ) s"
);

/// Counts what stands. The age of an unknown outcome counts from when it became unknown.
pub(crate) async fn run(server: &Server) -> Result<Survey, StoreError> {
    let rows = server.ask(SURVEY, &[(&server.now(), Type::INT8)], Unanswered::AskAgain).await?;
    let row = rows.first().ok_or_else(|| StoreError::Unavailable("the database gave no answer".into()))?;
    let now = StoreTime(get(row, 0)?);
    let since: Option<i64> = get(row, 2)?;
    let due: Option<i64> = get(row, 4)?;
    Ok(Survey {
        unknown: count(get(row, 1)?),
        unknown_oldest: since.map(|since| StoreTime(since).until(now)),
        processing: count(get(row, 3)?),
        sweep_lag: due.map_or(Duration::ZERO, |due| StoreTime(due).until(now)),
    })
}
