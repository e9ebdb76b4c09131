//! The results of the steps of resumable operations, written under the fence of their attempt.

use onefold_core::{Kept, OperationId, State};
use onefold_store::codec::{decode_kept, encode_kept, kept_length};
use onefold_store::{FinishedStep, Sealer, StoreError, crash};
use rusqlite::{Connection, Row, params};

use crate::advance;
use crate::batch::Batch;
use crate::error::JobError;
use crate::read;
use crate::row::RawRead;

const PUT: &str = "INSERT INTO onefold_steps (operation, name, attempt, at, kept) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (operation, name) DO NOTHING";
const ONE: &str =
    "SELECT t.name, t.attempt, t.kept FROM onefold_steps t WHERE t.operation = ?1 AND t.name = ?2";
const OF: &str = "SELECT t.name, t.attempt, t.kept FROM onefold_steps t
    WHERE t.operation = (SELECT seq FROM onefold_operations WHERE id = ?1) ORDER BY t.seq";
const DELETE: &str = "DELETE FROM onefold_steps WHERE operation = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[PUT, ONE, OF, DELETE];

/// A result that is to be kept.
pub(crate) struct StepWork {
    id: OperationId,
    attempt: u32,
    name: String,
    form: Vec<u8>,
}

/// A step whose result is still to be opened.
pub(crate) struct RawStep {
    name: String,
    attempt: u32,
    form: Vec<u8>,
}

/// What became of a result.
pub(crate) enum RawStepPut {
    Done,
    Superseded(Box<RawRead>),
    Exists(RawStep),
}

impl StepWork {
    pub(crate) fn new(id: OperationId, attempt: u32, name: String, kept: &Kept, sealer: &Sealer) -> StepWork {
        let form = sealer.seal(&id, kept_length(kept), |out| encode_kept(kept, out));
        StepWork { id, attempt, name, form }
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        self.form.len()
    }
}

impl RawStep {
    fn of(row: &Row<'_>) -> rusqlite::Result<RawStep> {
        Ok(RawStep { name: row.get(0)?, attempt: row.get(1)?, form: row.get(2)? })
    }

    /// The step with its result.
    pub(crate) fn open(self, id: &OperationId, sealer: &Sealer) -> Result<FinishedStep, StoreError> {
        let refused = |why: String| StoreError::Refused(format!("a step of {id}: {why}"));
        let plain = sealer.open(id, &self.form).map_err(|error| refused(error.to_string()))?;
        let kept = decode_kept(&plain).map_err(|error| refused(error.to_string()))?;
        Ok(FinishedStep { name: self.name, attempt: self.attempt, kept })
    }
}

/// Keeps the result, if the attempt still holds the operation.
pub(crate) fn put(work: &StepWork, batch: &mut Batch<'_>) -> Result<RawStepPut, JobError> {
    let found = advance::found(work.id, batch)?;
    let Some(found) = found.filter(|found| found.is(State::Processing, work.attempt)) else {
        return Ok(RawStepPut::Superseded(Box::new(read::in_batch(work.id, batch)?)));
    };
    let row = params![found.seq, work.name, work.attempt, batch.now_ms(), work.form];
    crash::point("sqlite.step.before");
    if batch.connection.prepare_cached(PUT)?.execute(row)? == 1 {
        crash::point("sqlite.step.after");
        batch.wrote();
        return Ok(RawStepPut::Done);
    }
    let mut one = batch.connection.prepare_cached(ONE)?;
    Ok(RawStepPut::Exists(one.query_row(params![found.seq, work.name], RawStep::of)?))
}

/// The steps of an operation, in their order.
pub(crate) fn of(id: OperationId, connection: &Connection) -> rusqlite::Result<Vec<RawStep>> {
    connection.prepare_cached(OF)?.query_map([id.as_bytes()], RawStep::of)?.collect()
}

/// Forgets the steps of the record with this seq.
pub(crate) fn delete(seq: i64, batch: &Batch<'_>) -> rusqlite::Result<()> {
    batch.connection.prepare_cached(DELETE)?.execute([seq]).map(drop)
}
