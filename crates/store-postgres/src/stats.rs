//! What the lanes did since the store was opened, for tests and gauges.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the lanes did since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Claims and transitions that were answered.
    pub jobs: u64,
    /// Statements that they were sent in.
    pub batches: u64,
    /// Batches in which a job was told that the store is unavailable.
    pub failures: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    jobs: AtomicU64,
    batches: AtomicU64,
    failures: AtomicU64,
}

impl Counts {
    pub(crate) fn read(&self) -> Stats {
        Stats {
            jobs: self.jobs.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn batch(&self, jobs: usize, failed: bool) {
        self.jobs.fetch_add(jobs as u64, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.failures.fetch_add(u64::from(failed), Ordering::Relaxed);
    }
}
