//! What becomes of an unknown outcome when somebody can be asked: verdicts, fences, pace, turns, and who is overtaken.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::contract::{ForwardKey, OnStale};
use onefold_core::reconcile::{Fence, Found, PROBES_MAX, Verdict as Probe};
use onefold_core::{Contract, Decision, EventKind, Kept, NotKept, Reconciliation, Resource, State};
use onefold_engine::{
    Call, Engine, Probed, Reconciler, Reconciling, Registration, ResolvedAs, Subject, Verdict,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::acts::{release, resolution};
use crate::world::*;

/// For how long an attempt may still be sending after its outcome was lost.
const SENDS_FOR: Duration = secs(10);
const WINDOW: Duration = secs(30);

/// An authority that says what it is told to, then nothing.
struct Scripted {
    says: Mutex<VecDeque<Probe>>,
    asked: Mutex<Vec<Instant>>,
    gate: Semaphore,
}

impl Scripted {
    fn says(verdicts: impl IntoIterator<Item = Probe>) -> Arc<Scripted> {
        let says = Mutex::new(verdicts.into_iter().collect());
        Arc::new(Scripted { says, asked: Mutex::default(), gate: Semaphore::new(Semaphore::MAX_PERMITS) })
    }

    /// One that answers nobody until the gate opens.
    fn held(verdicts: impl IntoIterator<Item = Probe>) -> Arc<Scripted> {
        let held = Scripted::says(verdicts);
        held.gate.forget_permits(Semaphore::MAX_PERMITS);
        held
    }

    fn asked(&self) -> usize {
        self.asked.lock().len()
    }
}

#[async_trait]
impl Reconciler for Scripted {
    async fn probe(&self, subject: &Subject) -> Probed {
        assert_eq!(subject.record().state, State::OutcomeUnknown);
        self.asked.lock().push(Instant::now());
        self.gate.acquire().await.expect("never closed").forget();
        let verdict = self.says.lock().pop_front().unwrap_or(Probe::Inconclusive);
        Probed { verdict, reason: "status 200".into(), evidence: "order 5001".into() }
    }
}

fn register(reconciler: Arc<dyn Reconciler>) -> Registration {
    Registration {
        operation: "PlaceOrder".into(),
        label: "PlaceOrder".into(),
        reconciler,
        probe_max: secs(10),
        sends_for: SENDS_FOR,
        companion: None,
    }
}

fn reconcile(engine: &Engine, reconciler: Arc<dyn Reconciler>) -> Reconciling {
    engine.reconcile(vec![register(reconciler)])
}

fn reconciled() -> Contract {
    Contract { on_stale: OnStale::Reconcile, ..busy() }
}

fn happened() -> Probe {
    let kept = Kept::NotKept { status: None, why: NotKept::Reconciled };
    Probe::Happened(Found { kept, resource: Some(Resource { kind: "location".into(), id: "/5001".into() }) })
}

fn negative(fence: Option<Fence>) -> Probe {
    Probe::DidNotHappen(fence)
}

fn settled() -> Probe {
    negative(Some(Fence::Settled { window: WINDOW }))
}

/// An operation whose outcome is unknown.
async fn lost(engine: &Engine, order: &Call) {
    recorded(begin(engine, order).await.settle(Verdict::unknown("hung up")).await);
}

async fn kinds(engine: &Engine, order: &Call) -> Vec<EventKind> {
    events(engine, order).await.iter().map(|event| event.kind).collect()
}

#[tokio::test(start_paused = true)]
async fn effect_that_happened_settles_the_key() {
    for contract in [reconciled(), busy()] {
        let engine = World::new().engine();
        let order = call(contract, "3 apples");
        lost(&engine, &order).await;
        let authority = Scripted::says([happened()]);
        let _running = reconcile(&engine, authority.clone());
        assert_eq!(decision(&engine, &order).await, Decision::Unknown, "while it runs");
        sleep(secs(2)).await;
        let known = known(&engine, &order).await;
        assert_eq!(known.decision, Decision::Replay);
        let record = known.record.unwrap();
        assert_eq!((record.state, record.reconciliation), (State::Succeeded, Reconciliation::Settled));
        assert_eq!(record.resource.as_ref().map(|r| r.id.as_str()), Some("/5001"));
        let event = events(&engine, &order).await.pop().unwrap();
        assert_eq!((event.kind, event.who.as_str()), (EventKind::Happened, "reconciler"));
        assert_eq!(
            (event.reason.as_str(), event.evidence.as_str()),
            ("status 200; it happened", "order 5001")
        );
        assert_eq!(metric(&engine, "reconciliations_total"), 1);
        sleep(secs(3600)).await;
        assert_eq!(authority.asked(), 1, "a settled operation is not asked about");
    }
}

#[tokio::test(start_paused = true)]
async fn lease_that_ends_under_reconcile_is_unknown_and_probed() {
    let world = World::new();
    let (silent, store) = world.flaky();
    store.next_times(1000, Asked::Renew, Fault::Unavailable);
    let order = call(Contract { lease: secs(3), ..reconciled() }, "3 apples");
    let attempt = begin(&silent, &order).await;
    sleep(secs(4)).await;
    let other = world.engine();
    assert_eq!(decision(&other, &order).await, Decision::Unknown);
    let _running = reconcile(&other, Scripted::says([happened()]));
    sleep(secs(2)).await;
    assert_eq!(decision(&other, &order).await, Decision::Replay);
    drop(attempt);
}

#[tokio::test(start_paused = true)]
async fn negative_behind_a_tombstone_frees_the_key() {
    let engine = World::new().engine();
    let order = call(reconciled(), "3 apples");
    lost(&engine, &order).await;
    let _running = reconcile(&engine, Scripted::says([negative(Some(Fence::Tombstoned))]));
    sleep(secs(2)).await;
    let record = record(&engine, &order).await;
    assert_eq!((record.state, record.answers(None).safe_to_use_new_key()), (State::Failed, true));
    assert_eq!(begin(&engine, &order).await.number(), 2);
}

#[tokio::test(start_paused = true)]
async fn settled_negative_frees_after_the_window_beyond_the_last_sending() {
    let engine = World::new().engine();
    let order = call(reconciled(), "3 apples");
    lost(&engine, &order).await;
    let since = Instant::now();
    let authority = Scripted::says([settled(), settled()]);
    let _running = reconcile(&engine, authority.clone());
    sleep(SENDS_FOR + WINDOW - secs(1)).await;
    assert_eq!(authority.asked(), 1, "the first starts the window");
    assert_eq!(record(&engine, &order).await.state, State::OutcomeUnknown);
    sleep(secs(3)).await;
    let second = authority.asked.lock()[1] - since;
    assert!(second >= SENDS_FOR + WINDOW, "{second:?}");
    assert_eq!(record(&engine, &order).await.state, State::Failed);
    let expected = [EventKind::Unknown, EventKind::DidNotHappen, EventKind::DidNotHappen];
    assert_eq!(kinds(&engine, &order).await, expected);
}

#[tokio::test(start_paused = true)]
async fn same_key_lets_the_same_request_be_sent_on_and_no_other() {
    let engine = World::new().engine();
    let order = call(Contract { max_attempts: 2, ..reconciled() }, "3 apples");
    lost(&engine, &order).await;
    let authority = Scripted::says([negative(Some(Fence::SameKey)), happened()]);
    let _running = reconcile(&engine, authority.clone());
    sleep(secs(2)).await;
    let record = record(&engine, &order).await;
    assert_eq!(record.state, State::OutcomeUnknown, "the original may still arrive");
    assert!(!record.answers(None).safe_to_use_new_key());
    let other = decision(&engine, &call(reconciled(), "4 apples")).await;
    assert!(matches!(other, Decision::Conflict { .. }), "{other:?}");
    let keyless = Contract { forward_key: ForwardKey::None, ..reconciled() };
    assert_eq!(decision(&engine, &call(keyless, "3 apples")).await, Decision::Unknown);
    let next = begin(&engine, &order).await;
    assert!((next.number(), next.resumes()) == (2, true), "what it does not do says nothing of the first");
    recorded(next.settle(not_done("busy")).await);
    sleep(secs(2)).await;
    assert_eq!(decision(&engine, &order).await, Decision::Replay, "the second attempt is asked about anew");
    assert_eq!(authority.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn negative_without_a_fence_and_silence_free_nothing_and_end_with_a_person() {
    for word in [negative(None), Probe::Inconclusive] {
        let world = World::new();
        let order = call(reconciled(), "3 apples");
        lost(&world.engine(), &order).await;
        let authority = Scripted::says(vec![word; 100]);
        // Each quarter of an hour another process: what was counted is in the store.
        for _ in 0..16 {
            let engine = world.engine();
            let _running = reconcile(&engine, authority.clone());
            sleep(secs(900)).await;
            assert_eq!(decision(&engine, &order).await, Decision::Unknown);
        }
        let engine = world.engine();
        assert_eq!(authority.asked(), PROBES_MAX as usize);
        let record = record(&engine, &order).await;
        let expected = (State::OutcomeUnknown, Reconciliation::Escalated);
        assert_eq!((record.state, record.reconciliation), expected);
        assert!(!record.answers(Some(&order.contract)).reconciliation, "nobody is asked any more");
        let last = events(&engine, &order).await.pop().unwrap();
        assert_eq!(last.kind, EventKind::Escalated);
        assert!(last.reason.ends_with("a person must settle it"), "{}", last.reason);
        engine.resolve(record.id, resolution(ResolvedAs::Failed)).await.unwrap();
        assert_eq!(begin(&engine, &order).await.number(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn release_has_an_escalated_operation_asked_about_again() {
    let engine = World::new().engine();
    let order = call(reconciled(), "3 apples");
    lost(&engine, &order).await;
    let authority = Scripted::says(vec![Probe::Inconclusive; PROBES_MAX as usize]);
    authority.says.lock().push_back(happened());
    let _running = reconcile(&engine, authority.clone());
    sleep(secs(3600)).await;
    let id = record(&engine, &order).await.id;
    sleep(secs(3600)).await;
    assert_eq!(authority.asked(), PROBES_MAX as usize, "it was given up");
    let shown = engine.release(id, release(false)).await.unwrap();
    assert_eq!(shown.record.reconciliation, Reconciliation::Open);
    sleep(secs(2)).await;
    assert_eq!(decision(&engine, &order).await, Decision::Replay);
}

#[tokio::test(start_paused = true)]
async fn pauses_between_probes_grow() {
    let engine = World::new().engine();
    lost(&engine, &call(reconciled(), "3 apples")).await;
    let authority = Scripted::says([]);
    let _running = reconcile(&engine, authority.clone());
    sleep(secs(3600)).await;
    let asked = authority.asked.lock().clone();
    let pauses: Vec<u64> = asked.windows(2).map(|two| (two[1] - two[0]).as_secs()).collect();
    for (i, pause) in pauses.iter().enumerate() {
        let ceiling = (2u64 << i).min(300);
        // Found by a look each second.
        assert!((ceiling / 2..=ceiling + 2).contains(pause), "pause {i}: {pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn word_of_the_attempt_or_of_a_person_during_a_probe_wins() {
    for by_a_person in [false, true] {
        let engine = World::new().engine();
        let order = call(reconciled(), "3 apples");
        let mut attempt = begin(&engine, &order).await;
        attempt.lose("late").await;
        let authority = Scripted::held([negative(Some(Fence::Tombstoned))]);
        let _running = reconcile(&engine, authority.clone());
        sleep(secs(1)).await;
        assert_eq!(authority.asked(), 1);
        if by_a_person {
            engine.resolve(attempt.id(), resolution(ResolvedAs::Succeeded)).await.unwrap();
        } else {
            recorded(attempt.settle(placed("order 5001")).await);
        }
        authority.gate.add_permits(1);
        sleep(secs(1)).await;
        assert_eq!(decision(&engine, &order).await, Decision::Replay);
        let last = events(&engine, &order).await.pop().unwrap();
        assert_eq!(last.kind, EventKind::DidNotHappen, "the verdict is kept as evidence");
        assert_eq!(metric(&engine, "fenced_writes_total"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn late_success_of_the_attempt_replaces_what_a_reconciler_found() {
    for word in [happened(), negative(Some(Fence::Tombstoned))] {
        let engine = World::new().engine();
        let order = call(reconciled(), "3 apples");
        let mut attempt = begin(&engine, &order).await;
        attempt.lose("late").await;
        let _running = reconcile(&engine, Scripted::says([word]));
        sleep(secs(2)).await;
        assert_eq!(record(&engine, &order).await.reconciliation, Reconciliation::Settled);
        recorded(attempt.settle(placed("order 5001")).await);
        let known = known(&engine, &order).await;
        assert_eq!(known.decision, Decision::Replay);
        assert_eq!(known.record.unwrap().kept, answered(201, "order 5001"), "the original answer");
        assert_eq!(metric(&engine, "late_successes_total"), 0, "they speak of one effect");
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_processes_one_probes_at_a_time() {
    let world = World::new();
    let order = call(reconciled(), "3 apples");
    lost(&world.engine(), &order).await;
    let authority = Scripted::held([Probe::Inconclusive, happened()]);
    let engines: Vec<Engine> = (0..4).map(|_| world.engine()).collect();
    let running: Vec<Reconciling> = engines.iter().map(|e| reconcile(e, authority.clone())).collect();
    sleep(secs(9)).await;
    assert_eq!(authority.asked(), 1);
    // Whoever holds the turn dies with the verdict not yet written; the turn comes back.
    drop(running);
    let _one = reconcile(&engines[0], authority.clone());
    sleep(secs(5)).await;
    assert_eq!(authority.asked(), 1, "the turn of the dead is not over");
    authority.gate.add_permits(10);
    sleep(millis(1500)).await;
    assert_eq!(authority.asked(), 2);
    assert_eq!(record(&engines[0], &order).await.state, State::OutcomeUnknown);
    sleep(secs(10)).await;
    assert_eq!(decision(&engines[0], &order).await, Decision::Replay);
}

#[tokio::test(start_paused = true)]
async fn verdict_that_the_store_did_not_take_is_asked_for_again() {
    let world = World::new();
    let (engine, store) = world.flaky();
    let order = call(reconciled(), "3 apples");
    lost(&engine, &order).await;
    store.next(Asked::Verdict, Fault::Unavailable);
    let authority = Scripted::says([happened(), happened()]);
    let _running = reconcile(&engine, authority.clone());
    sleep(secs(60)).await;
    assert_eq!(authority.asked(), 2);
    assert_eq!(decision(&engine, &order).await, Decision::Replay);
}

#[tokio::test(start_paused = true)]
async fn probes_of_all_operations_together_are_bounded() {
    let engine = World::new().engine();
    for key in 0..50 {
        lost(&engine, &keyed(reconciled(), &format!("k-{key}"), "3 apples")).await;
    }
    let authority = Scripted::held([]);
    let _running = reconcile(&engine, authority.clone());
    sleep(secs(8)).await;
    assert_eq!(authority.asked(), 8);
}

struct Failing;

#[async_trait]
impl Reconciler for Failing {
    async fn probe(&self, subject: &Subject) -> Probed {
        match subject.record().key.as_ref().map(|key| key.as_str()) {
            Some("k-1") => panic!("on demand"),
            _ => std::future::pending().await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reconciler_that_panics_or_never_answers_has_said_nothing() {
    for (key, reason) in [("k-1", "the reconciler failed"), ("k-2", "no answer within 10000 ms")] {
        let engine = World::new().engine();
        let order = keyed(reconciled(), key, "3 apples");
        lost(&engine, &order).await;
        let _running = reconcile(&engine, Arc::new(Failing));
        sleep(secs(12)).await;
        let event = events(&engine, &order).await.remove(1);
        assert_eq!(event.kind, EventKind::Inconclusive);
        assert!(event.reason.contains(reason), "{}", event.reason);
    }
}
