//! One point in time, as the store that holds the record told it.
//!
//! The store's clock decides (SEMANTICS 3, rule 4): a [`StoreTime`] is only ever compared with another one of the
//! same store. Processes exchange durations, never these.

use std::fmt;
use std::time::Duration;

/// Milliseconds since the Unix epoch by the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(pub i64);

impl StoreTime {
    /// This time moved forward; saturates at the end of the range.
    pub fn plus(self, by: Duration) -> StoreTime {
        StoreTime(self.0.saturating_add(millis(by)))
    }

    /// How long from `self` until `later`; zero when `later` is not later.
    pub fn until(self, later: StoreTime) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0).max(0).unsigned_abs())
    }
}

impl fmt::Display for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_range_saturates() {
        assert_eq!(StoreTime(i64::MAX).plus(Duration::from_secs(1)), StoreTime(i64::MAX));
        assert_eq!(StoreTime(5).until(StoreTime(3)), Duration::ZERO);
        assert_eq!(StoreTime(i64::MIN).until(StoreTime(i64::MAX)), Duration::from_millis(i64::MAX as u64));
    }
}
