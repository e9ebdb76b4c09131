//! The real-world cases of sections 3, 4, 5 and 15 for routes of a service, on each kind of store. The gateway has the
//! same in the black-box tests.
//!
//! A service is an app on a port of its own over one store; what lies elsewhere is a supplier that counts. A process
//! that is killed is this test binary, told by its environment which store it serves. What a connection to an
//! upstream does has no subject here: the layer calls nobody.

mod concurrency;
mod crashes;
mod outages;
mod results;
mod service;

/// Not a test by itself: what a process does that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    crashes::child().await;
}
