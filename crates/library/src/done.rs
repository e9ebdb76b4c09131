//! A finished operation, as every one of its callers sees it.

use onefold_core::{OperationId, Record, Resource, State};
use serde::de::DeserializeOwned;

use crate::typed::{self, NoValue};
use crate::{CallError, Operation};

/// What became of the record of a call that performed the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is durable.
    Durably,
    /// The store did not take the result, or what is written [with it](crate::companion) failed. The result is real all
    /// the same. It is offered again in the background; nothing runs again by itself (SEMANTICS 3, rule 7).
    NotYet,
    /// A newer attempt or a person was faster: the effect may exist twice. It is kept as evidence.
    Superseded,
}

/// A finished operation.
#[derive(Clone, Debug)]
pub struct Done<T> {
    pub(crate) value: T,
    pub(crate) rejected: bool,
    pub(crate) replayed: bool,
    pub(crate) recorded: Recorded,
    pub(crate) id: OperationId,
    pub(crate) attempt: u32,
    pub(crate) resource: Option<Resource>,
}

impl<T> Done<T> {
    /// The result: the same for every caller.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The result.
    pub fn into_value(self) -> T {
        self.value
    }

    /// Whether the operation was refused for good; the value says why.
    pub fn rejected(&self) -> bool {
        self.rejected
    }

    /// Whether the work of this call did not run, because the operation was finished before.
    pub fn replayed(&self) -> bool {
        self.replayed
    }

    /// What became of the record.
    pub fn recorded(&self) -> Recorded {
        self.recorded
    }

    /// The operation's id: what its record is found by.
    pub fn id(&self) -> OperationId {
        self.id
    }

    /// The number of the attempt that finished it.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// What it brought forth.
    pub fn resource(&self) -> Option<&Resource> {
        self.resource.as_ref()
    }

    /// The same with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Done<U> {
        let Done { value, rejected, replayed, recorded, id, attempt, resource } = self;
        Done { value: change(value), rejected, replayed, recorded, id, attempt, resource }
    }

    pub(crate) fn of(record: &Record, value: T, replayed: bool) -> Done<T> {
        Done {
            value,
            rejected: record.state == State::Rejected,
            replayed,
            recorded: Recorded::Durably,
            id: record.id,
            attempt: record.attempt,
            resource: record.resource.clone(),
        }
    }
}

impl<T: DeserializeOwned> Done<T> {
    /// The replay of a finished record.
    pub(crate) fn replay(operation: &Operation, record: &Record) -> Result<Done<T>, CallError> {
        let (id, state, resource) = (record.id, record.state, record.resource.clone().map(Box::new));
        match typed::value(operation, &record.kept) {
            Ok(value) => Ok(Done::of(record, value, true)),
            Err(NoValue::NotKept { reason, why }) => {
                Err(CallError::ValueNotKept { id, state, resource, reason, why })
            }
            Err(NoValue::Unreadable { stored, known, detail }) => {
                Err(CallError::ValueUnreadable { id, state, resource, stored, known, detail })
            }
        }
    }
}
