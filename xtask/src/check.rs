//! `check`: formatting, clippy and tidy. The quick look before a commit; it runs no test.

use anyhow::Result;

use crate::{cargo, stages::Stages, tidy};

/// Runs the verb.
pub fn run() -> Result<()> {
    let mut stages = Stages::default();
    stages.run("formatting", formatting);
    stages.run("clippy", clippy);
    stages.run("tidy", tidy::run);
    stages.print_times();
    stages.finish()
}

/// Every file is as rustfmt writes it.
pub fn formatting() -> Result<()> {
    cargo::run(&mut cargo::cargo(["fmt", "--all", "--check"]))
}

/// No warning from the compiler or clippy, tests and benchmarks included.
pub fn clippy() -> Result<()> {
    cargo::run(&mut cargo::cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}
