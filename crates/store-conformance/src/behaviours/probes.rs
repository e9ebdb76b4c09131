//! Probes of unknown outcomes: who gets the turn and when, what is noted, and whose word counts.

use std::time::Duration;

use onefold_core::contract::OnStale;
use onefold_core::{EventKind, Kept, NotKept, OperationId, Reconciliation, State, StoreTime};
use onefold_store::{Advance, Advanced, Also, ProbeTurn, Promise, Start, Step, TakeProbes};

use crate::fixture::{Fixture, LEASE, PROMISE, RETENTION, RUNNING, answer, begin, event, settle};

const TURN: Duration = Duration::from_secs(20);
const LOST: &[State] = &[State::OutcomeUnknown];

async fn take(f: &Fixture, limit: u32) -> Vec<ProbeTurn> {
    take_of(f, &["CreateOrder"], limit).await
}

async fn take_of(f: &Fixture, operations: &[&str], limit: u32) -> Vec<ProbeTurn> {
    let operations = operations.iter().map(|name| (*name).to_owned()).collect();
    f.store.take_probes(TakeProbes { operations, limit, turn: TURN }).await.expect("the store works")
}

async fn one(f: &Fixture) -> ProbeTurn {
    let mut turns = take(f, 10).await;
    assert_eq!(turns.len(), 1, "one is due");
    turns.remove(0)
}

async fn lost(f: &Fixture, key: &str) -> OperationId {
    let id = f.won(key).await;
    f.done(id, RUNNING, 1, Step::LoseOutcome).await;
    id
}

fn open(seconds: u64, negative: bool) -> Step {
    let after = Duration::from_secs(seconds);
    Step::Probed { after, negative, reconciliation: Reconciliation::Open }
}

fn ended(reconciliation: Reconciliation) -> Step {
    Step::Probed { after: Duration::ZERO, negative: false, reconciliation }
}

fn reconciled(state: State) -> Step {
    let kept = Kept::NotKept { status: None, why: NotKept::Reconciled };
    Step::Reconcile { state, kept, resource: None }
}

/// The attempt reports about itself, as it does after its outcome was lost.
async fn own_word(f: &Fixture, id: OperationId) -> Advanced {
    let start =
        Start { states: &[State::Processing, State::OutcomeUnknown], attempt: 1, also: Also::OrReconciled };
    f.ask_also(id, start, settle(State::Succeeded)).await
}

/// At once, with everything that a verdict is judged by.
pub async fn unknown_outcome_is_due_at_once_and_says_since_when(f: Fixture) {
    let id = f.won("k").await;
    assert_eq!(take(&f, 10).await, [], "nothing is unknown");
    f.pass(Duration::from_secs(3));
    f.done(id, RUNNING, 1, Step::LoseOutcome).await;
    let since = f.now().await;
    f.pass(Duration::from_secs(4));
    let turn = one(&f).await;
    assert_eq!(turn.record, f.record(id).await);
    assert_eq!((turn.probe, turn.unknown_since, turn.negative_since), (1, since, None));
    assert_eq!(turn.now, since.plus(Duration::from_secs(4)));
}

/// A record that waits for a reconciler is lost by its lease like one that waits for a person.
pub async fn stale_attempt_that_is_to_be_reconciled_becomes_unknown(f: Fixture) {
    let mut claim = f.claim("k");
    claim.promise = Promise { on_stale: OnStale::Reconcile, ..PROMISE };
    let id = f.won_as(claim).await;
    f.pass(LEASE);
    assert_eq!(f.store.lose_stale(10).await, Ok(1));
    assert_eq!(f.record(id).await.on_stale, OnStale::Reconcile);
    assert_eq!(one(&f).await.record.id, id);
}

/// Of many that ask at once, one gets it, and nobody until the turn is over.
pub async fn turn_is_given_to_one_and_comes_back_when_it_is_over(f: Fixture) {
    lost(&f, "k").await;
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = f.store.clone();
        let wish = TakeProbes { operations: vec!["CreateOrder".into()], limit: 10, turn: TURN };
        asking.spawn(async move { store.take_probes(wish).await.expect("the store works").len() });
    }
    let given: usize = asking.join_all().await.into_iter().sum();
    assert_eq!(given, 1);
    f.pass(TURN - Duration::from_millis(1));
    assert_eq!(take(&f, 10).await, []);
    f.pass(Duration::from_millis(1));
    assert_eq!(one(&f).await.probe, 2, "the probe of the one who died counts");
}

