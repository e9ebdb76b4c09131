//! `docs`: the documentation builds without a warning, and every relative link of every page leads somewhere.

use anyhow::Result;

use crate::{cargo, links, repository::Repository, stages::Stages};

/// Runs the verb.
pub fn run() -> Result<()> {
    let mut stages = Stages::default();
    stages.run("rustdoc", || {
        let mut doc = cargo::cargo(["doc", "--workspace", "--all-features", "--no-deps", "--locked"]);
        cargo::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
    });
    stages.run("links", || links::check(&Repository::read(cargo::root())?));
    stages.finish()
}
