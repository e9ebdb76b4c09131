//! `test`: everything that can fail without a stopwatch.
//!
//! Builds the binary that black-box tests drive, sees to the servers that some of them need (`servers.rs`), runs the
//! documentation's examples (which nextest does not run), every test and tidy, and closes with one list of what was
//! skipped and why. A test that cannot run here says so in a line `SKIPPED: what: why` on standard error and in the
//! file that `ONEFOLD_SKIPS` names, since a runner hides what a passing test prints. Benchmarks are not tests and are
//! not run.

use anyhow::Result;

use crate::cargo::{self, BIN_VARIABLE, Profile};
use crate::{repository::Repository, servers, skips, stages::Stages, tidy, tools};

/// Runs the verb.
pub fn run() -> Result<()> {
    let skips = skips::Report::start()?;
    let mut stages = Stages::default();

    let mut binary = None;
    stages.run("binary", || {
        binary = Some(cargo::build_onefold(Profile::Debug)?);
        Ok(())
    });
    stages.run("servers", servers::provide);
    stages.run("documentation's examples", || {
        let mut examples = cargo::cargo(["test", "--doc", "--no-fail-fast"]);
        examples.args(tools::workspace()).args(tools::features_of_tests());
        cargo::run(examples.env(skips::VARIABLE, skips.path()))
    });
    stages.run("tests", || {
        let mut tests = if cargo::has_nextest() {
            println!("runner: cargo nextest");
            cargo::cargo(["nextest", "run", "--no-fail-fast"])
        } else {
            println!("runner: cargo test (cargo-nextest is not installed)");
            cargo::cargo(["test", "--tests", "--no-fail-fast"])
        };
        tests.args(tools::workspace()).args(tools::features_of_tests());
        tests.env(skips::VARIABLE, skips.path());
        if let Some(binary) = &binary {
            tests.env(BIN_VARIABLE, binary);
        }
        cargo::run(&mut tests)
    });
    stages.run("tidy", tidy::run);

    stages.print_times();
    if let Some(why) = tools::left_out() {
        println!("\nSKIPPED: {why}");
    }
    print!("\n{}", skips.finish(&Repository::read(cargo::root())?)?);
    stages.finish()
}
