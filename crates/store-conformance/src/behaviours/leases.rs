//! A lease lives by the store's clock, and a renewal keeps it alive.

use std::time::Duration;

use onefold_core::{Lease, State};
use onefold_store::{Advanced, Step};

use crate::fixture::{Fixture, LEASE, RUNNING, settle};

const SECOND: Duration = Duration::from_secs(1);

/// What is left of a lease shrinks with time, and its end is its end.
pub async fn lease_lives_and_ends_by_the_stores_clock(f: Fixture) {
    let id = f.won("k").await;
    assert_eq!(f.record(id).await.lease, Lease::Alive(LEASE));
    f.pass(LEASE - SECOND);
    assert_eq!(f.record(id).await.lease, Lease::Alive(SECOND));
    f.pass(SECOND);
    assert_eq!(f.record(id).await.lease, Lease::Over);
    assert_eq!(f.record(id).await.state, State::Processing, "the state is left to whoever decides");
}

/// A renewal counts from now.
pub async fn renewal_keeps_a_lease_alive(f: Fixture) {
    let id = f.won("k").await;
    for _ in 0..5 {
        f.pass(LEASE / 3);
        f.done(id, RUNNING, 1, Step::Renew { lease: LEASE }).await;
        assert_eq!(f.record(id).await.lease, Lease::Alive(LEASE));
    }
    f.pass(LEASE);
    assert_eq!(f.record(id).await.lease, Lease::Over);
}

/// A heartbeat that comes too late learns so and revives nothing.
pub async fn renewal_of_a_settled_record_is_superseded(f: Fixture) {
    let id = f.settled("k", State::Failed).await;
    for states in [RUNNING, &State::ALL] {
        let advanced = f.ask(id, states, 1, Step::Renew { lease: LEASE }).await;
        assert!(matches!(advanced, Advanced::Superseded(_)), "{advanced:?}");
    }
    assert_eq!(f.record(id).await.lease, Lease::None);
}

/// The lease ends now, whatever was left of it.
pub async fn lapsed_lease_is_over_and_the_state_stays(f: Fixture) {
    let id = f.won("k").await;
    f.done(id, RUNNING, 1, Step::Lapse).await;
    let record = f.record(id).await;
    assert_eq!((record.state, record.lease, record.attempt), (State::Processing, Lease::Over, 1));
}

/// Whatever is not processing is held by nobody.
pub async fn only_processing_records_have_a_lease(f: Fixture) {
    let settled = f.settled("settled", State::Succeeded).await;
    let unknown = f.won("unknown").await;
    f.done(unknown, RUNNING, 1, Step::LoseOutcome).await;
    for id in [settled, unknown] {
        assert_eq!(f.record(id).await.lease, Lease::None);
        f.pass(LEASE * 2);
        assert_eq!(f.record(id).await.lease, Lease::None);
    }
    f.done(unknown, &[State::OutcomeUnknown], 1, settle(State::Rejected)).await;
    assert_eq!(f.record(unknown).await.lease, Lease::None);
}
