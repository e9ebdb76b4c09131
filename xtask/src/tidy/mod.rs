//! `tidy`: the rules of this repository that no compiler knows.
//!
//! One file for each rule, which says what it holds and why. A rule looks at the text of the files and changes
//! nothing; it errs on the side of silence where text cannot tell, so a pass is no proof. Each rule has a test
//! that shows it failing on a bad sample.

use anyhow::{Result, bail};

use crate::{cargo, repository::Repository};

mod clock;
mod exit_codes;
mod header;
mod imports;
mod length;
mod marks;
mod metrics;
mod names;
mod problems;
mod workplace;

/// A rule's name, as it stands in the output, and what it finds.
type Rule = (&'static str, fn(&Repository) -> Vec<Finding>);

const RULES: [Rule; 10] = [
    ("imports", imports::check),
    ("length", length::check),
    ("header", header::check),
    ("clock", clock::check),
    ("names", names::check),
    ("marks", marks::check),
    ("metrics", metrics::check),
    ("problems", problems::check),
    ("exit codes", exit_codes::check),
    ("workplace", workplace::check),
];

/// What a rule has to say about one place.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    place: String,
    text: String,
    severity: Severity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    /// Worth a look; the rule passes.
    Warning,
    /// The rule fails.
    Failure,
}

impl Finding {
    /// A failure of a whole file.
    fn file(path: &str, text: impl Into<String>) -> Self {
        Self { place: path.into(), text: text.into(), severity: Severity::Failure }
    }

    /// A failure in one line, counted from 1.
    fn line(path: &str, number: usize, text: impl Into<String>) -> Self {
        Self::file(&format!("{path}:{number}"), text)
    }
}

/// Runs the verb.
pub fn run() -> Result<()> {
    let repository = Repository::read(cargo::root())?;
    let mut failed = Vec::new();
    for (name, check) in RULES {
        let findings = check(&repository);
        for Finding { place, text, severity } in &findings {
            let word = if *severity == Severity::Warning { "warning" } else { "failure" };
            println!("{name}: {word}: {place}: {text}");
        }
        if findings.iter().any(|finding| finding.severity == Severity::Failure) {
            failed.push(name);
        }
    }
    println!("tidy: {} passed, {} failed, 0 skipped", RULES.len() - failed.len(), failed.len());
    if !failed.is_empty() {
        bail!("broken rules: {}", failed.join(", "));
    }
    Ok(())
}