/// However many ask for however much at once.
pub async fn each_of_many_turns_is_given_to_one(f: Fixture) {
    const RECORDS: usize = 60;
    for key in 0..RECORDS {
        lost(&f, &format!("k-{key}")).await;
    }
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = f.store.clone();
        let wish = TakeProbes { operations: vec!["CreateOrder".into()], limit: 2, turn: TURN };
        asking.spawn(async move {
            let mut given = Vec::new();
            loop {
                let turns = store.take_probes(wish.clone()).await.expect("the store works");
                if turns.is_empty() {
                    return given;
                }
                given.extend(turns.into_iter().map(|turn| (turn.record.id, turn.probe)));
            }
        });
    }
    let mut given = asking.join_all().await.concat();
    // A store may pass over what another is just taking.
    given.extend(take(&f, 1000).await.into_iter().map(|turn| (turn.record.id, turn.probe)));
    assert_eq!(given.iter().filter(|(_, probe)| *probe == 1).count(), RECORDS);
    assert_eq!(given.len(), RECORDS, "each once");
}

/// Whatever its start allows.
pub async fn probe_of_what_is_not_unknown_is_not_noted(f: Fixture) {
    let id = f.won("k").await;
    assert!(matches!(f.ask(id, RUNNING, 1, open(1, true)).await, Advanced::Superseded(_)));
    assert!(f.record(id).await.lease.is_alive());
    f.done(id, RUNNING, 1, settle(State::Failed)).await;
    let ended = ended(Reconciliation::MayRetry);
    assert!(matches!(f.ask(id, &[State::Failed], 1, ended).await, Advanced::Superseded(_)));
    assert_eq!(f.record(id).await.reconciliation, Reconciliation::Open);
}

/// No more than asked for, of these operations alone, those due longest first.
pub async fn turns_are_bounded_and_of_the_named_operations(f: Fixture) {
    let mut ids = Vec::new();
    for key in 0..5 {
        ids.push(lost(&f, &format!("k-{key}")).await);
        f.pass(Duration::from_millis(5));
    }
    let mut other = f.claim("other");
    other.operation = "Refund".into();
    other.id = OperationId::from_bytes([3; 32]);
    let other = f.won_as(other).await;
    f.done(other, RUNNING, 1, Step::LoseOutcome).await;
    assert_eq!(take(&f, 0).await, []);
    assert_eq!(take_of(&f, &[], 10).await, []);
    let ids_of = |turns: Vec<ProbeTurn>| turns.iter().map(|turn| turn.record.id).collect::<Vec<_>>();
    assert_eq!(ids_of(take(&f, 2).await), ids[..2]);
    assert_eq!(ids_of(take(&f, 10).await), ids[2..]);
    assert_eq!(ids_of(take_of(&f, &["CreateOrder", "Refund"], 10).await), [other]);
}

/// Pace, number and first negative answer stay in the store.
pub async fn probe_that_settles_nothing_is_due_again_when_it_says(f: Fixture) {
    let id = lost(&f, "k").await;
    let since = one(&f).await.unknown_since;
    f.done(id, LOST, 1, open(50, true)).await;
    let negative = f.now().await;
    f.pass(Duration::from_secs(49));
    assert_eq!(take(&f, 10).await, []);
    f.pass(Duration::from_secs(1));
    let turn = one(&f).await;
    assert_eq!((turn.probe, turn.unknown_since, turn.negative_since), (2, since, Some(negative)));
    f.done(id, LOST, 1, open(1, true)).await;
    f.pass(Duration::from_secs(1));
    let turn = one(&f).await;
    assert_eq!((turn.probe, turn.negative_since), (3, Some(negative)), "the first negative counts");
    assert_eq!(f.record(id).await.state, State::OutcomeUnknown);
    assert_eq!(f.record(id).await.reconciliation, Reconciliation::Open);
}

/// Only an open record is probed.
pub async fn record_that_is_no_longer_open_is_not_due(f: Fixture) {
    for (key, reconciliation) in [("k-1", Reconciliation::Escalated), ("k-2", Reconciliation::MayRetry)] {
        let id = lost(&f, key).await;
        one(&f).await;
        f.done(id, LOST, 1, ended(reconciliation)).await;
        f.pass(TURN * 100);
        assert_eq!(take(&f, 10).await, [], "{reconciliation:?}");
        let record = f.record(id).await;
        assert_eq!((record.state, record.reconciliation), (State::OutcomeUnknown, reconciliation));
    }
}

