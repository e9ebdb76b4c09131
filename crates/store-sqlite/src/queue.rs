//! What waits for the writer, counted in jobs and in bytes.
//!
//! A place in the queue is held by the job itself: a caller that goes away leaves its job, and the job its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Jobs that may wait; one more is refused.
pub(crate) const JOBS_MAX: usize = 8192;
/// Bytes that may wait; a job that would add to more is refused.
const BYTES_MAX: usize = 64 << 20;

/// How much waits.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    jobs: AtomicU64,
    bytes: AtomicUsize,
}

/// A place in the queue.
#[derive(Debug)]
pub(crate) struct Place {
    queue: Arc<Queue>,
    pub(crate) bytes: usize,
}

impl Queue {
    /// A place for a job of so many bytes; `None` when too much waits. One big job is let in when nothing else waits.
    pub(crate) fn place(self: &Arc<Queue>, bytes: usize) -> Option<Place> {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let place = Place { queue: self.clone(), bytes };
        (before == 0 || before + bytes <= BYTES_MAX).then_some(place)
    }

    /// Jobs that wait or are being done.
    pub(crate) fn jobs(&self) -> u64 {
        self.jobs.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.queue.jobs.fetch_sub(1, Ordering::Relaxed);
        self.queue.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_bytes_are_refused_and_one_big_job_is_not() {
        let queue = Arc::new(Queue::default());
        let big = queue.place(BYTES_MAX + 1).expect("nothing else waits");
        assert!(queue.place(1).is_none());
        assert_eq!(queue.jobs(), 1, "a refused job holds no place");
        drop(big);
        let half = queue.place(BYTES_MAX / 2).expect("there is room");
        assert!(queue.place(BYTES_MAX / 2).is_some());
        assert!(queue.place(BYTES_MAX / 2 + 1).is_none());
        drop(half);
        assert_eq!(queue.jobs(), 0);
    }
}
