//! The next attempt of a record.

use std::time::Duration;

use onefold_core::{Kept, Lease, State};
use onefold_store::{Advanced, Also, Start, Step};

use crate::fixture::{Fixture, LEASE, RUNNING, begin, fingerprint, settle};

const OVER: Start = Start { states: RUNNING, attempt: 1, also: Also::LeaseOver };

/// A live lease cannot be taken.
pub async fn takeover_waits_for_the_end_of_the_lease(f: Fixture) {
    let id = f.won("k").await;
    f.pass(LEASE - Duration::from_millis(1));
    assert!(matches!(f.ask_also(id, OVER, begin()).await, Advanced::Superseded(_)));
    assert_eq!(f.record(id).await.attempt, 1);
    f.pass(Duration::from_millis(1));
    assert!(matches!(f.ask_also(id, OVER, begin()).await, Advanced::Done { .. }));
    let record = f.record(id).await;
    assert_eq!((record.state, record.attempt, record.lease), (State::Processing, 2, Lease::Alive(LEASE)));
    assert_eq!(record.owner, "process-2");
}

/// A lease that was over when it was read may have been renewed since.
pub async fn lease_is_judged_when_the_takeover_is_written(f: Fixture) {
    let id = f.won("k").await;
    f.pass(LEASE);
    assert_eq!(f.record(id).await.lease, Lease::Over);
    f.done(id, RUNNING, 1, Step::Renew { lease: LEASE }).await;
    assert!(matches!(f.ask_also(id, OVER, begin()).await, Advanced::Superseded(_)));
    f.done(id, RUNNING, 1, Step::Lapse).await;
    assert!(matches!(f.ask_also(id, OVER, begin()).await, Advanced::Done { .. }));
}

/// A free key has nothing to conflict with: the changed request's fingerprint replaces the old one.
pub async fn failed_record_begins_again_with_another_fingerprint(f: Fixture) {
    let id = f.settled("k", State::Failed).await;
    let before = f.record(id).await;
    f.pass(Duration::from_secs(5));
    f.done(id, &[State::Failed], 1, begin()).await;
    let record = f.record(id).await;
    assert_eq!((record.state, record.attempt), (State::Processing, 2));
    assert_eq!(record.fingerprint, Some(fingerprint("second")));
    assert_eq!(record.ignored, Vec::<String>::new());
    assert_eq!(
        (record.created_at, record.begun_at),
        (before.created_at, before.begun_at),
        "the same operation"
    );
    assert_eq!(record.correlation_id, before.correlation_id);
    assert_eq!((record.completed_at, record.expires_at), (None, None), "it is under way again");
    assert_eq!((record.kept, record.resource), (Kept::Nothing, None));
}

/// What a record keeps is the latest attempt's.
pub async fn settling_lets_go_of_what_the_attempt_before_left(f: Fixture) {
    let id = f.settled("k", State::Failed).await;
    f.done(id, &[State::Failed], 1, begin()).await;
    let nothing = Step::Settle { state: State::Succeeded, kept: Kept::Nothing, resource: None };
    f.done(id, RUNNING, 2, nothing).await;
    assert_eq!(f.record(id).await.kept, Kept::Nothing);
    let superseded = f.ask(id, RUNNING, 1, settle(State::Succeeded)).await;
    assert!(matches!(superseded, Advanced::Superseded(_)));
}
