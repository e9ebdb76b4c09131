//! Waiting for a condition with a deadline.
//!
//! The only place of the test rig that sleeps for pacing. A wait that runs out panics with the sentence
//! that the test gave, because a test that goes on after a missed condition fails for the wrong reason.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long a condition may take that should hold at once on an idle machine: generous, since test
/// machines are slow and debug binaries slower.
pub const DEADLINE: Duration = Duration::from_secs(20);

const PAUSE: Duration = Duration::from_millis(10);

/// Waits until `holds` says yes, at most [`DEADLINE`]; panics with `what` otherwise.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    // No closure of futures in between: what is spawned may wait so, too.
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < DEADLINE, "waited {DEADLINE:?} in vain until {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits until the asynchronous `holds` says yes, at most `deadline`; panics with `what` otherwise.
pub async fn until_within(deadline: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let found = try_some(deadline, async || holds().await.then_some(())).await;
    assert!(found.is_some(), "waited {deadline:?} in vain until {what}");
}

/// Asks `probe` again and again until it finds something, at most `deadline`; panics with `what` otherwise.
pub async fn some<T>(deadline: Duration, what: &str, probe: impl AsyncFnMut() -> Option<T>) -> T {
    match try_some(deadline, probe).await {
        Some(found) => found,
        None => panic!("waited {deadline:?} in vain until {what}"),
    }
}

/// Asks `probe` again and again until it finds something; `None` after `deadline`.
pub async fn try_some<T>(deadline: Duration, mut probe: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return Some(found);
        }
        if begun.elapsed() >= deadline {
            return None;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Awaits `future`, at most `deadline`; panics with `what` otherwise.
pub async fn within<T>(deadline: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(deadline, future).await {
        Ok(done) => done,
        Err(_) => panic!("waited {deadline:?} in vain for {what}"),
    }
}

/// Sleeps: only for the cases that are themselves about time that passes. `why` says which.
pub async fn pass_time(time: Duration, why: &str) {
    assert!(!why.is_empty(), "time that passes needs a reason");
    tokio::time::sleep(time).await;
}
