//! A record that an attempt or a verdict settles, and the rows beside it: both or neither.

use onefold_core::{EventKind, Lease, Reconciliation, State};
use onefold_store::{Advance, Also, AtomicStore, Atomically, Ended, Entry, Finish, Start, Step, StepStore};

use super::atomic::together;
use crate::fixture::{LEASE, RETENTION, RUNNING, begin, event, settle};
use crate::library::{Library, Script, success, value};

const LOST: &[State] = &[State::OutcomeUnknown];

fn by(step: Step, start: Start, id: onefold_core::OperationId) -> Entry {
    let word = Some(event(EventKind::Happened));
    Entry::Settle(Box::new(Advance { id, start, step, event: word.clone(), if_superseded: word }))
}

fn own_word<S: AtomicStore + StepStore>(f: &Library<S>, attempt: u32) -> Entry {
    let step = Step::Settle { state: State::Succeeded, kept: value("7"), resource: None };
    by(step, Start { states: RUNNING, attempt, also: Also::Nothing }, f.id("k"))
}

fn verdict<S: AtomicStore + StepStore>(f: &Library<S>) -> Entry {
    let step = Step::Reconcile { state: State::Succeeded, kept: value("8"), resource: None };
    by(step, Start { states: LOST, attempt: 1, also: Also::Nothing }, f.id("k"))
}

fn writes() -> Script {
    Script::new("row", |_| Ended::Finished { finish: Finish::Succeeded, kept: value("0"), resource: None })
}

async fn kinds<S: AtomicStore + StepStore>(f: &Library<S>) -> Vec<EventKind> {
    let events = f.store.events(f.id("k")).await.expect("the store works");
    events.iter().map(|event| event.kind).collect()
}

/// The result is the transition's, and the rows are the work's.
pub async fn outcome_and_rows_are_committed_together<S: AtomicStore + StepStore>(f: Library<S>) {
    f.won("k").await;
    let done = f.enter(own_word(&f, 1), &writes()).await;
    let Atomically::Committed { now, attempt, expires_at, .. } = done else { panic!("{done:?}") };
    assert_eq!((attempt, expires_at), (1, Some(now.plus(RETENTION))));
    assert_eq!(f.rows().await, ["row"]);
    let record = f.record(f.id("k")).await;
    assert_eq!((record.state, record.kept, record.lease), (State::Succeeded, value("7"), Lease::None));
    assert_eq!(kinds(&f).await, [EventKind::Happened]);
}

/// A refusal has rows too.
pub async fn rejection_keeps_the_rows_beside_it<S: AtomicStore + StepStore>(f: Library<S>) {
    f.won("k").await;
    let step = Step::Settle { state: State::Rejected, kept: value("7"), resource: None };
    let entry = by(step, Start { states: RUNNING, attempt: 1, also: Also::Nothing }, f.id("k"));
    assert!(matches!(f.enter(entry, &writes()).await, Atomically::Committed { .. }));
    assert_eq!((f.record(f.id("k")).await.state, f.rows().await), (State::Rejected, vec!["row".to_owned()]));
}

/// A work that fails, panics or is contended keeps the record from being settled.
pub async fn work_that_fails_leaves_the_record_as_it_was<S: AtomicStore + StepStore>(f: Library<S>) {
    f.won("k").await;
    let before = f.record(f.id("k")).await;
    let script = Script::new("row", |run| match run {
        0 => Ended::NotDone,
        1 => Ended::Again("busy".into()),
        2 => panic!("a bug of the business"),
        _ => success(),
    });
    assert_eq!(f.enter(own_word(&f, 1), &script).await, Atomically::NotDone);
    assert!(matches!(f.enter(own_word(&f, 1), &script).await, Atomically::Contended(_)));
    assert!(matches!(f.enter(own_word(&f, 1), &script).await, Atomically::Stopped(_)));
    assert!(f.rows().await.is_empty());
    assert_eq!(f.record(f.id("k")).await, before);
    assert!(kinds(&f).await.is_empty());
    assert!(matches!(f.enter(own_word(&f, 1), &script).await, Atomically::Committed { .. }));
    assert_eq!(f.rows().await, ["row"]);
}

/// Neither the work runs nor evidence is written.
pub async fn work_does_not_run_where_another_has_settled_it<S: AtomicStore + StepStore>(f: Library<S>) {
    let id = f.won("k").await;
    f.pass(LEASE);
    f.ask_also(id, Start { states: RUNNING, attempt: 1, also: Also::LeaseOver }, begin()).await;
    let script = writes();
    let Atomically::Found(read) = f.enter(own_word(&f, 1), &script).await else { panic!("superseded") };
    assert_eq!(read.record.map(|record| record.attempt), Some(2));
    f.done(id, RUNNING, 2, settle(State::Succeeded)).await;
    assert!(matches!(f.enter(own_word(&f, 2), &script).await, Atomically::Found(_)));
    assert!(matches!(f.enter(verdict(&f), &script).await, Atomically::Found(_)));
    assert_eq!((script.runs(), f.rows().await.len(), kinds(&f).await.len()), (0, 0, 0));
}

/// A verdict settles with rows like a report.
pub async fn verdict_and_rows_are_committed_together<S: AtomicStore + StepStore>(f: Library<S>) {
    let id = f.won("k").await;
    f.done(id, RUNNING, 1, Step::LoseOutcome).await;
    assert!(matches!(f.enter(verdict(&f), &writes()).await, Atomically::Committed { .. }));
    let record = f.record(id).await;
    assert_eq!((record.state, record.kept), (State::Succeeded, value("8")));
    assert_eq!(record.reconciliation, Reconciliation::Settled);
    assert_eq!((f.rows().await, kinds(&f).await), (vec!["row".to_owned()], vec![EventKind::Happened]));
}

/// Of two that settle one record at the same time, one has rows.
pub async fn one_of_many_that_settle_it_is_done<S: AtomicStore + StepStore>(f: Library<S>) {
    let id = f.won("k").await;
    f.done(id, RUNNING, 1, Step::LoseOutcome).await;
    let scripts: Vec<Script> = (0..8).map(|n| Script::new(&format!("row {n}"), |_| success())).collect();
    let entered = scripts.iter().map(|script| f.enter(verdict(&f), script));
    let mut committed = 0;
    for ended in together(entered).await {
        match ended {
            Atomically::Committed { .. } => committed += 1,
            Atomically::Found(_) | Atomically::Contended(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((committed, f.rows().await.len()), (1, 1));
}

/// That a service writes rows of its own with an operation's outcome is known to everybody who opens the store.
pub async fn companion_is_noted_once_and_for_its_operation<S: AtomicStore + StepStore>(f: Library<S>) {
    let odd = "Capture\0, \"é\"";
    assert!(!f.store.has_companion(odd).await.expect("the store works"));
    for _ in 0..2 {
        f.store.note_companion(odd).await.expect("the store works");
    }
    assert!(f.store.has_companion(odd).await.expect("the store works"));
    assert!(!f.store.has_companion("Capture").await.expect("the store works"));
}
