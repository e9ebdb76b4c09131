//! Record and business rows are committed together or not at all.

use std::time::Duration;

use onefold_core::{Counters, Lease, Reconciliation, Record, State};
use onefold_store::{Advance, Also, AtomicStore, Atomically, Ended, Entry, Finish, Start, StepStore};

use crate::fixture::{RETENTION, START, begin, fingerprint};
use crate::library::{Library, Script, rejection, success, value};

const FREE: &[State] = &[State::Failed];
const FINISHED: &[State] = &[State::Succeeded, State::Rejected];

fn does() -> Script {
    Script::new("row", |_| success())
}

fn next<S: AtomicStore + StepStore>(f: &Library<S>, states: &'static [State], also: Also) -> Entry {
    let start = Start { states, attempt: 1, also };
    Entry::Next(Box::new(Advance { id: f.id("k"), start, step: begin(), event: None, if_superseded: None }))
}

/// Both are there, and the record is finished.
pub async fn record_and_row_are_committed_together<S: AtomicStore + StepStore>(f: Library<S>) {
    let done = f.enter_new("k", &does()).await;
    let Atomically::Committed { attempt, finish, kept, .. } = done else { panic!("{done:?}") };
    assert_eq!((attempt, finish, kept), (1, Finish::Succeeded, value("5001")));
    assert_eq!(f.rows().await, ["row"]);
    let record = f.record(f.id("k")).await;
    assert_eq!((record.state, record.kept, record.lease), (State::Succeeded, value("5001"), Lease::None));
}

/// Nothing that the entry and the work say is lost or changed.
pub async fn record_keeps_everything_it_was_given<S: AtomicStore + StepStore>(f: Library<S>) {
    let claim = f.claim("k");
    let expected = Record {
        id: claim.id,
        scope: claim.scope.clone(),
        operation: claim.operation.clone(),
        key: Some(claim.key.clone()),
        correlation_id: claim.correlation_id.clone(),
        fingerprint: Some(claim.fingerprint),
        ignored: claim.ignored.clone(),
        state: State::Succeeded,
        attempt: 1,
        owner: claim.owner.clone(),
        lease: Lease::None,
        on_stale: claim.promise.on_stale,
        resource: match success() {
            Ended::Finished { resource, .. } => resource,
            _ => None,
        },
        kept: value("5001"),
        created_at: START,
        begun_at: Some(START),
        completed_at: Some(START),
        expires_at: Some(START.plus(RETENTION)),
        counters: Counters::default(),
        reconciliation: Reconciliation::default(),
    };
    f.enter_new("k", &does()).await;
    assert_eq!(f.record(f.id("k")).await, expected);
}

/// The writes are undone, the rejection and its value stay.
pub async fn rejection_is_recorded_without_its_writes<S: AtomicStore + StepStore>(f: Library<S>) {
    let done = f.enter_new("k", &Script::new("row", |_| rejection())).await;
    assert!(matches!(done, Atomically::Committed { finish: Finish::Rejected, .. }), "{done:?}");
    assert!(f.rows().await.is_empty());
    let record = f.record(f.id("k")).await;
    assert_eq!((record.state, record.kept), (State::Rejected, value("\"no stock\"")));
}

/// Neither row nor record, and the key is free for any request.
pub async fn work_that_did_nothing_leaves_nothing<S: AtomicStore + StepStore>(f: Library<S>) {
    assert_eq!(f.enter_new("k", &Script::new("row", |_| Ended::NotDone)).await, Atomically::NotDone);
    assert!(f.rows().await.is_empty());
    assert_eq!(f.store.read(f.id("k")).await.expect("the store works").record, None);
    assert!(matches!(f.enter_new("k", &does()).await, Atomically::Committed { attempt: 1, .. }));
}

