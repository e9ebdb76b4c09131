//! The one trait of the operations table, and the words in which a transition is asked for.
//!
//! Every duration that crosses this boundary is a duration; instants are the store's own (SEMANTICS 3, rule 4).
//! Methods are cancellation safe in this sense: a dropped future may or may not have had its effect in the store,
//! and a repeated call finds out which.

use std::time::Duration;

use async_trait::async_trait;
use onefold_core::contract::{OnStale, Retention};
use onefold_core::{
    Counters, Event, EventKind, Fingerprint, IdentityKey, Kept, Key, OperationId, Reconciliation, Record,
    Resource, Scope, State, StoreTime,
};

/// Why the store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached or written to at present. What was asked may or may not have happened.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// This can never be stored: too big, or not of the stored form.
    #[error("the store refuses this: {0}")]
    Refused(String),
}

/// A record as the store reads it, with the store's time of reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The store's time.
    pub now: StoreTime,
    /// The record, if there is one. Its lease is judged at `now`.
    pub record: Option<Record>,
}

/// What a record promises by the contract under which its latest attempt began. Kept with the record, so that
/// whoever settles it later (a sweeper, a person without the configuration) keeps the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// What follows a lease that ends.
    pub on_stale: OnStale,
    /// How long the record answers after completion.
    pub retention: Retention,
    /// How long a tombstone (digest, operation, state, times) is kept after that; zero deletes at once.
    pub tombstone: Duration,
}

/// A new record in state `processing`, attempt 1.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The digest of the identity.
    pub id: OperationId,
    /// Whose key it is.
    pub scope: Scope,
    /// The operation's name.
    pub operation: String,
    /// The caller's key.
    pub key: Key,
    /// Ties operations of one workflow together.
    pub correlation_id: Option<String>,
    /// The significant request.
    pub fingerprint: Fingerprint,
    /// What was left out of it.
    pub ignored: Vec<String>,
    /// The process that begins the attempt.
    pub owner: String,
    /// How long the attempt holds the operation without a renewal.
    pub lease: Duration,
    /// What the record promises.
    pub promise: Promise,
    /// Refuse when the scope holds this many live records already; `None` is no limit.
    pub live_keys_max: Option<u64>,
    /// Refuse from this time on: the key says itself that it is too old. A record that exists is found all the same.
    pub key_expires_at: Option<StoreTime>,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The record is ours: state `processing`, attempt 1, durable.
    Won {
        /// The store's time of the claim.
        now: StoreTime,
    },
    /// There is a record already (alive, finished or expired); nothing was written.
    Exists(Box<Read>),
    /// The scope holds as many live records as it may; nothing was written.
    QuotaReached,
    /// There is no record and the key is too old to make one; nothing was written.
    KeyTooOld {
        /// The store's time of the refusal.
        now: StoreTime,
    },
}

/// The state, attempt and further condition that a transition starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// One of these states.
    pub states: &'static [State],
    /// This attempt.
    pub attempt: u32,
    /// And this.
    pub also: Also,
}

/// A further condition of a transition, judged by the store's clock at the moment of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Also {
    /// None.
    Nothing,
    /// The lease is over (or there is none).
    LeaseOver,
    /// The retention is over.
    Expired,
    /// None; and a record that [`Step::Reconcile`] settled under this attempt is a start too, whatever `states` say:
    /// what an attempt says of itself counts more than what somebody else found.
    OrReconciled,
}

/// What a transition does to the record.
#[derive(Clone, Debug)]
pub enum Step {
    /// To `processing`, attempt + 1, with a new fingerprint; what reconciliation found is forgotten. From an expired
    /// record everything else starts anew (created, counters, events); the attempt number goes on, so that it stays a
    /// fence.
    Begin {
        /// Whose key it is: a tombstone no longer knows.
        scope: Scope,
        /// The caller's key, likewise.
        key: Key,
        /// The process that begins the attempt.
        owner: String,
        /// How long it holds the operation.
        lease: Duration,
        /// The significant request.
        fingerprint: Fingerprint,
        /// What was left out of it.
        ignored: Vec<String>,
        /// What the record promises from now on.
        promise: Promise,
    },
    /// The lease runs for this long again, from now.
    Renew {
        /// The new lease.
        lease: Duration,
    },
    /// To a terminal state; completed now, expires after the retention that the record promises. The lease ends.
    Settle {
        /// `succeeded`, `rejected` or `failed`.
        state: State,
        /// What is kept of the result.
        kept: Kept,
        /// What it brought forth.
        resource: Option<Resource>,
    },
    /// As [`Step::Settle`], by a reconciler's verdict: the record is `Reconciliation::Settled` from then on.
    Reconcile {
        /// `succeeded` or `failed`.
        state: State,
        /// What is kept of the result.
        kept: Kept,
        /// What it brought forth.
        resource: Option<Resource>,
    },
    /// A probe of an `outcome_unknown` record settled nothing; the state stays. Never carried out in another state.
    Probed {
        /// When it is due again, from now; looked at only where the record stays `Reconciliation::Open`.
        after: Duration,
        /// Whether the authority knew no effect. The store notes when it was first told so.
        negative: bool,
        /// How far reconciliation has come. Only an `Open` record is ever due.
        reconciliation: Reconciliation,
    },
    /// To `outcome_unknown`. The lease ends. Reconciliation is `Open`, no probe was made, and one is due now.
    LoseOutcome,
    /// The lease ends now; the state stays.
    Lapse,
}

/// An entry for the history of a record; the store adds time and attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    /// What happened.
    pub kind: EventKind,
    /// Who acted.
    pub who: String,
    /// Why.
    pub reason: String,
    /// What shows it.
    pub evidence: String,
}

