//! The real-world cases of sections 3, 4 and 15 for the library, on each kind of store: a sequence is written once.
//!
//! Where a case has two replicas there are two processes: a child is this test binary, told by its environment which
//! store it works on and what it does there. Crashes are kills from outside, at a point that the child says it has
//! reached. What a connection to an upstream does has no subject here: the library sends nothing.

mod child;
mod concurrency;
mod crash_windows;
mod failover;
mod fences;
mod leases;
mod outages;
mod service;
mod sweepers;

/// Not a test by itself: what the child does.
#[test]
fn child() {
    child::run();
}
