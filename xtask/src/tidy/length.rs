//! No file of code is longer than a reader can hold.
//!
//! A file over 400 lines is told; one over 600 hides a second room and fails. What a program has written, and says so
//! in its first line, nobody reads.

use super::{Finding, Severity};
use crate::repository::Repository;

/// Wanted.
const LINES_WANTED: usize = 400;
/// The end.
const LINES_MAX: usize = 600;
/// How a file begins that a program has written.
const WRITTEN: &str = "//! Written from ";

pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.ending(".rs").filter(|file| !file.text.starts_with(WRITTEN)) {
        let lines = file.text.lines().count();
        if lines > LINES_WANTED {
            let severity = if lines > LINES_MAX { Severity::Failure } else { Severity::Warning };
            let text = format!("{lines} lines; {LINES_WANTED} are wanted, {LINES_MAX} are the end");
            findings.push(Finding { severity, ..Finding::file(&file.path, text) });
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn severity(lines: usize) -> Option<Severity> {
        let text = "//! x\n".repeat(lines);
        let findings = check(&Repository::sample(&[("crates/core/src/lib.rs", &text)]));
        findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn what_a_program_has_written_may_be_long() {
        let long = "//! x\n".repeat(601);
        let written = format!("{WRITTEN}`shop.proto` by a test.\n{long}");
        assert_eq!(check(&Repository::sample(&[("crates/grpc/proto/shop.rs", &written)])), []);
        // Only its first line says so.
        let by_hand = format!("//! x\n{written}");
        assert_eq!(check(&Repository::sample(&[("crates/grpc/src/lib.rs", &by_hand)])).len(), 1);
    }

    #[test]
    fn a_file_is_warned_of_over_400_lines_and_fails_over_600() {
        assert_eq!(severity(400), None);
        assert_eq!(severity(401), Some(Severity::Warning));
        assert_eq!(severity(600), Some(Severity::Warning));
        assert_eq!(severity(601), Some(Severity::Failure));
    }
}
