//! The only place that reads a clock on behalf of a store.
//!
//! A store takes its clock as an argument, so tests turn it by hand ([`ManualClock`]) and nothing sleeps. Nothing
//! here corrects what the host's clock says; that is the [`Timeline`](crate::Timeline)'s part.

use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use onefold_core::StoreTime;
use parking_lot::Mutex;

/// Where a store gets its time from.
pub trait Clock: Send + Sync + fmt::Debug + 'static {
    /// The wall clock. It may jump, in both directions.
    fn wall(&self) -> StoreTime;

    /// Time since some fixed moment of this process. It never jumps.
    fn monotonic(&self) -> Duration;
}

/// The host's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// The host's clocks, with monotonic time counted from now.
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> StoreTime {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        StoreTime(0).plus(since)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// A clock that tests turn by hand.
#[derive(Debug)]
pub struct ManualClock(Mutex<(StoreTime, Duration)>);

impl ManualClock {
    /// A clock that stands at this wall time.
    pub fn at(wall: StoreTime) -> ManualClock {
        ManualClock(Mutex::new((wall, Duration::ZERO)))
    }

    /// Time passes.
    pub fn pass(&self, by: Duration) {
        let mut clocks = self.0.lock();
        clocks.0 = clocks.0.plus(by);
        clocks.1 += by;
    }

    /// Somebody sets the wall clock; no time passes.
    pub fn set_wall(&self, wall: StoreTime) {
        self.0.lock().0 = wall;
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> StoreTime {
        self.0.lock().0
    }

    fn monotonic(&self) -> Duration {
        self.0.lock().1
    }
}