/// A panic is undone like any other end that is not done, and harms nobody else.
pub async fn work_that_panics_leaves_nothing<S: AtomicStore + StepStore>(f: Library<S>) {
    let done = f.enter_new("k", &Script::new("row", |_| panic!("a bug of the business"))).await;
    assert!(matches!(done, Atomically::Stopped(_)), "{done:?}");
    assert!(f.rows().await.is_empty());
    assert_eq!(f.store.read(f.id("k")).await.expect("the store works").record, None);
    assert!(matches!(f.enter_new("k", &does()).await, Atomically::Committed { .. }));
}

/// The same work may be handed in again.
pub async fn contended_work_leaves_nothing_and_may_run_again<S: AtomicStore + StepStore>(f: Library<S>) {
    let script = Script::new("row", |run| if run == 0 { Ended::Again("busy".into()) } else { success() });
    assert!(matches!(f.enter_new("k", &script).await, Atomically::Contended(_)));
    assert!(f.rows().await.is_empty());
    assert!(matches!(f.enter_new("k", &script).await, Atomically::Committed { .. }));
    assert_eq!((script.runs(), f.rows().await), (2, vec!["row".to_owned()]));
}

/// Whatever state it is in.
pub async fn record_that_stands_keeps_the_work_from_running<S: AtomicStore + StepStore>(f: Library<S>) {
    f.won("running").await;
    f.enter_new("done", &does()).await;
    for key in ["running", "done"] {
        let script = Script::new("second", |_| success());
        let Atomically::Found(read) = f.enter_new(key, &script).await else { panic!("{key} stands") };
        assert_eq!(read.record, Some(f.record(f.id(key)).await));
        assert_eq!(script.runs(), 0);
    }
    assert_eq!(f.rows().await, ["row"]);
}

