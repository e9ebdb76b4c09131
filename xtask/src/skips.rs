//! The list of what a test run left out, with reasons.
//!
//! Two sources: lines that tests appended to the file named by `ONEFOLD_SKIPS`, and tests marked
//! `ignore = "reason"`, which the runner never starts. Tidy refuses an ignored test without a reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::repository::Repository;

/// Names the file to which a test appends its line.
pub const VARIABLE: &str = "ONEFOLD_SKIPS";
/// Opens such a line.
const MARK: &str = "SKIPPED: ";

/// The file of one run.
pub struct Report {
    path: PathBuf,
}

impl Report {
    /// An empty file beside this tool, in the target folder, for this process alone.
    pub fn start() -> Result<Self> {
        let this = std::env::current_exe()?;
        let path = this.with_file_name(format!("xtask-skips-{}.txt", std::process::id()));
        std::fs::write(&path, "")?;
        Ok(Self { path })
    }

    /// Where tests append.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The closing list; the file is removed.
    pub fn finish(self, repository: &Repository) -> Result<String> {
        let reported = std::fs::read_to_string(&self.path)?;
        std::fs::remove_file(&self.path)?;
        Ok(list(&reported, &ignored(repository)))
    }
}

fn list(reported: &str, ignored: &[String]) -> String {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for line in reported.lines().map(str::trim).filter(|line| !line.is_empty()) {
        *times.entry(line.strip_prefix(MARK).unwrap_or(line)).or_default() += 1;
    }
    for line in ignored {
        *times.entry(line).or_default() += 1;
    }
    if times.is_empty() {
        return "nothing was skipped\n".into();
    }
    let mut list = String::from("skipped:\n");
    for (line, times) in times {
        let times = if times > 1 { format!(" ({times} times)") } else { String::new() };
        list.push_str(&format!("  {line}{times}\n"));
    }
    list
}

/// `name: reason` of every ignored test.
fn ignored(repository: &Repository) -> Vec<String> {
    let mut found = Vec::new();
    for file in repository.ending(".rs") {
        let mut lines = file.text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            let Some(reason) = line.strip_prefix(concat!("#[", "ignore = \"")) else { continue };
            let reason = reason.trim_end_matches("\"]");
            let name = lines.by_ref().find_map(function_name).unwrap_or("a test");
            found.push(format!("{name} ({}): {reason}", file.path));
        }
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    rest.split(['(', '<']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_skips_says_so() {
        assert_eq!(list("", &[]), "nothing was skipped\n");
    }

    #[test]
    fn each_reason_is_listed_once_with_its_count() {
        let reported =
            "SKIPPED: proxy: no nginx here\nSKIPPED: fuse: not root\nSKIPPED: proxy: no nginx here\n";
        let listed = list(reported, &["slow (a.rs): takes a day".into()]);
        assert_eq!(
            listed,
            "skipped:\n  fuse: not root\n  proxy: no nginx here (2 times)\n  slow (a.rs): takes a day\n"
        );
    }

    #[test]
    fn ignored_tests_are_found_with_their_reason() {
        let text = concat!("#[test]\n#[", "ignore = \"takes a day\"]\nasync fn slow() {}\n");
        let repository = Repository::sample(&[("crates/a/src/lib.rs", text)]);
        assert_eq!(ignored(&repository), ["slow (crates/a/src/lib.rs): takes a day"]);
    }
}
