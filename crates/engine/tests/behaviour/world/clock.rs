//! A store's clock that follows tokio's paused time.

use std::time::Duration;

use onefold_core::StoreTime;
use onefold_store::Clock;
use tokio::time::Instant;

/// The wall clock stands at this when a test begins.
pub const START: StoreTime = StoreTime(1_750_000_000_000);

#[derive(Debug)]
pub struct PausedClock(Instant);

impl PausedClock {
    pub fn new() -> PausedClock {
        PausedClock(Instant::now())
    }
}

impl Clock for PausedClock {
    fn wall(&self) -> StoreTime {
        START.plus(self.0.elapsed())
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}
