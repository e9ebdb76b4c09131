//! The wall clock jumps; the store's time does not run back, and nobody loses a lease by it.

use std::time::Duration;

use onefold_core::{Lease, State, StoreTime};
use onefold_store::{Advanced, Also, Start};

use crate::fixture::{Fixture, LEASE, RUNNING, START, begin};

const HOUR: Duration = Duration::from_secs(3600);

/// Neither for readers nor for writers.
pub async fn time_never_runs_back(f: Fixture) {
    f.pass(HOUR);
    let id = f.won("k").await;
    let before = f.now().await;
    f.clock.set_wall(START);
    assert!(f.now().await >= before);
    f.pass(Duration::from_secs(1));
    let Advanced::Done { now, .. } = f.ask(id, RUNNING, 1, crate::fixture::settle(State::Succeeded)).await
    else {
        panic!("the attempt holds the operation")
    };
    assert_eq!(now, before.plus(Duration::from_secs(1)), "time goes on while the wall clock is behind");
    f.won("later").await;
    assert!(f.record(id).await.completed_at >= Some(before));
}

/// Not for readers, not for a takeover, not for the sweeper.
pub async fn leap_forward_ends_no_live_lease(f: Fixture) {
    let id = f.won("k").await;
    f.pass(LEASE / 3);
    f.clock.set_wall(START.plus(HOUR * 24));
    let left = LEASE - LEASE / 3;
    assert_eq!(f.record(id).await.lease, Lease::Alive(left));
    let over = Start { states: RUNNING, attempt: 1, also: Also::LeaseOver };
    assert!(matches!(f.ask_also(id, over, begin()).await, Advanced::Superseded(_)));
    assert_eq!(f.store.lose_stale(100).await.expect("the store works"), 0);
    f.pass(left - Duration::from_millis(1));
    assert!(f.record(id).await.lease.is_alive());
    f.pass(Duration::from_millis(1));
    assert_eq!(f.record(id).await.lease, Lease::Over);
    assert_eq!(f.store.lose_stale(100).await.expect("the store works"), 1);
}

/// The attempt has its lease and no more, or a crashed one would hold the key for as long as the clock was set back.
pub async fn clock_that_was_set_back_does_not_lengthen_a_lease(f: Fixture) {
    let id = f.won("k").await;
    f.clock.set_wall(StoreTime(START.0 - 3_600_000));
    f.pass(LEASE - Duration::from_millis(1));
    assert_eq!(f.record(id).await.lease, Lease::Alive(Duration::from_millis(1)));
    f.pass(Duration::from_millis(1));
    assert_eq!(f.record(id).await.lease, Lease::Over);
    assert_eq!(f.store.lose_stale(100).await.expect("the store works"), 1);
}
