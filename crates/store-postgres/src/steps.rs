//! The results of the steps of resumable operations, written under the fence of their attempt.

use onefold_core::{Kept, OperationId, StoreTime};
use onefold_store::codec::{decode_kept, encode_kept, kept_length};
use onefold_store::{FinishedStep, Sealer, StepPut, StoreError, crash};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::row::{RawRead, attempt, clock, columns, found, get, text, unreadable};
use crate::server::{Server, Unanswered};

/// $2 the operation, $3 the attempt, $4 the name, $5 the result. The record's row is shared until the commit, so no
/// transition comes between. Answers: the time; whether the attempt holds the record; whether the step was new; the
/// step that was there; the record where the attempt does not hold it.
pub(crate) const PUT: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    "),
    held AS MATERIALIZED (
        SELECT o.id FROM onefold.operations o WHERE o.id = $2::bytea AND o.state = 1 AND o.attempt = $3::integer
        FOR SHARE
    ),
    put AS (
        INSERT INTO onefold.steps (operation, name, attempt, at, kept)
        SELECT h.id, $4::bytea, $3, c.now, $5::bytea FROM held h CROSS JOIN clock c
        ON CONFLICT (operation, name) DO NOTHING
        RETURNING name
    )
    SELECT c.now, EXISTS (SELECT FROM held), EXISTS (SELECT FROM put), s.name, s.attempt, s.kept, ",
    columns!("o"),
    " FROM clock c
    LEFT JOIN onefold.steps s ON s.operation = $2 AND s.name = $4
    LEFT JOIN onefold.operations o ON o.id = $2"
);

pub(crate) const OF: &str = "SELECT s.name, s.attempt, s.kept FROM onefold.steps s
    WHERE s.operation = $1 ORDER BY s.n";

/// Keeps the result, if the attempt still holds the operation.
pub(crate) async fn put(
    id: OperationId,
    by: u32,
    name: &str,
    kept: &Kept,
    server: &Server,
    sealer: &Sealer,
) -> Result<StepPut, StoreError> {
    let form = sealer.seal(&id, kept_length(kept), |out| encode_kept(kept, out));
    let number = i32::try_from(by).map_err(unreadable)?;
    let params: [(&(dyn ToSql + Sync), Type); 5] = [
        (&server.now(), Type::INT8),
        (&id.as_bytes().as_slice(), Type::BYTEA),
        (&number, Type::INT4),
        (&name.as_bytes(), Type::BYTEA),
        (&form, Type::BYTEA),
    ];
    crash::point("postgres.step.before");
    let rows = server.ask(PUT, &params, Unanswered::AskAgain).await?;
    crash::point("postgres.step.after");
    let row = rows.first().ok_or_else(|| unreadable("no answer"))?;
    let now = StoreTime(get(row, 0)?);
    if !get::<bool>(row, 1)? {
        let record = found(row, 6, now)?;
        return Ok(StepPut::Superseded(Box::new(RawRead { now, record }.open(sealer)?)));
    }
    if get::<bool>(row, 2)? {
        return Ok(StepPut::Done);
    }
    if get::<Option<&[u8]>>(row, 3)?.is_none() {
        // Another request has finished it in this moment; it is there for the next reading.
        let there = of(id, server, sealer).await?.into_iter().find(|step| step.name == name);
        let there = there.ok_or_else(|| StoreError::Unavailable("a step comes and goes".into()))?;
        return Ok(StepPut::Exists(Box::new(there)));
    }
    // Our own first request, whose answer was lost: no other form has these bytes where payloads are sealed, and where
    // they are not it says the same.
    if get::<&[u8]>(row, 5)? == form.as_slice() && attempt(row, 4)? == by {
        return Ok(StepPut::Done);
    }
    Ok(StepPut::Exists(Box::new(step(id, row, 3, sealer)?)))
}

/// The steps of an operation, in their order.
pub(crate) async fn of(
    id: OperationId,
    server: &Server,
    sealer: &Sealer,
) -> Result<Vec<FinishedStep>, StoreError> {
    let params: [(&(dyn ToSql + Sync), Type); 1] = [(&id.as_bytes().as_slice(), Type::BYTEA)];
    crash::point("postgres.steps.before");
    let rows = server.ask(OF, &params, Unanswered::AskAgain).await?;
    crash::point("postgres.steps.after");
    rows.iter().map(|row| step(id, row, 0, sealer)).collect()
}

fn step(id: OperationId, row: &Row, at: usize, sealer: &Sealer) -> Result<FinishedStep, StoreError> {
    let refused = |why: String| StoreError::Refused(format!("a step of {id}: {why}"));
    let plain = sealer.open(&id, get(row, at + 2)?).map_err(|error| refused(error.to_string()))?;
    let kept = decode_kept(&plain).map_err(|error| refused(error.to_string()))?;
    Ok(FinishedStep { name: text(get(row, at)?)?, attempt: attempt(row, at + 1)?, kept })
}
