//! What the writer did since the store was opened, for tests and gauges.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the writer did since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Jobs that wait or are being done.
    pub waiting: u64,
    /// Jobs that were answered.
    pub jobs: u64,
    /// Transactions that wrote something: so many times the log was synced.
    pub commits: u64,
    /// Transactions that were lost as a whole.
    pub failures: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    jobs: AtomicU64,
    commits: AtomicU64,
    failures: AtomicU64,
}

impl Counts {
    pub(crate) fn read(&self, waiting: u64) -> Stats {
        Stats {
            waiting,
            jobs: self.jobs.load(Ordering::Relaxed),
            commits: self.commits.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn answered(&self, jobs: usize) {
        self.jobs.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    pub(crate) fn committed(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}
