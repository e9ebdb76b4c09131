//! Durations in buckets that grow with them: a quantile is off by less than 2 %.

use std::time::Duration;

/// Buckets for each doubling.
const STEPS: u32 = 64;
/// Doublings of a microsecond that are told apart: up to 67 s.
const DOUBLINGS: u32 = 26;

/// A histogram of durations from a microsecond upwards.
#[derive(Clone)]
pub(crate) struct Histogram {
    buckets: Vec<u32>,
    count: u64,
}

impl Histogram {
    pub(crate) fn new() -> Histogram {
        Histogram { buckets: vec![0; (STEPS * (DOUBLINGS + 1)) as usize], count: 0 }
    }

    pub(crate) fn add(&mut self, duration: Duration) {
        self.buckets[bucket(duration)] += 1;
        self.count += 1;
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (own, others) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += others;
        }
        self.count += other.count;
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The duration below which this share of all lies, in milliseconds; 0 when there are none.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                return upper_us(index) / 1000.0;
            }
        }
        0.0
    }
}

/// The first row holds the microseconds below `STEPS` one by one; each further row is one doubling.
fn bucket(duration: Duration) -> usize {
    let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).min((1 << DOUBLINGS) - 1);
    let steps = u64::from(STEPS);
    if us < steps {
        return us as usize;
    }
    let row = us.ilog2() - STEPS.ilog2();
    let place = (us >> row) - steps;
    (steps * u64::from(row + 1) + place) as usize
}

fn upper_us(index: usize) -> f64 {
    let (row, place) = (index as u64 / u64::from(STEPS), index as u64 % u64::from(STEPS));
    match row {
        0 => (place + 1) as f64,
        _ => ((u64::from(STEPS) + place + 1) << (row - 1)) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_just_below_the_end_of_its_bucket() {
        for us in [0, 1, 63, 64, 65, 127, 128, 1_000, 65_537, 1_000_000, 60_000_000] {
            let end = upper_us(bucket(Duration::from_micros(us)));
            let us = us as f64;
            assert!(us < end && end <= us * 1.02 + 1.0, "{us} in a bucket that ends at {end}");
        }
    }

    #[test]
    fn quantiles_count_from_below() {
        let mut histogram = Histogram::new();
        for ms in 1..=100 {
            histogram.add(Duration::from_millis(ms));
        }
        let other = histogram.clone();
        histogram.merge(&other);
        assert_eq!(histogram.count(), 200);
        assert!((49.0..=52.0).contains(&histogram.quantile_ms(0.5)));
        assert!((98.0..=101.0).contains(&histogram.quantile_ms(0.99)));
    }

    #[test]
    fn what_is_too_long_lies_in_the_last_bucket() {
        let mut histogram = Histogram::new();
        histogram.add(Duration::MAX);
        assert!(histogram.quantile_ms(0.5) > 60_000.0);
        assert_eq!(Histogram::new().quantile_ms(0.5), 0.0);
    }
}
