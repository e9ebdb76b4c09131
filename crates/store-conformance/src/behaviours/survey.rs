//! What gauges show, and whether the store works at all.

use std::time::Duration;

use onefold_core::State;
use onefold_store::{Step, Survey};

use crate::fixture::{Fixture, RUNNING};

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
    assert_eq!(survey().await, Survey { unknown: 2, unknown_oldest: oldest, processing: 1 });
}

/// Ready means that it can be written.
pub async fn working_store_is_ready(f: Fixture) {
    assert_eq!(f.store.ready().await, Ok(()));
}
