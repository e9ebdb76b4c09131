//! The judgement of time and leases in one process, for whichever store keeps the rows.
//!
//! A lease that this process granted is measured by its monotonic clock, for as long as the stored row still says
//! what this process wrote; every other lease is judged by the stored times, corrected for leaps of the clock that
//! this process saw. After a crash of the process its grants are gone, and the stored times judge.

use std::collections::HashMap;
use std::time::Duration;

use onefold_core::{Lease, OperationId, StoreTime};
use parking_lot::Mutex;

use crate::{Moment, Timeline};

/// What a row says of its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredLease {
    /// The operation.
    pub id: OperationId,
    /// The attempt that holds it.
    pub attempt: u32,
    /// When the lease was granted or renewed.
    pub granted: StoreTime,
    /// When it ends.
    pub until: StoreTime,
}

/// A lease that this process gave or ended, to be noted once it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The attempt holds the operation until then, by the monotonic clock.
    Held {
        /// The lease as it was written.
        lease: StoredLease,
        /// Its end by the monotonic clock.
        ends: Duration,
    },
    /// Nobody holds the operation by this process's word.
    Ended(OperationId),
}

impl Grant {
    /// A lease of this length for the attempt, from `moment`.
    pub fn held(id: OperationId, attempt: u32, moment: Moment, lease: Duration) -> Grant {
        let until = moment.time.plus(lease);
        Grant::Held {
            lease: StoredLease { id, attempt, granted: moment.time, until },
            ends: moment.monotonic.saturating_add(lease),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    attempt: u32,
    until: StoreTime,
    ends: Duration,
}

/// Judges time and leases for one process.
#[derive(Debug)]
pub struct Judge {
    timeline: Timeline,
    held: Mutex<HashMap<OperationId, Held>>,
}

impl Judge {
    /// A judge that holds no lease yet.
    pub fn new(timeline: Timeline) -> Judge {
        Judge { timeline, held: Mutex::default() }
    }

    /// The store's time.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Whether the lease is alive at `moment`.
    pub fn judge(&self, lease: &StoredLease, moment: Moment) -> Lease {
        let own = self.held.lock().get(&lease.id).copied();
        let left = match own {
            // Another process may have ended or renewed it: then the row says otherwise, and the row is right.
            Some(own) if own.attempt == lease.attempt && own.until == lease.until => {
                own.ends.saturating_sub(moment.monotonic)
            }
            _ => moment.time.until(self.timeline.lease_end(lease.granted, lease.until)),
        };
        if left.is_zero() { Lease::Over } else { Lease::Alive(left) }
    }

    /// Notes what was committed.
    pub fn note(&self, grants: impl IntoIterator<Item = Grant>) {
        let mut held = self.held.lock();
        for grant in grants {
            match grant {
                Grant::Held { lease: StoredLease { id, attempt, until, .. }, ends } => {
                    held.insert(id, Held { attempt, until, ends });
                }
                Grant::Ended(id) => {
                    held.remove(&id);
                }
            }
        }
    }

    /// Forgets leases that ended by the monotonic clock: the stored time agrees with it by then, since the store's
    /// time never runs slower.
    pub fn forget_ended(&self, moment: Moment) {
        self.held.lock().retain(|_, held| held.ends > moment.monotonic);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clock::ManualClock;

    const LEASE: Duration = Duration::from_secs(30);
    const ID: OperationId = OperationId::from_bytes([1; 32]);

    fn judge() -> (Arc<ManualClock>, Judge) {
        let clock = Arc::new(ManualClock::at(StoreTime(1_000_000)));
        (clock.clone(), Judge::new(Timeline::new(clock, StoreTime(0))))
    }

    fn granted(judge: &Judge) -> StoredLease {
        let grant = Grant::held(ID, 1, judge.timeline().now(), LEASE);
        judge.note([grant]);
        let Grant::Held { lease, .. } = grant else { unreachable!("it was granted") };
        lease
    }

    #[test]
    fn an_own_lease_lives_by_the_monotonic_clock() {
        let (clock, judge) = judge();
        let lease = granted(&judge);
        clock.pass(Duration::from_secs(29));
        clock.set_wall(StoreTime(9_000_000_000));
        assert_eq!(judge.judge(&lease, judge.timeline().now()), Lease::Alive(Duration::from_secs(1)));
        clock.pass(Duration::from_secs(1));
        assert_eq!(judge.judge(&lease, judge.timeline().now()), Lease::Over);
    }

    #[test]
    fn an_own_lease_of_less_than_a_second_is_not_ended_by_a_small_leap() {
        let (clock, judge) = judge();
        let grant = Grant::held(ID, 1, judge.timeline().now(), Duration::from_millis(500));
        judge.note([grant]);
        let Grant::Held { lease, .. } = grant else { unreachable!("it was granted") };
        clock.set_wall(StoreTime(1_000_900));
        assert_eq!(judge.judge(&lease, judge.timeline().now()), Lease::Alive(Duration::from_millis(500)));
    }

    #[test]
    fn a_lease_that_another_process_ended_is_over_here_too() {
        let (_, judge) = judge();
        let lease = granted(&judge);
        let ended = StoredLease { until: lease.granted, ..lease };
        assert_eq!(judge.judge(&ended, judge.timeline().now()), Lease::Over);
    }

    #[test]
    fn an_ended_lease_is_forgotten_and_still_over() {
        let (clock, judge) = judge();
        let lease = granted(&judge);
        clock.set_wall(StoreTime(5));
        clock.pass(LEASE);
        let now = judge.timeline().now();
        judge.forget_ended(now);
        assert!(judge.held.lock().is_empty());
        assert_eq!(judge.judge(&lease, now), Lease::Over);
    }
}
