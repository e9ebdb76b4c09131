//! `bench NAME [ARGS…]`: one benchmark, on release builds.
//!
//! Builds the release binary first, so that a benchmark of the gateway measures what stands in the tree. Arguments
//! go to the benchmark as they are.

use anyhow::Result;

use crate::cargo::{self, BIN_VARIABLE, Profile};

/// Runs the verb.
pub fn run(args: &[String]) -> Result<()> {
    let binary = cargo::build_onefold(Profile::Release)?;
    let mut bench = cargo::cargo(["run", "--release", "--package", "onefold-bench", "--"]);
    cargo::run(bench.args(args).env(BIN_VARIABLE, binary))
}
