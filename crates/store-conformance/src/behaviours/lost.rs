//! An attempt whose lease ended without an outcome.

use std::time::Duration;

use onefold_core::contract::OnStale;
use onefold_core::{EventKind, Lease, State};
use onefold_store::{Promise, Step};

use crate::fixture::{Fixture, LEASE, PROMISE, RUNNING};

async fn lose(f: &Fixture, limit: u32) -> u64 {
    f.store.lose_stale(limit).await.expect("the store works")
}

/// It becomes visible, with the reason, and the attempt stays what it was.
pub async fn stale_attempt_becomes_an_unknown_outcome_with_an_event(f: Fixture) {
    let id = f.won("k").await;
    f.pass(LEASE);
    assert_eq!(lose(&f, 100).await, 1);
    let record = f.record(id).await;
    assert_eq!((record.state, record.attempt, record.lease), (State::OutcomeUnknown, 1, Lease::None));
    let events = f.store.events(id).await.expect("the store works");
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].kind, events[0].attempt, events[0].at), (EventKind::Unknown, 1, f.now().await));
    assert_eq!(events[0].reason, "the lease ended without an outcome");
    assert_eq!(lose(&f, 100).await, 0, "once");
}

/// The next request takes it over; nobody marks it.
pub async fn stale_attempt_that_may_resume_is_left_alone(f: Fixture) {
    let mut claim = f.claim("k");
    claim.promise = Promise { on_stale: OnStale::Resume, ..PROMISE };
    let id = f.won_as(claim).await;
    f.pass(LEASE * 10);
    assert_eq!(lose(&f, 100).await, 0);
    let record = f.record(id).await;
    assert_eq!(
        (record.state, record.lease, record.on_stale),
        (State::Processing, Lease::Over, OnStale::Resume)
    );
}

/// A renewed lease is alive.
pub async fn living_attempt_is_left_alone(f: Fixture) {
    let id = f.won("k").await;
    f.pass(LEASE - Duration::from_secs(1));
    f.done(id, RUNNING, 1, Step::Renew { lease: LEASE }).await;
    f.pass(LEASE - Duration::from_millis(1));
    assert_eq!(lose(&f, 100).await, 0);
    assert_eq!(f.record(id).await.state, State::Processing);
}

/// As many as allowed, then the rest.
pub async fn marking_is_bounded(f: Fixture) {
    for key in 0..250 {
        f.won(&format!("k-{key}")).await;
    }
    f.pass(LEASE);
    assert_eq!(lose(&f, 0).await, 0);
    assert_eq!(lose(&f, 30).await, 30);
    assert_eq!(lose(&f, 1000).await, 220);
    assert_eq!(lose(&f, 1000).await, 0);
}
