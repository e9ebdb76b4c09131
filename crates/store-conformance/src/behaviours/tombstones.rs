//! What the sweeper leaves, and when it deletes it.

use std::time::Duration;

use onefold_core::{EventKind, Kept, Resource, Scope, State};
use onefold_store::{Advance, Also, Promise, Start, Step, Swept};

use crate::fixture::{Fixture, PROMISE, RETENTION, RUNNING, TOMBSTONE, answer, event};

async fn settle_with_history(f: &Fixture, key: &str) -> onefold_core::OperationId {
    let id = f.won(key).await;
    let resource = Some(Resource { kind: "location".into(), id: "/orders/1".into() });
    let settle = Advance {
        id,
        start: Start { states: RUNNING, attempt: 1, also: Also::Nothing },
        step: Step::Settle { state: State::Succeeded, kept: Kept::Full(answer(b"payload")), resource },
        event: Some(event(EventKind::Resolved)),
        if_superseded: None,
    };
    f.store.advance(settle).await.expect("the store works");
    id
}

async fn sweep(f: &Fixture, limit: u32) -> Swept {
    f.store.sweep(limit).await.expect("the store works")
}

/// The digest, the operation's name, state and times stay; everything of the caller, of the request and of the
/// result goes.
pub async fn sweep_leaves_a_tombstone_without_payload(f: Fixture) {
    let id = settle_with_history(&f, "k").await;
    let before = f.record(id).await;
    assert!(before.resource.is_some());
    f.pass(RETENTION);
    assert_eq!(sweep(&f, 1000).await, Swept { tombstones: 1, deleted: 0 });
    let after = f.record(id).await;
    assert_eq!((after.kept, after.resource), (Kept::Nothing, None));
    assert_eq!((after.fingerprint, after.ignored, after.correlation_id), (None, Vec::new(), None));
    assert_eq!((after.state, after.attempt), (before.state, before.attempt));
    assert_eq!((after.created_at, after.completed_at), (before.created_at, before.completed_at));
    assert_eq!(after.expires_at, before.expires_at, "what is expired stays expired");
    assert_eq!((after.id, after.operation), (before.id, before.operation));
    assert_eq!((after.key, after.scope, after.owner), (None, Scope::shared(), String::new()));
    assert_eq!(sweep(&f, 1000).await, Swept::default(), "once");
}

/// The history outlives the payload and goes with the record.
pub async fn tombstone_keeps_its_history_until_it_is_deleted(f: Fixture) {
    let id = settle_with_history(&f, "k").await;
    f.pass(RETENTION);
    sweep(&f, 1000).await;
    assert_eq!(f.store.events(id).await.expect("the store works").len(), 1);
    f.pass(TOMBSTONE - Duration::from_millis(1));
    assert_eq!(sweep(&f, 1000).await, Swept::default());
    f.pass(Duration::from_millis(1));
    assert_eq!(sweep(&f, 1000).await, Swept { tombstones: 0, deleted: 1 });
    assert_eq!(f.store.read(id).await.expect("the store works").record, None);
    assert_eq!(f.store.events(id).await.expect("the store works"), []);
    f.won("k").await;
    assert_eq!(f.store.events(id).await.expect("the store works"), [], "the key is new");
}

/// No tombstone was promised: the record goes when it expires.
pub async fn tombstone_of_no_length_is_deleted_at_once(f: Fixture) {
    let mut claim = f.claim("k");
    claim.promise = Promise { tombstone: Duration::ZERO, ..PROMISE };
    let id = f.won_as(claim).await;
    f.done(id, RUNNING, 1, crate::fixture::settle(State::Failed)).await;
    f.pass(RETENTION);
    assert_eq!(sweep(&f, 1000).await, Swept { tombstones: 0, deleted: 1 });
    assert_eq!(f.store.read(id).await.expect("the store works").record, None);
}

/// A sweep does what it is allowed to and the next one goes on.
pub async fn sweep_is_bounded_and_comes_to_an_end(f: Fixture) {
    for key in 0..250 {
        f.settled(&format!("k-{key}"), State::Succeeded).await;
    }
    f.pass(RETENTION);
    assert_eq!(sweep(&f, 0).await, Swept::default());
    assert_eq!(sweep(&f, 7).await, Swept { tombstones: 7, deleted: 0 });
    assert_eq!(sweep(&f, 1000).await, Swept { tombstones: 243, deleted: 0 });
    f.pass(TOMBSTONE);
    assert_eq!(sweep(&f, 120).await, Swept { tombstones: 0, deleted: 120 });
    assert_eq!(sweep(&f, 1000).await, Swept { tombstones: 0, deleted: 130 });
    assert_eq!(sweep(&f, 1000).await, Swept::default());
}

/// What still answers is not touched.
pub async fn sweep_touches_nothing_before_its_time(f: Fixture) {
    let id = settle_with_history(&f, "k").await;
    let before = f.record(id).await;
    f.pass(RETENTION - Duration::from_millis(1));
    assert_eq!(sweep(&f, 1000).await, Swept::default());
    assert_eq!(f.record(id).await, before);
}
