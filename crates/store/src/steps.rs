//! The port of resumable mode: the results of the steps of an operation (SEMANTICS 5).
//!
//! A result is written under the fence of the attempt that made it, so an attempt that was superseded learns so at its
//! next step and stops. Steps belong to the record: they are gone when it begins anew from expired or from
//! a free key, and when it becomes a tombstone. They are in no listing.

use async_trait::async_trait;
use onefold_core::{Kept, OperationId};

use crate::{OperationStore, Read, StoreError};

/// A step whose result is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedStep {
    /// Its name, unique within the operation.
    pub name: String,
    /// The attempt that finished it.
    pub attempt: u32,
    /// Its result.
    pub kept: Kept,
}

/// What became of a step's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepPut {
    /// It is durable.
    Done,
    /// The record is not `processing` under this attempt any more; nothing was written.
    Superseded(Box<Read>),
    /// The step is finished already, with this result; nothing was written.
    Exists(Box<FinishedStep>),
}

/// A store that keeps steps.
#[async_trait]
pub trait StepStore: OperationStore {
    /// Keeps the result of a step, if `attempt` still holds the operation.
    async fn put_step(
        &self,
        id: OperationId,
        attempt: u32,
        name: String,
        kept: Kept,
    ) -> Result<StepPut, StoreError>;

    /// The finished steps of an operation, in the order in which they were finished.
    async fn steps(&self, id: OperationId) -> Result<Vec<FinishedStep>, StoreError>;
}
