//! Benchmarks of Onefold.
