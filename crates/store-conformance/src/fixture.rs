//! A store under test, its clock, and the few words in which behaviours are told.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use onefold_core::contract::{OnStale, Retention};
use onefold_core::key::KeyTime;
use onefold_core::{
    Answer, EventKind, Fingerprint, FingerprintBuilder, Identity, IdentityKey, Kept, Key, OperationId,
    Record, Scope, State, StoreTime,
};
use onefold_store::clock::ManualClock;
use onefold_store::{
    Advance, Advanced, Also, Claim, Claimed, NewEvent, OperationStore, Promise, Start, Step,
};

/// A store that was made for one test.
pub struct Made {
    /// The store.
    pub store: Arc<dyn OperationStore>,
    /// What must outlive it, such as its directory.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// The clock of a test that begins.
pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START))
}

/// A store under test and its clock.
pub struct Fixture {
    /// The store.
    pub store: Arc<dyn OperationStore>,
    /// Its clock.
    pub clock: Arc<ManualClock>,
    // After the store, so that the store is dropped first.
    _keep: Box<dyn Any + Send + Sync>,
}

/// Where the wall clock stands when a test begins.
pub const START: StoreTime = StoreTime(1_700_000_000_000);
/// The lease of claims.
pub const LEASE: Duration = Duration::from_secs(30);
/// The retention of claims.
pub const RETENTION: Duration = Duration::from_secs(3600);
/// The life of their tombstones.
pub const TOMBSTONE: Duration = Duration::from_secs(7200);
/// What records of the fixture promise.
pub const PROMISE: Promise =
    Promise { on_stale: OnStale::Unknown, retention: Retention::For(RETENTION), tombstone: TOMBSTONE };
/// The attempt that runs.
pub const RUNNING: &[State] = &[State::Processing];

impl Fixture {
    /// A store that was made to live by this clock.
    pub fn new(made: Made, clock: Arc<ManualClock>) -> Fixture {
        Fixture { store: made.store, clock, _keep: made.keep }
    }

    /// A claim under this key, in one scope.
    pub fn claim(&self, key: &str) -> Claim {
        self.claim_in(Scope::new([("tenant", "acme")]), key)
    }

    /// A claim under this key.
    pub fn claim_in(&self, scope: Scope, key: &str) -> Claim {
        claim_of(self.store.identity_key(), scope, key)
    }

    /// Claims this key and wins.
    pub async fn won(&self, key: &str) -> OperationId {
        self.won_as(self.claim(key)).await
    }

    /// Claims and wins.
    pub async fn won_as(&self, claim: Claim) -> OperationId {
        let id = claim.id;
        match self.store.claim(claim).await {
            Ok(Claimed::Won { .. }) => id,
            other => panic!("the claim was to be won: {other:?}"),
        }
    }

    /// Claims this key and settles the first attempt.
    pub async fn settled(&self, key: &str, state: State) -> OperationId {
        let id = self.won(key).await;
        self.done(id, RUNNING, 1, settle(state)).await;
        id
    }

    /// Asks for a transition.
    pub async fn ask(&self, id: OperationId, states: &'static [State], attempt: u32, step: Step) -> Advanced {
        self.ask_also(id, Start { states, attempt, also: Also::Nothing }, step).await
    }

    /// Asks for a transition with a further condition.
    pub async fn ask_also(&self, id: OperationId, start: Start, step: Step) -> Advanced {
        let advance = Advance { id, start, step, event: None, if_superseded: None };
        self.store.advance(advance).await.expect("the store works")
    }

    /// Carries out a transition that must be done.
    pub async fn done(&self, id: OperationId, states: &'static [State], attempt: u32, step: Step) {
        let advanced = self.ask(id, states, attempt, step).await;
        assert!(matches!(advanced, Advanced::Done { .. }), "the transition was to be done: {advanced:?}");
    }

    /// The record, which must be there.
    pub async fn record(&self, id: OperationId) -> Record {
        let read = self.store.read(id).await.expect("the store works");
        read.record.expect("the record is there")
    }

    /// The store's time.
    pub async fn now(&self) -> StoreTime {
        self.store.read(OperationId::from_bytes([9; 32])).await.expect("the store works").now
    }

    /// Time passes.
    pub fn pass(&self, by: Duration) {
        self.clock.pass(by);
    }
}

/// A claim under this key, in one scope.
pub fn claim_under(store: &impl OperationStore, key: &str) -> Claim {
    claim_of(store.identity_key(), Scope::new([("tenant", "acme")]), key)
}

fn claim_of(secret: &IdentityKey, scope: Scope, key: &str) -> Claim {
    let key = Key::new(key).expect("tests use valid keys");
    let identity = Identity { scope, operation: "CreateOrder".into(), key };
    Claim {
        id: identity.id(secret, KeyTime::Off),
        scope: identity.scope,
        operation: identity.operation,
        key: identity.key,
        correlation_id: Some("workflow-1".into()),
        fingerprint: fingerprint("first"),
        ignored: vec!["/trace".into()],
        owner: "process-1".into(),
        lease: LEASE,
        promise: PROMISE,
        live_keys_max: None,
        key_expires_at: None,
    }
}

/// A fingerprint of this request.
pub fn fingerprint(request: &str) -> Fingerprint {
    FingerprintBuilder::new(&IdentityKey::none()).part("body", request.as_bytes()).finish()
}

/// Settles with a small answer.
pub fn settle(state: State) -> Step {
    Step::Settle { state, kept: Kept::Full(answer(b"{}")), resource: None }
}

/// An answer with this body.
pub fn answer(body: &[u8]) -> Answer {
    Answer {
        status: 201,
        headers: vec![("content-type".into(), b"application/json".to_vec())],
        body: body.to_vec(),
        trailers: Vec::new(),
    }
}

/// Begins the next attempt of the record under the key `k`, with another fingerprint.
pub fn begin() -> Step {
    Step::Begin {
        scope: Scope::new([("tenant", "acme")]),
        key: Key::new("k").expect("tests use valid keys"),
        owner: "process-2".into(),
        lease: LEASE,
        fingerprint: fingerprint("second"),
        ignored: Vec::new(),
        promise: PROMISE,
    }
}

/// Something that happened.
pub fn event(kind: EventKind) -> NewEvent {
    NewEvent { kind, who: "ada".into(), reason: "ticket 7".into(), evidence: "a look-up".into() }
}
