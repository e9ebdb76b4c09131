//! A transition happens from the state and the attempt it names, or not at all.

use onefold_core::{EventKind, OperationId, State};
use onefold_store::{Advance, Advanced, Also, Start, Step};

use crate::fixture::{Fixture, LEASE, RUNNING, begin, event, settle};

/// The fence: another attempt's number changes nothing.
pub async fn transition_from_another_attempt_changes_nothing(f: Fixture) {
    let id = f.won("k").await;
    let before = f.record(id).await;
    for step in
        [settle(State::Succeeded), Step::Renew { lease: LEASE * 9 }, Step::LoseOutcome, Step::Lapse, begin()]
    {
        for attempt in [0, 2] {
            match f.ask(id, RUNNING, attempt, step.clone()).await {
                Advanced::Superseded(read) => assert_eq!(read.record.as_ref(), Some(&before)),
                other => panic!("{step:?} of attempt {attempt}: {other:?}"),
            }
        }
    }
    assert_eq!(f.record(id).await, before);
}

/// The state: a settled record is not settled again.
pub async fn transition_from_another_state_changes_nothing(f: Fixture) {
    let id = f.settled("k", State::Succeeded).await;
    let before = f.record(id).await;
    for step in [settle(State::Failed), Step::Renew { lease: LEASE }, Step::LoseOutcome, Step::Lapse, begin()]
    {
        let advanced = f.ask(id, RUNNING, 1, step.clone()).await;
        assert!(matches!(advanced, Advanced::Superseded(_)), "{step:?}: {advanced:?}");
    }
    assert_eq!(f.record(id).await, before);
}

/// No record, no transition.
pub async fn transition_of_no_record_is_missing(f: Fixture) {
    for step in [settle(State::Succeeded), begin()] {
        assert_eq!(f.ask(OperationId::from_bytes([1; 32]), RUNNING, 1, step).await, Advanced::Missing);
    }
}

/// An event and its transition happen together.
pub async fn event_is_written_with_its_transition_and_only_then(f: Fixture) {
    let id = f.won("k").await;
    let lose = |attempt| Advance {
        id,
        start: Start { states: RUNNING, attempt, also: Also::Nothing },
        step: Step::LoseOutcome,
        event: Some(event(EventKind::Released)),
        if_superseded: None,
    };
    f.store.advance(lose(2)).await.expect("the store works");
    assert_eq!(f.store.events(id).await.expect("the store works"), []);
    f.store.advance(lose(1)).await.expect("the store works");
    let resolve = Advance {
        start: Start { states: &[State::OutcomeUnknown], ..lose(1).start },
        step: settle(State::Succeeded),
        event: Some(event(EventKind::Resolved)),
        ..lose(1)
    };
    f.store.advance(resolve).await.expect("the store works");
    let events = f.store.events(id).await.expect("the store works");
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Released, EventKind::Resolved], "in their order");
    let first = &events[0];
    assert_eq!((first.at, first.attempt), (f.now().await, 1));
    assert_eq!((&*first.who, &*first.reason, &*first.evidence), ("ada", "ticket 7", "a look-up"));
}

/// The record stays as the newer attempt made it; the evidence is kept (SEMANTICS 3, rule 3).
pub async fn late_success_of_superseded_attempt_is_kept_as_evidence(f: Fixture) {
    let id = f.won("k").await;
    f.pass(LEASE);
    f.done(id, RUNNING, 1, begin()).await;
    let before = f.record(id).await;
    let late = Advance {
        id,
        start: Start { states: RUNNING, attempt: 1, also: Also::Nothing },
        step: settle(State::Succeeded),
        event: None,
        if_superseded: Some(event(EventKind::LateSuccess)),
    };
    let advanced = f.store.advance(late).await.expect("the store works");
    assert!(matches!(advanced, Advanced::Superseded(_)), "{advanced:?}");
    assert_eq!(f.record(id).await, before);
    let events = f.store.events(id).await.expect("the store works");
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].kind, events[0].attempt), (EventKind::LateSuccess, 1));
}

/// Nobody else has begun: its word settles what was lost.
pub async fn attempt_that_holds_the_number_settles_an_unknown_outcome(f: Fixture) {
    let id = f.won("k").await;
    f.done(id, RUNNING, 1, Step::LoseOutcome).await;
    assert_eq!(f.record(id).await.state, State::OutcomeUnknown);
    f.done(id, &[State::Processing, State::OutcomeUnknown], 1, settle(State::Succeeded)).await;
    let record = f.record(id).await;
    assert_eq!((record.state, record.attempt), (State::Succeeded, 1));
    assert!(record.completed_at.is_some());
}

/// Of 16 that begin from one failure one is done.
pub async fn one_of_many_transitions_from_one_start_is_done(f: Fixture) {
    let id = f.settled("k", State::Failed).await;
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let store = f.store.clone();
        asked.spawn(async move {
            let start = Start { states: &[State::Failed], attempt: 1, also: Also::Nothing };
            let advance = Advance { id, start, step: begin(), event: None, if_superseded: None };
            store.advance(advance).await.expect("the store works")
        });
    }
    let done = asked.join_all().await.into_iter().filter(|a| matches!(a, Advanced::Done { .. })).count();
    assert_eq!(done, 1);
    assert_eq!(f.record(id).await.attempt, 2);
}
