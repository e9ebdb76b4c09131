//! `check`: formatting, clippy and tidy. The quick look before a commit; it runs no test.

use anyhow::Result;

use crate::{cargo, stages::Stages, tidy, tools};

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

/// No warning from the compiler or clippy, tests and benchmarks included; nor from the library without its features,
/// which the tests of the workspace switch on.
pub fn clippy() -> Result<()> {
    let mut everything = tools::workspace();
    everything.push("--all-targets".to_owned());
    for what in [everything, vec!["--package".to_owned(), "onefold".to_owned()]] {
        let mut clippy = cargo::cargo(["clippy", "--locked"]);
        cargo::run(clippy.args(what).args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}
