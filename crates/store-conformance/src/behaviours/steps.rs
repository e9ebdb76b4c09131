//! Steps are kept under the fence of their attempt, and no longer than their record.

use onefold_core::State;
use onefold_store::{Also, AtomicStore, FinishedStep, Start, Step, StepPut, StepStore};

use crate::fixture::{LEASE, RETENTION, RUNNING, begin, settle};
use crate::library::{Library, value};

async fn put<S: AtomicStore + StepStore>(f: &Library<S>, attempt: u32, name: &str, json: &str) -> StepPut {
    f.atomic.put_step(f.id("k"), attempt, name.into(), value(json)).await.expect("the store works")
}

async fn steps<S: AtomicStore + StepStore>(f: &Library<S>) -> Vec<FinishedStep> {
    f.atomic.steps(f.id("k")).await.expect("the store works")
}

fn step(name: &str, attempt: u32, json: &str) -> FinishedStep {
    FinishedStep { name: name.into(), attempt, kept: value(json) }
}

/// With their values, empty ones included.
pub async fn results_come_back_in_their_order<S: AtomicStore + StepStore>(f: Library<S>) {
    assert!(steps(&f).await.is_empty(), "there is no record");
    f.won("k").await;
    for (name, json) in [("reserve", "null"), ("capture", "\"\""), ("announce", "[]")] {
        assert_eq!(put(&f, 1, name, json).await, StepPut::Done);
    }
    let expected = [step("reserve", 1, "null"), step("capture", 1, "\"\""), step("announce", 1, "[]")];
    assert_eq!(steps(&f).await, expected);
}

/// The older attempt stops at its first lost write.
pub async fn step_of_a_superseded_attempt_is_not_written<S: AtomicStore + StepStore>(f: Library<S>) {
    let id = f.won("k").await;
    f.pass(LEASE);
    let start = Start { states: RUNNING, attempt: 1, also: Also::LeaseOver };
    f.ask_also(id, start, begin()).await;
    let StepPut::Superseded(read) = put(&f, 1, "capture", "1").await else { panic!("it is superseded") };
    assert_eq!(read.record.map(|record| record.attempt), Some(2));
    assert!(steps(&f).await.is_empty());
    assert_eq!(put(&f, 2, "capture", "2").await, StepPut::Done);
}

/// A person may have settled it.
pub async fn step_of_a_settled_record_is_not_written<S: AtomicStore + StepStore>(f: Library<S>) {
    assert!(matches!(put(&f, 1, "capture", "1").await, StepPut::Superseded(read) if read.record.is_none()));
    f.settled("k", State::Succeeded).await;
    assert!(matches!(put(&f, 1, "capture", "1").await, StepPut::Superseded(_)));
    assert!(steps(&f).await.is_empty());
}

/// The first result stays.
pub async fn step_is_finished_once<S: AtomicStore + StepStore>(f: Library<S>) {
    f.won("k").await;
    put(&f, 1, "capture", "1").await;
    assert_eq!(put(&f, 1, "capture", "2").await, StepPut::Exists(Box::new(step("capture", 1, "1"))));
    assert_eq!(steps(&f).await, [step("capture", 1, "1")]);
}

/// The next attempt finds them; the tombstone has none.
pub async fn steps_outlive_the_attempt_and_not_the_record<S: AtomicStore + StepStore>(f: Library<S>) {
    let id = f.won("k").await;
    put(&f, 1, "capture", "1").await;
    f.pass(LEASE);
    f.ask_also(id, Start { states: RUNNING, attempt: 1, also: Also::LeaseOver }, begin()).await;
    assert_eq!(steps(&f).await, [step("capture", 1, "1")]);
    f.done(id, RUNNING, 2, settle(State::Succeeded)).await;
    assert_eq!(steps(&f).await.len(), 1, "they are evidence for as long as the record answers");
    f.pass(RETENTION);
    f.store.sweep(10).await.expect("the store works");
    assert!(steps(&f).await.is_empty());
}

/// A free key may be taken by another request, and what was finished before is none of its steps.
pub async fn steps_before_a_free_key_are_forgotten<S: AtomicStore + StepStore>(f: Library<S>) {
    let id = f.won("k").await;
    put(&f, 1, "capture", "1").await;
    f.done(id, RUNNING, 1, settle(State::Failed)).await;
    f.done(id, &[State::Failed], 1, begin()).await;
    assert!(steps(&f).await.is_empty());
    f.done(id, RUNNING, 2, Step::Renew { lease: LEASE }).await;
}