/// The unique digest is the judge.
pub async fn one_of_many_works_under_one_key_is_done<S: AtomicStore + StepStore>(f: Library<S>) {
    let script = does();
    let entered = (0..24).map(|_| f.enter_new("k", &script));
    let mut committed = 0;
    for ended in together(entered).await {
        match ended {
            Atomically::Committed { .. } => committed += 1,
            Atomically::Found(read) => assert!(read.record.is_some()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((committed, script.runs(), f.rows().await.len()), (1, 1, 1));
}

/// Those behind it must not conclude that it is done.
pub async fn rollback_of_the_winner_lets_the_next_one_in<S: AtomicStore + StepStore>(f: Library<S>) {
    let script = Script::new("row", |run| if run < 3 { Ended::NotDone } else { success() });
    let entered = (0..8).map(|_| f.enter_new("k", &script));
    let ended = together(entered).await;
    let count = |wanted: fn(&Atomically) -> bool| ended.iter().filter(|ended| wanted(ended)).count();
    assert_eq!(count(|ended| *ended == Atomically::NotDone), 3);
    assert_eq!(count(|ended| matches!(ended, Atomically::Committed { .. })), 1);
    assert_eq!((script.runs(), f.rows().await.len()), (4, 1));
}

/// The next attempt, in one commit; another request may take a free key.
pub async fn free_record_is_begun_and_finished_at_once<S: AtomicStore + StepStore>(f: Library<S>) {
    f.settled("k", State::Failed).await;
    let undone = f.enter(next(&f, FREE, Also::Nothing), &Script::new("row", |_| Ended::NotDone)).await;
    assert_eq!(undone, Atomically::NotDone);
    let record = f.record(f.id("k")).await;
    assert_eq!((record.state, record.attempt), (State::Failed, 1), "it is as free as before");
    let done = f.enter(next(&f, FREE, Also::Nothing), &does()).await;
    assert!(matches!(done, Atomically::Committed { attempt: 2, .. }), "{done:?}");
    let record = f.record(f.id("k")).await;
    assert_eq!((record.state, record.attempt), (State::Succeeded, 2));
    assert_eq!(record.fingerprint, Some(fingerprint("second")));
    assert_eq!(f.rows().await, ["row"]);
}

/// The attempt goes on, so that it stays a fence.
pub async fn expired_record_begins_anew_and_its_attempt_goes_on<S: AtomicStore + StepStore>(f: Library<S>) {
    f.enter_new("k", &Script::new("first", |_| success())).await;
    f.pass(RETENTION);
    let done = f.enter(next(&f, FINISHED, Also::Expired), &does()).await;
    assert!(matches!(done, Atomically::Committed { attempt: 2, .. }), "{done:?}");
    let record = f.record(f.id("k")).await;
    assert_eq!((record.state, record.created_at), (State::Succeeded, START.plus(RETENTION)));
    assert_eq!(f.rows().await, ["first", "row"]);
}

/// A transition from what is not there any more, or not yet.
pub async fn next_from_another_start_does_not_run<S: AtomicStore + StepStore>(f: Library<S>) {
    let script = does();
    let missing = f.enter(next(&f, FREE, Also::Nothing), &script).await;
    assert!(matches!(missing, Atomically::Found(read) if read.record.is_none()));
    f.settled("k", State::Succeeded).await;
    for entry in [next(&f, FREE, Also::Nothing), next(&f, FINISHED, Also::Expired)] {
        let found = f.enter(entry, &script).await;
        assert!(matches!(found, Atomically::Found(read) if read.record.is_some()));
    }
    assert_eq!((script.runs(), f.rows().await.len()), (0, 0));
}

/// The store's own time judges.
pub async fn key_that_is_too_old_does_not_run<S: AtomicStore + StepStore>(f: Library<S>) {
    let script = does();
    let mut claim = f.claim("k");
    claim.key_expires_at = Some(START);
    let ended = f.enter(Entry::New(Box::new(claim)), &script).await;
    assert_eq!((ended, script.runs()), (Atomically::KeyTooOld { now: START }, 0));
}

/// Only records take places.
pub async fn quota_is_held_and_a_work_that_did_nothing_takes_no_place<S: AtomicStore + StepStore>(
    f: Library<S>,
) {
    let limited = |key: &str| {
        let mut claim = f.claim(key);
        claim.live_keys_max = Some(1);
        Entry::New(Box::new(claim))
    };
    f.enter(limited("nothing"), &Script::new("row", |_| Ended::NotDone)).await;
    let done = f.enter(limited("one"), &does()).await;
    assert!(matches!(done, Atomically::Committed { .. }), "{done:?}");
    let script = does();
    assert_eq!(f.enter(limited("two"), &script).await, Atomically::QuotaReached);
    assert!(
        matches!(f.enter(limited("one"), &script).await, Atomically::Found(_)),
        "a known key is not refused"
    );
    assert_eq!(script.runs(), 0);
}

/// As with any other completion.
pub async fn retention_begins_at_the_commit<S: AtomicStore + StepStore>(f: Library<S>) {
    f.pass(Duration::from_secs(5));
    f.enter_new("k", &does()).await;
    let now = START.plus(Duration::from_secs(5));
    assert_eq!(f.record(f.id("k")).await.expires_at, Some(now.plus(RETENTION)));
    f.pass(RETENTION);
    assert_eq!(f.store.sweep(10).await.expect("the store works").tombstones, 1);
}

/// All of them at once, in one task: the store sees them together.
pub(super) async fn together<A>(all: impl IntoIterator<Item = impl Future<Output = A>>) -> Vec<A> {
    let mut all: Vec<_> = all.into_iter().map(|one| (Box::pin(one), None)).collect();
    std::future::poll_fn(|context| {
        let mut ready = true;
        for (one, answer) in &mut all {
            if answer.is_none() {
                match one.as_mut().poll(context) {
                    std::task::Poll::Ready(done) => *answer = Some(done),
                    std::task::Poll::Pending => ready = false,
                }
            }
        }
        if ready { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    all.into_iter().filter_map(|(_, answer)| answer).collect()
}
