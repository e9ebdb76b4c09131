//! Reading records, with the time and the lease as the server's clock judges them. Nothing here waits for a commit.

use onefold_core::{OperationId, StoreTime};
use onefold_store::{StoreError, crash};
use tokio_postgres::types::Type;

use crate::ask::Ask;
use crate::batch::place;
use crate::error::Failed;
use crate::row::{RawRead, clock, columns, found, get};
use crate::server::Unanswered;

pub(crate) const READ: &str = concat!(
    "SELECT i.n, c.now, ",
    columns!("o"),
    " FROM (",
    clock!(),
    ") c CROSS JOIN pg_catalog.unnest($2::bytea[]) WITH ORDINALITY AS i (id, n)
    LEFT JOIN onefold.operations o ON o.id = i.id"
);

/// One record.
pub(crate) async fn one(id: OperationId, server: &impl Ask<Error = Failed>) -> Result<RawRead, StoreError> {
    let mut found = many(&[id], server).await?;
    found
        .pop()
        .map_or_else(|| Err(StoreError::Unavailable("the database gave no answer".into())), |(_, read)| read)
}

/// Records, each with its place in the question.
pub(crate) async fn many<A: Ask>(
    ids: &[OperationId],
    server: &A,
) -> Result<Vec<(usize, Result<RawRead, StoreError>)>, A::Error> {
    let bytes: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&server.now(), Type::INT8), (&bytes, Type::BYTEA_ARRAY)];
    crash::point("postgres.read.before");
    let rows = server.ask(READ, &params, Unanswered::AskAgain).await?;
    crash::point("postgres.read.after");
    let read = |row: &A::Row| {
        let now = StoreTime(get(row, 1)?);
        Ok(RawRead { now, record: found(row, 2, now)? })
    };
    let answered = rows.iter().map(|row| Ok((place(row, ids.len())?, read(row))));
    answered.collect()
}