/// A transition that is asked for.
#[derive(Clone, Debug)]
pub struct Advance {
    /// The record.
    pub id: OperationId,
    /// What it must be found in.
    pub start: Start,
    /// What is done to it.
    pub step: Step,
    /// Written with the transition, in the same commit.
    pub event: Option<NewEvent>,
    /// Written instead when the record was found otherwise: evidence is never lost.
    pub if_superseded: Option<NewEvent>,
}

/// What became of a transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// It is done and durable.
    Done {
        /// The store's time of the transition.
        now: StoreTime,
        /// When the record expires, if it does.
        expires_at: Option<StoreTime>,
    },
    /// The record was found in another state or attempt; only the evidence was written, if any.
    Superseded(Box<Read>),
    /// There is no such record.
    Missing,
}

/// Which records are listed. Every condition that is given must hold.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// In this state.
    pub state: Option<State>,
    /// Of this operation.
    pub operation: Option<String>,
    /// Whose scope, as text (`name=value,…`), equals this.
    pub scope: Option<String>,
    /// Under this key.
    pub key: Option<String>,
    /// With this resource id.
    pub resource: Option<String>,
    /// Created at least this long ago.
    pub older_than: Option<Duration>,
    /// Where the page before ended.
    pub cursor: Option<i64>,
    /// At most this many, 1 to 1000.
    pub limit: u32,
}

/// One page of records, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The store's time of reading.
    pub now: StoreTime,
    /// The records.
    pub records: Vec<Record>,
    /// Where the next page begins; `None` at the end.
    pub next_cursor: Option<i64>,
}

/// A wish to probe records whose outcome is unknown.
#[derive(Clone, Debug)]
pub struct TakeProbes {
    /// Records of these operations.
    pub operations: Vec<String>,
    /// At most this many.
    pub limit: u32,
    /// For how long nobody else gets the turn: longer than a probe takes.
    pub turn: Duration,
}

/// The turn to probe one record. It is a matter of pace, not of safety: a verdict starts from the record's state and
/// attempt, whoever brings it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeTurn {
    /// The store's time when the turn was given.
    pub now: StoreTime,
    /// The record, in `outcome_unknown`.
    pub record: Record,
    /// The number of this probe of the attempt, from 1.
    pub probe: u32,
    /// When the outcome became unknown.
    pub unknown_since: StoreTime,
    /// When the first negative answer was noted.
    pub negative_since: Option<StoreTime>,
}

/// What a bounded sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Expired records that became tombstones.
    pub tombstones: u64,
    /// Tombstones that were deleted.
    pub deleted: u64,
}

/// What stands in the store, for gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Records in `outcome_unknown`.
    pub unknown: u64,
    /// Age of the oldest of them.
    pub unknown_oldest: Option<Duration>,
    /// Records in `processing`.
    pub processing: u64,
    /// How long the record that waits longest for the sweeper has been due; zero when none is.
    pub sweep_lag: Duration,
}

/// The operations table of a database.
#[async_trait]
pub trait OperationStore: Send + Sync + 'static {
    /// The name for the label `store`: `sqlite`, `postgres`, `memory`.
    fn name(&self) -> &'static str;

    /// The secret under which identities are digested, fixed for the life of the store.
    fn identity_key(&self) -> &IdentityKey;

    /// Reads a record. Never waits for a commit.
    async fn read(&self, id: OperationId) -> Result<Read, StoreError>;

    /// Makes the record, if there is none.
    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError>;

    /// Carries out a transition, if the record is found where it starts.
    async fn advance(&self, advance: Advance) -> Result<Advanced, StoreError>;

    /// Adds to counters of records; those that are gone are passed over.
    async fn count(&self, counts: Vec<(OperationId, Counters)>) -> Result<(), StoreError>;

    /// Lists records.
    async fn list(&self, query: Query) -> Result<Page, StoreError>;

    /// The history of a record, oldest first.
    async fn events(&self, id: OperationId) -> Result<Vec<Event>, StoreError>;

    /// Marks lost outcomes: `processing` records whose lease is over and whose promise is not `OnStale::Resume` become
    /// `outcome_unknown`, each with an event. At most `limit`; returns how many.
    async fn lose_stale(&self, limit: u32) -> Result<u64, StoreError>;

    /// Gives turns to probe: records in `outcome_unknown` that are `Reconciliation::Open` and due, those due longest
    /// first. Each turn counts one probe and moves the due time to the end of the turn, in the commit that gives it, so
    /// of several processes one gets it; a turn whose holder died comes back when it is over. Cheap when none is due.
    async fn take_probes(&self, take: TakeProbes) -> Result<Vec<ProbeTurn>, StoreError>;

    /// Turns expired records into tombstones and deletes old tombstones: at most `limit` of each, in transactions
    /// that do not hold up the foreground.
    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError>;

    /// Counts what stands.
    async fn survey(&self) -> Result<Survey, StoreError>;

    /// Attempts that were interrupted and may be resumed: `processing` records of these operations whose lease is over
    /// and whose promise is `OnStale::Resume`, those that wait longest first, at most `limit`. Changes nothing.
    async fn interrupted(&self, operations: &[String], limit: u32) -> Result<Vec<Record>, StoreError>;

    /// Notes, for good, that a service writes rows of its own in the commit that settles this operation.
    async fn note_companion(&self, operation: &str) -> Result<(), StoreError>;

    /// Whether that was noted.
    async fn has_companion(&self, operation: &str) -> Result<bool, StoreError>;

    /// Whether the store can be read and written now.
    async fn ready(&self) -> Result<(), StoreError>;
}
