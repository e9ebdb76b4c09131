//! `crash`: the matrix of deaths with every passage of every crash point, with its table shown.
//!
//! The same tests run in `test` with the first and the last passage of each point in each scenario
//! (`crates/library/tests/crashes`); what is passed in between is added here.

use anyhow::Result;

use crate::{cargo, servers, stages::Stages};

/// Tells the tests to leave out no passage.
const ALL_VARIABLE: &str = "ONEFOLD_CRASH_ALL";

/// Runs the verb.
pub fn run() -> Result<()> {
    let mut stages = Stages::default();
    stages.run("servers", servers::provide);
    stages.run("deaths", || {
        let which = ["--package", "onefold-library", "--test", "crashes"];
        let mut tests = if cargo::has_nextest() {
            let mut tests = cargo::cargo(["nextest", "run", "--profile", "kill", "--no-capture"]);
            tests.args(which);
            tests
        } else {
            let mut tests = cargo::cargo(["test"]);
            tests.args(which).args(["--", "--nocapture"]);
            tests
        };
        cargo::run(tests.env(ALL_VARIABLE, "1"))
    });
    stages.print_times();
    stages.finish()
}
