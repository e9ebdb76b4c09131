//! Black-box tests of the real binary: what the tests in `tests/` share.
//!
//! A file of tests for each section of the real-world cases, and further ones for what a user would expect.
//! Every test starts its own gateway, store and upstream; none knows a crate of the product.

pub mod dump;
pub mod expect;
pub mod kill_clients;
pub mod order_service;
pub mod orders;
pub mod parallel;
pub mod webhooks;

pub use expect::{assert_fresh, assert_problem, assert_replay};
pub use orders::{ROUTE, gateway, gateway_on, order, order_of, setup, setup_on, twins};
