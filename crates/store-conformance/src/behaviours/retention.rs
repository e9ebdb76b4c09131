//! Retention is for the finished; expiry is a matter of time, not of the sweeper.

use std::time::Duration;

use onefold_core::contract::Retention;
use onefold_core::{Counters, EventKind, Kept, Key, Lease, State};
use onefold_store::{Advance, Advanced, Also, Claimed, Promise, Start, Step};

use crate::fixture::{
    Fixture, LEASE, PROMISE, RETENTION, RUNNING, TOMBSTONE, begin, event, fingerprint, settle,
};

const EXPIRED: Start = Start { states: &[State::Succeeded], attempt: 1, also: Also::Expired };

/// What runs or is unknown has no end, however long it takes.
pub async fn only_terminal_records_expire(f: Fixture) {
    let running = f.won("running").await;
    let unknown = f.won("unknown").await;
    f.done(unknown, RUNNING, 1, Step::LoseOutcome).await;
    f.pass(RETENTION * 100);
    f.store.sweep(1000).await.expect("the store works");
    for id in [running, unknown] {
        let record = f.record(id).await;
        assert_eq!(record.expires_at, None);
        assert!(!record.is_expired(f.now().await));
    }
}

/// The answer of settling, the record and the clock agree on the end.
pub async fn retention_begins_at_completion(f: Fixture) {
    let id = f.won("k").await;
    f.pass(Duration::from_secs(20));
    let now = f.now().await;
    let end = Some(now.plus(RETENTION));
    assert_eq!(f.ask(id, RUNNING, 1, settle(State::Rejected)).await, Advanced::Done { now, expires_at: end });
    let record = f.record(id).await;
    assert_eq!((record.completed_at, record.expires_at), (Some(now), end));
    f.pass(RETENTION - Duration::from_millis(1));
    assert!(!f.record(id).await.is_expired(f.now().await));
    f.pass(Duration::from_millis(1));
    assert!(f.record(id).await.is_expired(f.now().await));
}

/// A business key is kept for good, and absurdly long is not an overflow.
pub async fn record_for_good_never_expires(f: Fixture) {
    for (key, retention) in [("forever", Retention::Forever), ("long", Retention::For(Duration::MAX))] {
        let mut claim = f.claim(key);
        claim.promise = Promise { retention, tombstone: Duration::MAX, ..PROMISE };
        let id = f.won_as(claim).await;
        f.done(id, RUNNING, 1, settle(State::Succeeded)).await;
        f.pass(RETENTION * 100_000);
        assert_eq!(f.store.sweep(1000).await.expect("the store works"), Default::default());
        assert!(!f.record(id).await.is_expired(f.now().await), "{key}");
        let start = Start { states: &[State::Succeeded], attempt: 1, also: Also::Expired };
        let advanced = f.ask_also(id, start, begin()).await;
        assert!(matches!(advanced, Advanced::Superseded(_)), "{key}: {advanced:?}");
    }
}

/// Each attempt brings its contract's promise.
pub async fn retention_is_that_of_the_latest_attempt(f: Fixture) {
    let id = f.settled("k", State::Failed).await;
    let mut step = begin();
    let Step::Begin { promise, .. } = &mut step else { unreachable!("it begins") };
    promise.retention = Retention::Forever;
    f.done(id, &[State::Failed], 1, step).await;
    f.done(id, RUNNING, 2, settle(State::Succeeded)).await;
    assert_eq!(f.record(id).await.expires_at, None);
}

/// Nobody needs to have swept.
pub async fn expiry_is_decided_by_time_without_a_sweep(f: Fixture) {
    let id = f.settled("k", State::Succeeded).await;
    f.pass(RETENTION);
    let Claimed::Exists(read) = f.store.claim(f.claim("k")).await.expect("the store works") else {
        panic!("the record still stands")
    };
    assert!(read.record.expect("the record is there").is_expired(read.now));
    assert!(matches!(f.ask_also(id, EXPIRED, begin()).await, Advanced::Done { .. }));
}

/// A record that still answers cannot be replaced.
pub async fn begin_from_expired_needs_the_retention_to_be_over(f: Fixture) {
    let id = f.settled("k", State::Succeeded).await;
    f.pass(RETENTION - Duration::from_millis(1));
    assert!(matches!(f.ask_also(id, EXPIRED, begin()).await, Advanced::Superseded(_)));
    assert_eq!(f.record(id).await.state, State::Succeeded);
}

/// Everything is new but the number, which stays a fence against the attempt of old.
pub async fn expired_record_begins_anew_and_its_attempt_goes_on(f: Fixture) {
    let id = f.won("k").await;
    f.store
        .count(vec![(id, Counters { duplicates: 3, conflicts: 2, replays: 1 })])
        .await
        .expect("the store works");
    let settled = Advance {
        id,
        start: Start { states: RUNNING, attempt: 1, also: Also::Nothing },
        step: settle(State::Succeeded),
        event: Some(event(EventKind::Resolved)),
        if_superseded: None,
    };
    f.store.advance(settled).await.expect("the store works");
    f.pass(RETENTION);
    let now = f.now().await;
    let begun = f.ask_also(id, EXPIRED, begin()).await;
    assert_eq!(begun, Advanced::Done { now, expires_at: None });
    let record = f.record(id).await;
    assert_eq!((record.state, record.attempt), (State::Processing, 2));
    assert_eq!((record.created_at, record.begun_at, record.completed_at), (now, Some(now), None));
    assert_eq!(record.counters, Counters::default());
    assert_eq!((record.kept, record.expires_at), (Kept::Nothing, None));
    assert_eq!(record.fingerprint, Some(fingerprint("second")));
    assert_eq!(f.store.events(id).await.expect("the store works"), [], "the history is the new operation's");
    let late = f.ask(id, RUNNING, 1, settle(State::Succeeded)).await;
    assert!(matches!(late, Advanced::Superseded(_)), "{late:?}");
}

/// A tombstone begins anew under its identity, and knows again whose key it is.
pub async fn tombstone_begins_anew(f: Fixture) {
    let id = f.settled("k", State::Succeeded).await;
    f.pass(RETENTION);
    assert_eq!(f.store.sweep(1000).await.expect("the store works").tombstones, 1);
    assert!(matches!(f.ask_also(id, EXPIRED, begin()).await, Advanced::Done { .. }));
    let record = f.record(id).await;
    assert_eq!((record.key.as_ref().map(Key::as_str), record.attempt), (Some("k"), 2));
    assert_eq!((record.scope, record.lease), (f.claim("k").scope, Lease::Alive(LEASE)));
    f.pass(RETENTION + TOMBSTONE);
    assert_eq!(f.store.sweep(1000).await.expect("the store works"), Default::default(), "it runs");
    assert_eq!(f.record(id).await.state, State::Processing);
}
