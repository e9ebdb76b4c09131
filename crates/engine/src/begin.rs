//! The beginning of an attempt: the claim of a new record, the transition of one that is there, and the record as it
//! is when that is done.

use std::time::Duration;

use onefold_core::contract::{AfterExpiry, OnStale, TOMBSTONE};
use onefold_core::key::KeyTime;
use onefold_core::{
    Contract, Counters, Kept, Lease, OperationId, Reconciliation, Record, Request, State, StoreTime,
};
use onefold_store::{Advance, Advanced, Also, Claim, Promise, Start, Step};

use crate::{Call, Engine, Refusal};

impl Engine {
    pub(crate) fn claim(&self, call: &Call, id: OperationId, owner: String) -> Claim {
        Claim {
            id,
            scope: call.identity.scope.clone(),
            operation: call.identity.operation.clone(),
            key: call.identity.key.clone(),
            correlation_id: call.correlation_id.clone(),
            fingerprint: call.fingerprint,
            ignored: call.contract.fingerprint.ignore.clone(),
            owner,
            lease: call.contract.lease,
            promise: promise(&call.contract, 1),
            live_keys_max: self.0.limits.live_keys_per_scope,
            key_expires_at: request(call).key_expires_at(&call.contract),
        }
    }

    /// The next attempt of a record that is free, expired, whose lease is over, or whose lost attempt may be followed by
    /// another; and who owns it then. Only where nothing happened before does an attempt that nobody performs say that
    /// nothing has.
    pub(crate) async fn begin_next(
        &self,
        call: &Call,
        record: &Record,
        now: StoreTime,
    ) -> Result<(Advanced, String), Refusal> {
        let free = record.state == State::Failed;
        let asking = free.then(|| self.0.forsaken.asking(record.id, record.attempt + 1));
        let owner =
            asking.as_ref().map_or_else(|| self.0.owner.clone(), |asking| asking.owner(&self.0.owner));
        let beginning = self.beginning(call, record, now, owner.clone());
        let advanced = self.answered(self.0.store.advance(beginning).await)?;
        if let Some(asking) = asking {
            asking.heard();
        }
        Ok((advanced, owner))
    }

    /// The transition that begins it.
    pub(crate) fn beginning(&self, call: &Call, record: &Record, now: StoreTime, owner: String) -> Advance {
        let also = match record.state {
            State::Processing => Also::LeaseOver,
            _ if record.is_expired(now) => Also::Expired,
            _ => Also::Nothing,
        };
        let states: &'static [State] = match record.state {
            State::Processing => &[State::Processing],
            State::Failed => &[State::Failed],
            State::OutcomeUnknown => &[State::OutcomeUnknown],
            _ => &[State::Succeeded, State::Rejected],
        };
        let step = Step::Begin {
            scope: call.identity.scope.clone(),
            key: call.identity.key.clone(),
            owner,
            lease: call.contract.lease,
            fingerprint: call.fingerprint,
            ignored: call.contract.fingerprint.ignore.clone(),
            promise: promise(&call.contract, record.attempt + 1),
        };
        let start = Start { states, attempt: record.attempt, also };
        Advance { id: record.id, start, step, event: None, if_superseded: None }
    }
}

pub(crate) fn request(call: &Call) -> Request<'_> {
    let kind = call.contract.key.time;
    let key_time = if kind == KeyTime::Off { None } else { call.identity.key.time(kind) };
    Request { fingerprint: &call.fingerprint, key_time }
}

/// After the last attempt that the contract allows nobody resumes: a lost outcome is a person's to settle.
fn on_stale(contract: &Contract, attempt: u32) -> OnStale {
    match contract.on_stale {
        OnStale::Resume if contract.exhausted(attempt) => OnStale::Unknown,
        on_stale => on_stale,
    }
}

fn promise(contract: &Contract, attempt: u32) -> Promise {
    let tombstone = match contract.after_expiry {
        AfterExpiry::Reject => TOMBSTONE,
        AfterExpiry::New => Duration::ZERO,
    };
    Promise { on_stale: on_stale(contract, attempt), retention: contract.retention, tombstone }
}

pub(crate) fn first_attempt(call: &Call, id: OperationId, owner: String, now: StoreTime) -> Record {
    Record {
        id,
        scope: call.identity.scope.clone(),
        operation: call.identity.operation.clone(),
        key: Some(call.identity.key.clone()),
        correlation_id: call.correlation_id.clone(),
        fingerprint: Some(call.fingerprint),
        ignored: call.contract.fingerprint.ignore.clone(),
        state: State::Processing,
        attempt: 1,
        owner,
        lease: Lease::Alive(call.contract.lease),
        on_stale: on_stale(&call.contract, 1),
        reconciliation: Reconciliation::Open,
        resource: None,
        kept: Kept::Nothing,
        created_at: now,
        begun_at: Some(now),
        completed_at: None,
        expires_at: None,
        counters: Counters::default(),
    }
}

/// The record after the next attempt has begun at `now`.
pub(crate) fn next_attempt(call: &Call, record: Record, owner: String, now: StoreTime) -> Record {
    let anew = record.is_expired(now);
    Record {
        // A tombstone had neither.
        scope: call.identity.scope.clone(),
        key: Some(call.identity.key.clone()),
        fingerprint: Some(call.fingerprint),
        ignored: call.contract.fingerprint.ignore.clone(),
        state: State::Processing,
        attempt: record.attempt + 1,
        owner,
        lease: Lease::Alive(call.contract.lease),
        on_stale: on_stale(&call.contract, record.attempt + 1),
        reconciliation: Reconciliation::Open,
        resource: None,
        kept: Kept::Nothing,
        created_at: if anew { now } else { record.created_at },
        begun_at: if anew { Some(now) } else { record.begun_at.or(Some(now)) },
        completed_at: None,
        expires_at: None,
        counters: if anew { Counters::default() } else { record.counters },
        ..record
    }
}
