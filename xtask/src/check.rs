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
/// which the tests of the workspace switch on; nor from what has Kafka where it is asked for, which the workspace leaves out.
pub fn clippy() -> Result<()> {
    let mut everything = tools::workspace();
    everything.push("--all-targets".to_owned());
    let mut all = vec![everything, vec!["--package=onefold".to_owned()]];
    if tools::left_out().is_none() {
        let with_kafka =
            ["--package=onefold-cli", "--package=bfstore", "--features=onefold-cli/kafka,bfstore/kafka"];
        all.push(with_kafka.into_iter().chain(["--all-targets"]).map(str::to_owned).collect());
    }
    for what in all {
        let mut clippy = cargo::cargo(["clippy", "--locked"]);
        cargo::run(clippy.args(what).args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}
