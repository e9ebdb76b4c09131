//! The retry budget of one destination: retries are a share of recent successes.
//!
//! Within the window there are never more retries than the larger of `reserve` and `share` × successes. The reserve is
//! lent, not given: the first successes pay it back. So over `n` operations of one window there are at most
//! `(1 + share) × n` attempts as soon as `share × n` is at least the reserve. What is in progress is no success and
//! gives nothing back. Time comes in as an argument.

use std::time::Duration;

/// Retries as a share of recent successes: at most a fifth more load for a destination that is in trouble.
pub const BUDGET_SHARE: f64 = 0.2;
/// Retries that are lent before there are successes: a process with one operation may retry too.
pub const BUDGET_RESERVE: u32 = 10;
/// What "recent" means. Long enough to count enough operations, short enough to forget yesterday.
pub const BUDGET_WINDOW: Duration = Duration::from_secs(60);
/// Slices of the window: it moves by a tenth at a time.
const SLICES: u32 = 10;

/// How much may be retried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetSettings {
    /// Retries for each success, such as 0.2.
    pub share: f64,
    /// Retries that are lent before there are successes. 0: none.
    pub reserve: u32,
    /// What counts as recent.
    pub window: Duration,
}

impl Default for BudgetSettings {
    fn default() -> BudgetSettings {
        BudgetSettings { share: BUDGET_SHARE, reserve: BUDGET_RESERVE, window: BUDGET_WINDOW }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    number: u64,
    successes: u64,
    retries: u64,
}

/// Successes and retries of one window, in slices.
#[derive(Clone, Debug)]
pub struct Budget {
    settings: BudgetSettings,
    slices: [Slice; SLICES as usize],
}

impl Budget {
    /// A budget with nothing used.
    pub fn new(settings: BudgetSettings) -> Budget {
        Budget { settings, slices: Default::default() }
    }

    /// An operation ended well.
    pub fn succeeded(&mut self, now: Duration) {
        self.slice(now).successes += 1;
    }

    /// Takes one retry. False: the budget is used up.
    pub fn take(&mut self, now: Duration) -> bool {
        let allowed = self.left(now) > 0;
        if allowed {
            self.slice(now).retries += 1;
        }
        allowed
    }

    /// Gives a retry back that was taken at that time: it did what had to be done anyway, so it was no extra load.
    pub fn give_back(&mut self, taken_at: Duration) {
        let number = self.number(taken_at);
        let place = (number % u64::from(SLICES)) as usize;
        let slice = &mut self.slices[place];
        if slice.number == number {
            slice.retries = slice.retries.saturating_sub(1);
        }
    }

    /// Retries that are left.
    pub fn left(&self, now: Duration) -> u64 {
        let oldest = self.number(now).saturating_sub(u64::from(SLICES) - 1);
        let recent = self.slices.iter().filter(|slice| slice.number >= oldest);
        let (successes, retries) =
            recent.fold((0, 0), |(s, r), slice| (s + slice.successes, r + slice.retries));
        let earned = (successes as f64 * self.settings.share.max(0.0)).floor() as u64;
        earned.max(u64::from(self.settings.reserve)).saturating_sub(retries)
    }

    fn number(&self, now: Duration) -> u64 {
        let slice_ms = (self.settings.window / SLICES).as_millis().max(1);
        u64::try_from(now.as_millis() / slice_ms).unwrap_or(u64::MAX)
    }

    fn slice(&mut self, now: Duration) -> &mut Slice {
        let number = self.number(now);
        let place = (number % u64::from(SLICES)) as usize;
        let slice = &mut self.slices[place];
        if slice.number != number {
            *slice = Slice { number, ..Slice::default() };
        }
        slice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn budget(share: f64, reserve: u32) -> Budget {
        Budget::new(BudgetSettings { share, reserve, window: 10 * SECOND })
    }

    fn taken(budget: &mut Budget, now: Duration) -> usize {
        (0..1000).take_while(|_| budget.take(now)).count()
    }

    #[test]
    fn retries_are_a_share_of_successes() {
        let mut budget = budget(0.2, 0);
        assert_eq!(taken(&mut budget, SECOND), 0);
        for _ in 0..50 {
            budget.succeeded(SECOND);
        }
        assert_eq!(taken(&mut budget, SECOND), 10);
    }

    #[test]
    fn the_reserve_is_lent_and_paid_back_by_the_first_successes() {
        let mut budget = budget(0.2, 10);
        assert_eq!(taken(&mut budget, SECOND), 10);
        for _ in 0..50 {
            budget.succeeded(SECOND);
        }
        assert_eq!(taken(&mut budget, SECOND), 0, "10 were earned and 10 lent before");
        for _ in 0..5 {
            budget.succeeded(SECOND);
        }
        assert_eq!(taken(&mut budget, SECOND), 1);
    }

    #[test]
    fn a_retry_that_is_given_back_may_be_taken_again_while_its_time_is_remembered() {
        let mut budget = budget(0.0, 2);
        assert_eq!(taken(&mut budget, SECOND), 2);
        budget.give_back(SECOND);
        assert_eq!(taken(&mut budget, 2 * SECOND), 1);
        assert_eq!(taken(&mut budget, 11 * SECOND), 1, "the other one of the first second");
        budget.give_back(SECOND);
        assert_eq!(taken(&mut budget, 11 * SECOND), 0, "that second is forgotten");
    }

    #[test]
    fn what_is_older_than_the_window_counts_no_more() {
        let mut budget = budget(0.5, 1);
        for _ in 0..20 {
            budget.succeeded(SECOND);
        }
        assert_eq!(budget.left(10 * SECOND), 10);
        assert_eq!(budget.left(11 * SECOND), 1);
        assert_eq!(taken(&mut budget, 11 * SECOND), 1);
        assert_eq!(taken(&mut budget, 20 * SECOND), 0);
        assert_eq!(taken(&mut budget, 21 * SECOND), 1);
    }
}
