//! The store's time as one process sees it: it never runs back, and it knows when it leapt.
//!
//! Time follows the wall clock forward. When the wall clock falls behind what was told already, time goes on at the
//! pace of the monotonic clock until the wall clock has caught up; a stored floor (the latest committed time) keeps
//! this true over restarts and between processes that share a file. A leap forward of more than a second beyond the
//! time that really passed is remembered, so that a lease which was granted before it is judged by the time that
//! really passed: a leap ends no live lease. What happens while no process runs leaves no trace here: after a
//! restart only the wall clock and the floor are known.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use onefold_core::StoreTime;
use parking_lot::Mutex;

use crate::Clock;

/// Smaller differences are clock discipline, not leaps.
const LEAP_MIN: Duration = Duration::from_secs(1);

/// Leaps that are remembered. Leases live for seconds to hours; a clock that leaps oftener is broken.
const LEAPS_MAX: usize = 16;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The store's time.
    pub time: StoreTime,
    /// The process's monotonic time.
    pub monotonic: Duration,
}

/// The store's time in this process.
#[derive(Debug)]
pub struct Timeline {
    clock: Arc<dyn Clock>,
    told: Mutex<Told>,
}

#[derive(Debug)]
struct Told {
    latest: Moment,
    leaps: VecDeque<Leap>,
}

/// Time went from `from` to `to` while next to none passed.
#[derive(Clone, Copy, Debug)]
struct Leap {
    from: StoreTime,
    to: StoreTime,
}

impl Timeline {
    /// A timeline over this clock that starts no earlier than `floor`, the latest committed time.
    pub fn new(clock: Arc<dyn Clock>, floor: StoreTime) -> Timeline {
        let latest = Moment { time: clock.wall().max(floor), monotonic: clock.monotonic() };
        Timeline { clock, told: Mutex::new(Told { latest, leaps: VecDeque::new() }) }
    }

    /// What the wall clock says, whatever was told before.
    pub fn wall(&self) -> StoreTime {
        self.clock.wall()
    }

    /// The time now.
    pub fn now(&self) -> Moment {
        self.at_least(StoreTime(i64::MIN))
    }

    /// The time now, which is not before `floor`: the latest time that another process has committed.
    pub fn at_least(&self, floor: StoreTime) -> Moment {
        let mut told = self.told.lock();
        // Read under the lock: two readings must not overtake each other.
        let (wall, monotonic) = (self.clock.wall(), self.clock.monotonic());
        let passed = monotonic.saturating_sub(told.latest.monotonic);
        let steady = told.latest.time.plus(passed);
        let time = wall.max(floor).max(steady);
        if time > steady.plus(LEAP_MIN) {
            if told.leaps.len() == LEAPS_MAX {
                told.leaps.pop_front();
            }
            told.leaps.push_back(Leap { from: steady, to: time });
        }
        // Whole milliseconds only, or the fractions that `plus` drops would make time run slow.
        if time > told.latest.time {
            told.latest = if time == steady {
                let whole = Duration::from_millis(told.latest.time.until(time).as_millis() as u64);
                Moment { time, monotonic: told.latest.monotonic + whole }
            } else {
                Moment { time, monotonic }
            };
        }
        Moment { time, monotonic }
    }

    /// When a lease that was granted at `granted` until `until` really ends: later, when time leapt meanwhile.
    pub fn lease_end(&self, granted: StoreTime, until: StoreTime) -> StoreTime {
        let told = self.told.lock();
        let mut end = until;
        for leap in &told.leaps {
            if granted <= leap.from && end > leap.from {
                end = end.plus(leap.from.until(leap.to));
            }
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;

    const HOUR: Duration = Duration::from_secs(3600);
    const START: StoreTime = StoreTime(1_000_000);

    fn timeline(floor: i64) -> (Arc<ManualClock>, Timeline) {
        let clock = Arc::new(ManualClock::at(START));
        (clock.clone(), Timeline::new(clock, StoreTime(floor)))
    }

    #[test]
    fn time_never_runs_back_and_never_stands_still() {
        let (clock, timeline) = timeline(0);
        clock.pass(Duration::from_secs(10));
        let before = timeline.now().time;
        clock.set_wall(StoreTime(5));
        assert_eq!(timeline.now().time, before);
        clock.pass(Duration::from_secs(3));
        assert_eq!(timeline.now().time, before.plus(Duration::from_secs(3)));
    }

    #[test]
    fn fractions_of_a_millisecond_add_up_while_the_wall_clock_is_behind() {
        let (clock, timeline) = timeline(START.0 + 50_000);
        for _ in 0..10_000 {
            clock.pass(Duration::from_micros(100));
            timeline.now();
        }
        assert_eq!(timeline.now().time, StoreTime(START.0 + 51_000));
    }

    #[test]
    fn the_committed_floor_holds_at_the_start_and_later() {
        let (_, timeline) = timeline(START.0 + 7);
        assert_eq!(timeline.now().time, StoreTime(START.0 + 7));
        assert_eq!(timeline.at_least(StoreTime(START.0 + 9)).time, StoreTime(START.0 + 9));
        assert_eq!(timeline.now().time, StoreTime(START.0 + 9));
    }

    #[test]
    fn a_leap_moves_the_end_of_leases_that_were_alive_and_of_no_others() {
        let (clock, timeline) = timeline(0);
        let leap = START.plus(HOUR);
        clock.set_wall(leap);
        assert_eq!(timeline.now().time, leap);
        let lease = Duration::from_secs(30);
        assert_eq!(timeline.lease_end(START, START.plus(lease)), leap.plus(lease), "alive at the leap");
        assert_eq!(
            timeline.lease_end(START, START.plus(2 * HOUR)),
            leap.plus(2 * HOUR),
            "longer than the leap"
        );
        let ended = StoreTime(START.0 - 1);
        assert_eq!(timeline.lease_end(StoreTime(0), ended), ended, "over before the leap");
        assert_eq!(timeline.lease_end(leap, leap.plus(lease)), leap.plus(lease), "granted after the leap");
    }

    #[test]
    fn passing_time_is_no_leap() {
        let (clock, timeline) = timeline(0);
        clock.pass(10 * HOUR);
        timeline.now();
        assert_eq!(timeline.lease_end(START, START.plus(HOUR)), START.plus(HOUR));
    }
}
