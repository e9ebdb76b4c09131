//! One store, the engines over it, and the calls that tests make.
//!
//! Each engine stands for one process. A test that wants a store to fail asks for a flaky one; all of them see the
//! same records.

mod clock;
mod flaky;

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use onefold_core::contract::{OnStale, WhileRunning};
use onefold_core::{
    Answer, Contract, Decision, Event, FingerprintBuilder, Identity, IdentityKey, Kept, Key, Outcome, Record,
    Scope,
};
use onefold_engine::{Attempt, Call, Engine, Entered, Known, Limits, Refusal, Settled, Verdict};
use onefold_store_conformance::MemoryStore;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::sleep;

pub use clock::{PausedClock, START};
pub use flaky::{Asked, Fault, Flaky};

/// A store whose clock is tokio's paused time.
pub struct World {
    pub store: Arc<MemoryStore>,
}

impl World {
    pub fn new() -> World {
        World { store: Arc::new(MemoryStore::new(Arc::new(PausedClock::new()))) }
    }

    /// The engine of one process.
    pub fn engine(&self) -> Engine {
        self.limited(Limits::default())
    }

    /// The engine of a process with these limits.
    pub fn limited(&self, limits: Limits) -> Engine {
        Engine::new(self.store.clone(), "tests", limits)
    }

    /// The engine of a process whose way to the store fails on demand.
    pub fn flaky(&self) -> (Engine, Arc<Flaky>) {
        let flaky = Arc::new(Flaky::over(self.store.clone()));
        (Engine::new(flaky.clone(), "tests", Limits::default()), flaky)
    }
}

pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Duplicates wait a minute, a lost outcome is unknown, the lease is 30 s.
pub fn contract() -> Contract {
    let wait = WhileRunning::Wait(secs(60));
    Contract { while_running: wait, ..Contract::new("PlaceOrder", "one order for each key") }
}

/// Duplicates are told at once.
pub fn busy() -> Contract {
    Contract { while_running: WhileRunning::Busy, ..contract() }
}

/// The next attempt resumes when a lease of 3 s is over; duplicates are told at once.
pub fn resumable() -> Contract {
    Contract { on_stale: OnStale::Resume, lease: secs(3), ..busy() }
}

/// The request `body` under the key `k-1`.
pub fn call(contract: Contract, body: &str) -> Call {
    keyed(contract, "k-1", body)
}

pub fn keyed(contract: Contract, key: &str, body: &str) -> Call {
    Call {
        identity: Identity {
            scope: Scope::new([("tenant", "acme")]),
            operation: contract.operation.clone(),
            key: Key::new(key).expect("tests use valid keys"),
        },
        fingerprint: FingerprintBuilder::new(&IdentityKey::none()).part("body", body.as_bytes()).finish(),
        label: contract.operation.clone().into(),
        contract: Arc::new(contract),
        correlation_id: None,
    }
}

pub async fn enter(engine: &Engine, call: &Call) -> Result<Entered, Refusal> {
    engine.enter(call, pending()).await
}

/// The request gets an attempt.
pub async fn begin(engine: &Engine, call: &Call) -> Attempt {
    match enter(engine, call).await {
        Ok(Entered::Attempt(attempt)) => attempt,
        Ok(Entered::Known(known)) => panic!("no attempt began: {:?}", known.decision),
        Err(refusal) => panic!("no attempt began: {refusal}"),
    }
}

/// The request finds its operation known.
pub async fn known(engine: &Engine, call: &Call) -> Known {
    told(enter(engine, call).await)
}

pub async fn decision(engine: &Engine, call: &Call) -> Decision {
    known(engine, call).await.decision
}

pub fn told(entered: Result<Entered, Refusal>) -> Known {
    match entered {
        Ok(Entered::Known(known)) => known,
        Ok(Entered::Attempt(attempt)) => panic!("attempt {} began", attempt.number()),
        Err(refusal) => panic!("the store did not answer: {refusal}"),
    }
}

/// A duplicate in a task of its own, which has gone as far as it can before this returns.
pub async fn duplicate(engine: &Engine, call: &Call) -> JoinHandle<Known> {
    duplicate_until(engine, call, pending()).await
}

/// The same; its caller hangs up when `gone` is ready.
pub async fn duplicate_until(
    engine: &Engine,
    call: &Call,
    gone: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<Known> {
    let (engine, call) = (engine.clone(), call.clone());
    let task = tokio::spawn(async move { told(engine.enter(&call, gone).await) });
    settle_down().await;
    task
}

/// Two duplicates that wait; whichever gets an attempt performs it. Gives the numbers of the attempts they began.
pub async fn contenders(engine: &Engine, call: &Call) -> JoinHandle<Vec<u32>> {
    let (engine, call) = (engine.clone(), call.clone());
    let contend = async move || match enter(&engine, &call).await.expect("the store answers") {
        Entered::Attempt(attempt) => {
            sleep(secs(1)).await;
            Some(recorded(attempt.settle(placed("order 5001")).await).attempt)
        }
        Entered::Known(known) => {
            assert_eq!(known.decision, Decision::Replay);
            None
        }
    };
    let task = tokio::spawn(async move {
        let (one, two) = tokio::join!(contend(), contend());
        one.into_iter().chain(two).collect()
    });
    settle_down().await;
    task
}

/// Lets every task go as far as it can without time passing.
pub async fn settle_down() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// The order was placed.
pub fn placed(body: &str) -> Verdict {
    Verdict::known(Outcome::Succeeded, answered(201, body), None)
}

pub fn not_done(body: &str) -> Verdict {
    Verdict::known(Outcome::NotDone, answered(503, body), None)
}

pub fn answered(status: u16, body: &str) -> Kept {
    Kept::Full(Answer { status, body: body.into(), ..Answer::default() })
}

pub fn recorded(settled: Settled) -> Arc<Record> {
    match settled {
        Settled::Recorded(record) => record,
        other => panic!("the verdict was not recorded: {other:?}"),
    }
}

/// The record as the store has it.
pub async fn record(engine: &Engine, call: &Call) -> Record {
    shown(engine, call).await.expect("there is a record").0
}

pub async fn events(engine: &Engine, call: &Call) -> Vec<Event> {
    shown(engine, call).await.expect("there is a record").1
}

pub async fn shown(engine: &Engine, call: &Call) -> Option<(Record, Vec<Event>)> {
    let id = call.identity.id(engine.identity_key(), call.contract.key.time);
    engine.show(id).await.expect("the store answers").map(|shown| (shown.record, shown.events))
}

/// What `/metrics` says under this name, summed over all labels.
pub fn metric(engine: &Engine, name: &str) -> u64 {
    let mut registry = Registry::default();
    engine.signals().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string takes all text");
    let full = format!("onefold_{name}");
    text.lines()
        .filter(|line| line.strip_prefix(&full).is_some_and(|rest| rest.starts_with(['{', ' '])))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}
