//! `docs`: the documentation builds without a warning, and every relative link of every page leads somewhere.

use anyhow::Result;

use crate::{cargo, links, repository::Repository, stages::Stages, tools};

/// Runs the verb.
pub fn run() -> Result<()> {
    let mut stages = Stages::default();
    stages.run("rustdoc", || {
        let mut doc = cargo::cargo(["doc", "--all-features", "--no-deps", "--locked"]);
        doc.args(tools::workspace());
        cargo::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    });
    stages.run("links", || links::check(&Repository::read(cargo::root())?));
    stages.finish()
}
