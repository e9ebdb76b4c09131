//! `ci`: what must pass before a change lands, cheapest first.
//!
//! Ends with the README's two commands, run as they stand there. Every stage is run; the times and a line with the
//! counts close the run.

use anyhow::{Context, Result};

use crate::{audit, cargo, check, docs, readme, stages::Stages};

/// Runs the verb.
pub fn run() -> Result<()> {
    let mut stages = Stages::default();
    stages.run("formatting", check::formatting);
    stages.run("audit", audit::run);
    stages.run("clippy", check::clippy);
    stages.run("docs", docs::run);
    stages.run("README's commands", readme::check);
    stages.run(readme::TEST, || command_line(readme::TEST));
    stages.run(readme::DEMO, || command_line(readme::DEMO));
    stages.print_times();
    println!("\n{}", stages.count());
    stages.finish()
}

fn command_line(line: &str) -> Result<()> {
    let mut words = line.split_whitespace();
    let program = words.next().context("an empty command")?;
    cargo::run(cargo::command(program).args(words))
}
