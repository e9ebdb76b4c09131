//! What an attempt may do next: the pure heart (SEMANTICS 4).
//!
//! One function of the record, the request, the contract and the store's time. It neither waits nor writes; the
//! engine carries out what it says with a transition that is conditional on the state and the fence it was
//! decided from, so a decision that was overtaken changes nothing.

use std::time::Duration;

use crate::contract::{AfterExpiry, ForwardKey, OnStale, Retention, TOMBSTONE};
use crate::{Contract, Fingerprint, Lease, Record, State, StoreTime, retry};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The significant request.
    pub fingerprint: &'a Fingerprint,
    /// The time that the key itself carries, where the contract reads it.
    pub key_time: Option<StoreTime>,
}

impl Request<'_> {
    /// When a key that says itself when it was made is too old to begin anything: its own time and the retention.
    /// `None` where the contract lets such a key begin.
    pub fn key_expires_at(&self, contract: &Contract) -> Option<StoreTime> {
        match (self.key_time, contract.retention, contract.after_expiry) {
            (Some(made_at), Retention::For(retention), AfterExpiry::Reject) => Some(made_at.plus(retention)),
            _ => None,
        }
    }
}

/// Why a key is answered with 410.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The record's retention is over; its tombstone still stands.
    Tombstone,
    /// The key says itself that it was made longer ago than the retention.
    KeyTooOld {
        /// The time that was read from the key.
        made_at: StoreTime,
    },
}

/// What an attempt may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Begin: nothing happened yet, or the key is free (again).
    Begin,
    /// Begin this attempt in place of one whose lease ended, under the same downstream key.
    TakeOver {
        /// The number of the new attempt.
        attempt: u32,
    },
    /// Answer with the result.
    Replay,
    /// Another request under the same identity.
    Conflict {
        /// Where the original stands.
        original: State,
    },
    /// An attempt is running.
    Busy {
        /// When to ask again.
        retry_after: Duration,
    },
    /// Accepted, not begun.
    Pending,
    /// Nobody here knows whether it happened.
    Unknown,
    /// A reconciler is to ask the authority.
    Reconcile,
    /// A person must settle it: the attempts that the contract allows were lost.
    NeedsOperator,
    /// Every allowed attempt did nothing.
    Exhausted,
    /// The key is not answered any more.
    Expired(Expiry),
}

/// Decides what the request may do, given the record (if there is one) and the store's time.
pub fn decide(
    record: Option<&Record>,
    request: &Request<'_>,
    contract: &Contract,
    now: StoreTime,
) -> Decision {
    let Some(record) = record else { return absent(request, contract, now) };
    if record.is_expired(now) {
        return expired(record, request, contract, now);
    }
    let free = record.state == State::Failed && !contract.exhausted(record.attempt);
    if !free && record.fingerprint.as_ref() != Some(request.fingerprint) {
        return Decision::Conflict { original: record.state };
    }
    match record.state {
        State::Received => Decision::Pending,
        State::Processing => match record.lease {
            Lease::Alive(left) => Decision::Busy { retry_after: retry::retry_after(left) },
            Lease::None | Lease::Over => stale(record, contract),
        },
        State::Succeeded | State::Rejected => Decision::Replay,
        State::Failed if contract.exhausted(record.attempt) => Decision::Exhausted,
        State::Failed => Decision::Begin,
        // Repeated only under a key that the upstream gets, whatever the contract was when the verdict came.
        State::OutcomeUnknown if record.may_retry() && contract.forward_key != ForwardKey::None => {
            next_of_lost(record, contract)
        }
        State::OutcomeUnknown => Decision::Unknown,
    }
}

fn stale(record: &Record, contract: &Contract) -> Decision {
    match contract.on_stale {
        OnStale::Unknown => Decision::Unknown,
        OnStale::Reconcile => Decision::Reconcile,
        OnStale::Resume => next_of_lost(record, contract),
    }
}

/// The attempt after one whose outcome was lost.
fn next_of_lost(record: &Record, contract: &Contract) -> Decision {
    match contract.exhausted(record.attempt) {
        true => Decision::NeedsOperator,
        false => Decision::TakeOver { attempt: record.attempt + 1 },
    }
}

fn expired(record: &Record, request: &Request<'_>, contract: &Contract, now: StoreTime) -> Decision {
    let tombstone_stands = record.expires_at.is_some_and(|end| now < end.plus(TOMBSTONE));
    if contract.after_expiry == AfterExpiry::Reject && tombstone_stands {
        return Decision::Expired(Expiry::Tombstone);
    }
    absent(request, contract, now)
}

fn absent(request: &Request<'_>, contract: &Contract, now: StoreTime) -> Decision {
    match (request.key_time, request.key_expires_at(contract)) {
        (Some(made_at), Some(end)) if end <= now => Decision::Expired(Expiry::KeyTooOld { made_at }),
        _ => Decision::Begin,
    }
}

#[cfg(test)]
mod tests;
