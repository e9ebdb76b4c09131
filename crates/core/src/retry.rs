//! When to try again, and how long to tell a caller to wait (SEMANTICS 3, 4, 11).

use std::time::Duration;

/// The longest `retry_after` that is ever told.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// The shortest: `Retry-After` has whole seconds and never says 0.
pub const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);

/// Exponential pauses with full jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The upper end of the first pause.
    pub first: Duration,
    /// The upper end of every pause.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { first: Duration::from_secs(1), max: Duration::from_secs(30) }
    }
}

impl Backoff {
    /// The pause before retry number `retry` (from 0). `dice` is uniform in `0.0..1.0`: full jitter.
    pub fn pause(&self, retry: u32, dice: f64) -> Duration {
        let ceiling = self.first.saturating_mul(2u32.saturating_pow(retry)).min(self.max);
        ceiling.mul_f64(dice.clamp(0.0, 1.0))
    }
}

/// What to tell a caller who met a live attempt: the rest of the lease, within limits. Never a constant.
pub fn retry_after(lease_left: Duration) -> Duration {
    lease_left.clamp(RETRY_AFTER_MIN, RETRY_AFTER_MAX)
}

/// `Retry-After` in whole seconds: rounded up, at least 1.
pub fn whole_seconds(wait: Duration) -> u64 {
    wait.as_millis().div_ceil(1000).max(1).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_maximum_and_never_overflow() {
        let backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(2) };
        assert_eq!(backoff.pause(0, 1.0), Duration::from_millis(100));
        assert_eq!(backoff.pause(3, 1.0), Duration::from_millis(800));
        assert_eq!(backoff.pause(3, 0.5), Duration::from_millis(400));
        assert_eq!(backoff.pause(u32::MAX, 1.0), Duration::from_secs(2));
        assert_eq!(backoff.pause(9, 0.0), Duration::ZERO);
    }

    #[test]
    fn retry_after_is_whole_seconds_rounded_up_and_at_least_one() {
        assert_eq!(whole_seconds(Duration::ZERO), 1);
        assert_eq!(whole_seconds(Duration::from_millis(1001)), 2);
        assert_eq!(retry_after(Duration::from_secs(90)), RETRY_AFTER_MAX);
        assert_eq!(retry_after(Duration::from_millis(3)), RETRY_AFTER_MIN);
        assert_eq!(retry_after(Duration::from_secs(7)), Duration::from_secs(7));
    }
}
