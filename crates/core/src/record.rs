//! The record of an operation: the one row that says where it stands (SEMANTICS 2).

use std::time::Duration;

use crate::identity::OperationId;
use crate::key::Key;
use crate::scope::Scope;
use crate::{Answers, Contract, Fingerprint, MayBegin, State, StoreTime, contract};

/// An attempt's hold on the operation, as the store judged it when it read the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// Nobody holds it.
    None,
    /// Alive, for this much longer.
    Alive(Duration),
    /// It ended without an outcome.
    Over,
}

impl Lease {
    /// Whether an attempt holds the operation.
    pub fn is_alive(self) -> bool {
        matches!(self, Lease::Alive(_))
    }
}

/// What the operation brought forth, for people and for `response = "current"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// What kind of thing: `location` for the URL of an answer, otherwise the business's own word.
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// An answer as it is kept: bytes, not text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header lines in their order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
    /// The trailer lines in their order.
    pub trailers: Vec<(String, Vec<u8>)>,
}

/// A typed result as it is kept: versioned data, never the name or the layout of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedValue {
    /// Which form of the operation's result this is; the operation counts them.
    pub version: u16,
    /// The value as JSON. Never empty: unit and `None` are `null`.
    pub json: Vec<u8>,
}

/// Why the body of an answer is not kept although the result is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// It was longer than the contract keeps.
    TooBig,
    /// It was cut on its way.
    Cut,
    /// The contract keeps none.
    ByContract,
    /// A person settled the operation without giving one.
    Settled,
    /// A reconciler found that it happened; what it looked at is not the original answer.
    Reconciled,
    /// The store could not take it.
    NotStored,
}

impl NotKept {
    /// As a word of the wire, the `reason` of `response-not-kept`.
    pub fn name(self) -> &'static str {
        match self {
            NotKept::TooBig => "too_big",
            NotKept::Cut => "cut",
            NotKept::ByContract => "by_contract",
            NotKept::Settled => "settled_by_a_person",
            NotKept::Reconciled => "settled_by_a_reconciler",
            NotKept::NotStored => "not_stored",
        }
    }
}

/// What is kept of the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// There is no result (yet).
    #[default]
    Nothing,
    /// The whole answer. An empty body is a body.
    Full(Answer),
    /// A typed result. An empty value is a value.
    Value(TypedValue),
    /// Status and headers; the body is left out by contract.
    Reference(Answer),
    /// The result is known, the answer is not kept.
    NotKept {
        /// The status of the answer, where there was one.
        status: Option<u16>,
        /// Why it is not kept.
        why: NotKept,
    },
}

/// How often something met the record. Written in batches; may lag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that found the operation known.
    pub duplicates: u64,
    /// Requests that were other requests under the same identity.
    pub conflicts: u64,
    /// Duplicates that were answered with the result.
    pub replays: u64,
}

/// What kind of thing happened to a record beside its transitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The outcome of an attempt was lost.
    Unknown,
    /// A person settled an unknown outcome.
    Resolved,
    /// A person took the operation from its attempt.
    Released,
    /// A superseded attempt came back with a success: a suspected double effect.
    LateSuccess,
    /// A reconciler found that it happened.
    Happened,
    /// A reconciler found no effect. The reason says whether that freed the key.
    DidNotHappen,
    /// A reconciler could not find out.
    Inconclusive,
    /// A reconciler gave up; a person must settle it.
    Escalated,
}

/// How far reconciliation has come with the latest attempt (SEMANTICS 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconciliation {
    /// It has not said anything that lasts. Whether it runs, the contract says.
    #[default]
    Open,
    /// It did not happen so far, and a retry under the same downstream key is safe.
    MayRetry,
    /// It gave up: a person must settle it.
    Escalated,
    /// It settled the operation. The attempt's own success still counts more.
    Settled,
}

impl Reconciliation {
    /// The name in JSON and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Reconciliation::Open => "open",
            Reconciliation::MayRetry => "may_retry",
            Reconciliation::Escalated => "escalated",
            Reconciliation::Settled => "settled",
        }
    }
}

/// One entry of a record's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, by the store's clock.
    pub at: StoreTime,
    /// What.
    pub kind: EventKind,
    /// The attempt it concerns.
    pub attempt: u32,
    /// Who acted: a person, or the layer itself.
    pub who: String,
    /// Why, in words.
    pub reason: String,
    /// What shows it: a ticket, a look-up's answer.
    pub evidence: String,
}

/// Where one operation stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The digest of the identity.
    pub id: OperationId,
    /// Whose key it is; empty for a tombstone.
    pub scope: Scope,
    /// The operation's name.
    pub operation: String,
    /// The caller's key; `None` for a tombstone. A key can be somebody's address.
    pub key: Option<Key>,
    /// Ties the operations of one workflow together; never deduplicates.
    pub correlation_id: Option<String>,
    /// The significant request; `None` for a tombstone.
    pub fingerprint: Option<Fingerprint>,
    /// What was left out of the fingerprint.
    pub ignored: Vec<String>,
    /// The state.
    pub state: State,
    /// The number of the latest attempt: the fence.
    pub attempt: u32,
    /// The process that began it; empty for a tombstone.
    pub owner: String,
    /// Its hold.
    pub lease: Lease,
    /// Whether a lease that ends makes the outcome unknown, or lets the next attempt resume.
    pub on_stale: contract::OnStale,
    /// How far reconciliation has come with the latest attempt.
    pub reconciliation: Reconciliation,
    /// What it brought forth.
    pub resource: Option<Resource>,
    /// What is kept of the result.
    pub kept: Kept,
    /// When the record was made.
    pub created_at: StoreTime,
    /// When the first attempt began.
    pub begun_at: Option<StoreTime>,
    /// When the outcome became known.
    pub completed_at: Option<StoreTime>,
    /// When it stops answering. Only terminal records expire.
    pub expires_at: Option<StoreTime>,
    /// How often it was met.
    pub counters: Counters,
}

impl Record {
    /// Whether retention has ended at `now`. A record that is not terminal never expires.
    pub fn is_expired(&self, now: StoreTime) -> bool {
        self.state.is_terminal() && self.expires_at.is_some_and(|end| end <= now)
    }

    /// The five answers for this record under its contract.
    pub fn answers(&self, contract: Option<&Contract>) -> Answers {
        let exhausted = contract.is_some_and(|c| c.exhausted(self.attempt));
        let asks = match self.reconciliation {
            Reconciliation::Open => match (contract, self.state) {
                (Some(contract), State::Processing) => contract.on_stale == contract::OnStale::Reconcile,
                (Some(contract), _) => contract.reconcile.is_some(),
                (None, _) => self.on_stale == contract::OnStale::Reconcile,
            },
            _ => false,
        };
        let answers = self.state.answers(self.lease.is_alive(), exhausted, asks);
        match self.may_retry() {
            // The verdict is there; a new key would still be a second effect.
            true => Answers { new_attempt: MayBegin::Yes, ..answers },
            false => answers,
        }
    }

    /// Whether a reconciler let the next attempt begin, under the same downstream key.
    pub fn may_retry(&self) -> bool {
        self.state == State::OutcomeUnknown && self.reconciliation == Reconciliation::MayRetry
    }
}