/// Whoever looks at the outcome anew begins with the first probe.
pub async fn outcome_that_is_lost_again_is_probed_from_the_beginning(f: Fixture) {
    let id = lost(&f, "k").await;
    one(&f).await;
    f.done(id, LOST, 1, open(1, true)).await;
    f.done(id, LOST, 1, ended(Reconciliation::Escalated)).await;
    f.pass(Duration::from_secs(5));
    f.done(id, LOST, 1, Step::LoseOutcome).await;
    let turn = one(&f).await;
    assert_eq!(turn.record.reconciliation, Reconciliation::Open);
    assert_eq!((turn.probe, turn.negative_since, turn.unknown_since), (1, None, f.now().await));
}

/// A probe says nothing about a record that moved on, but its event is kept.
pub async fn verdict_that_comes_too_late_is_evidence_only(f: Fixture) {
    let id = lost(&f, "k").await;
    one(&f).await;
    f.done(id, LOST, 1, settle(State::Succeeded)).await;
    for step in [open(1, true), reconciled(State::Failed)] {
        let start = Start { states: LOST, attempt: 1, also: Also::Nothing };
        let word = Some(event(EventKind::DidNotHappen));
        let advance = Advance { id, start, step, event: word.clone(), if_superseded: word };
        let advanced = f.store.advance(advance).await.expect("the store works");
        assert!(matches!(advanced, Advanced::Superseded(_)), "{advanced:?}");
    }
    let record = f.record(id).await;
    assert_eq!((record.state, record.reconciliation), (State::Succeeded, Reconciliation::Open));
    let kinds: Vec<_> = f.store.events(id).await.expect("the store works").iter().map(|e| e.kind).collect();
    assert_eq!(kinds, [EventKind::DidNotHappen; 2]);
}

/// A verdict completes a record like a report, and says that it was one.
pub async fn verdict_settles_the_record_and_its_retention_begins(f: Fixture) {
    for (key, state) in [("k-1", State::Succeeded), ("k-2", State::Failed)] {
        let id = lost(&f, key).await;
        one(&f).await;
        f.done(id, LOST, 1, reconciled(state)).await;
        let (record, now) = (f.record(id).await, f.now().await);
        assert_eq!((record.state, record.reconciliation), (state, Reconciliation::Settled));
        assert_eq!(record.kept, Kept::NotKept { status: None, why: NotKept::Reconciled });
        assert_eq!((record.completed_at, record.expires_at), (Some(now), Some(now.plus(RETENTION))));
        assert_eq!(take(&f, 10).await, []);
    }
}

/// What the attempt says of itself counts more, as long as no other has begun and nobody else has settled it.
pub async fn own_success_counts_more_than_a_verdict(f: Fixture) {
    for (key, state) in [("k-1", State::Succeeded), ("k-2", State::Failed)] {
        let id = lost(&f, key).await;
        f.done(id, LOST, 1, reconciled(state)).await;
        let advanced = own_word(&f, id).await;
        assert!(matches!(advanced, Advanced::Done { .. }), "{state}: {advanced:?}");
        let record = f.record(id).await;
        assert_eq!((record.state, record.reconciliation), (State::Succeeded, Reconciliation::Open));
        assert_eq!(record.kept, Kept::Full(answer(b"{}")));
        assert!(matches!(own_word(&f, id).await, Advanced::Superseded(_)), "once");
    }
    let by_a_person = lost(&f, "k-3").await;
    f.done(by_a_person, LOST, 1, settle(State::Failed)).await;
    assert!(matches!(own_word(&f, by_a_person).await, Advanced::Superseded(_)));
    let expired = lost(&f, "k-4").await;
    f.done(expired, LOST, 1, reconciled(State::Failed)).await;
    f.pass(RETENTION);
    assert!(matches!(own_word(&f, expired).await, Advanced::Superseded(_)));
}

/// A new attempt has a history of probes of its own.
pub async fn next_attempt_forgets_what_was_found_about_the_one_before(f: Fixture) {
    let id = lost(&f, "k").await;
    one(&f).await;
    f.done(id, LOST, 1, open(1, true)).await;
    f.pass(Duration::from_secs(1));
    one(&f).await;
    f.done(id, LOST, 1, ended(Reconciliation::MayRetry)).await;
    f.done(id, LOST, 1, begin()).await;
    let record = f.record(id).await;
    let expected = (State::Processing, 2, Reconciliation::Open);
    assert_eq!((record.state, record.attempt, record.reconciliation), expected);
    assert!(matches!(own_word(&f, id).await, Advanced::Superseded(_)));
    f.done(id, RUNNING, 2, Step::LoseOutcome).await;
    let turn = one(&f).await;
    assert_eq!((turn.probe, turn.negative_since, turn.record.attempt), (1, None::<StoreTime>, 2));
}
