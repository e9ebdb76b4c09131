//! What gauges show, and whether the store works at all.

use std::time::Duration;

use onefold_core::State;
use onefold_store::{Step, Survey};

use crate::fixture::{Fixture, RETENTION, RUNNING, TOMBSTONE};

/// The age of an unknown outcome counts from when it became unknown.
pub async fn survey_counts_open_records_and_the_age_of_the_unknown(f: Fixture) {
    let survey = async || f.store.survey().await.expect("the store works");
    assert_eq!(survey().await, Survey::default());
    f.settled("done", State::Succeeded).await;
    f.won("running").await;
    for key in ["first", "second"] {
        let id = f.won(key).await;
        f.pass(Duration::from_secs(3));
        f.done(id, RUNNING, 1, Step::LoseOutcome).await;
    }
    f.pass(Duration::from_secs(4));
    let oldest = Some(Duration::from_secs(7));
    let expected = Survey { unknown: 2, unknown_oldest: oldest, processing: 1, sweep_lag: Duration::ZERO };
    assert_eq!(survey().await, expected);
}

/// What has expired and still stands shows how far the sweeper is behind.
pub async fn sweep_lag_is_how_long_the_oldest_has_been_due(f: Fixture) {
    let lag = async || f.store.survey().await.expect("the store works").sweep_lag;
    f.settled("first", State::Succeeded).await;
    f.pass(Duration::from_secs(5));
    f.settled("second", State::Succeeded).await;
    assert_eq!(lag().await, Duration::ZERO);
    f.pass(RETENTION);
    assert_eq!(lag().await, Duration::from_secs(5));
    f.store.sweep(1).await.expect("the store works");
    assert_eq!(lag().await, Duration::ZERO);
    f.pass(Duration::from_secs(2));
    assert_eq!(lag().await, Duration::from_secs(2));
    f.store.sweep(100).await.expect("the store works");
    f.pass(TOMBSTONE + Duration::from_secs(1));
    assert!(lag().await > Duration::ZERO, "tombstones are due as well");
}

/// Ready means that it can be written.
pub async fn working_store_is_ready(f: Fixture) {
    assert_eq!(f.store.ready().await, Ok(()));
}
