//! No crate reads a clock, except in a file named `clock.rs`.
//!
//! Lease and retention are durations that the store compares, and `decide` is told the time: a clock read
//! elsewhere is a second judge, and time that a test cannot set. Tokio's `Instant` may measure a timeout, since
//! tests can pause it. A line with `// clock: reason`, or with such a line above it, is an exception that says
//! why. Tests that drive the real binary, benchmarks and this tool live outside of `crates` and may read clocks.

use super::Finding;
use crate::repository::Repository;

const READINGS: [&str; 6] =
    ["SystemTime::now", "Instant::now", "Utc::now", "Timestamp::now", "Zoned::now", "UNIX_EPOCH.elapsed"];

/// Gives the reason for an exception.
const MARK: &str = "// clock: ";

pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.ending(".rs").filter(|file| file.path.starts_with("crates/")) {
        if file.path.ends_with("/clock.rs") {
            continue;
        }
        let tokio = imports_tokio_instant(&file.text);
        let mut above = "";
        for (number, line) in (1..).zip(file.text.lines()) {
            if let Some(reading) = reading(line, tokio)
                && !is_reasoned(line)
                && !is_reasoned(above)
            {
                let text = format!("{reading} reads a clock; ask the file clock.rs, or say why: `{MARK}…`");
                findings.push(Finding::line(&file.path, number, text));
            }
            above = line;
        }
    }
    findings
}

/// The clock that this line reads.
fn reading(line: &str, imports_tokio_instant: bool) -> Option<&'static str> {
    let code = line.split("//").next().unwrap_or_default();
    READINGS.into_iter().find(|reading| {
        code.match_indices(reading).any(|(at, _)| {
            let path = &code[..at];
            let is_tokio = *reading == "Instant::now"
                && (path.ends_with("tokio::time::") || imports_tokio_instant && !path.ends_with("::"));
            let is_other_name = path.ends_with(|last: char| last.is_alphanumeric() || last == '_');
            !is_tokio && !is_other_name
        })
    })
}

fn is_reasoned(line: &str) -> bool {
    line.split_once(MARK).is_some_and(|(_, reason)| !reason.trim().is_empty())
}

/// Whether `Instant` means tokio's in this file.
fn imports_tokio_instant(text: &str) -> bool {
    text.split("use tokio::time::")
        .skip(1)
        .filter_map(|rest| rest.split(';').next())
        .any(|names| names.split(|c: char| !c.is_alphanumeric()).any(|name| name == "Instant"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> usize {
        check(&Repository::sample(&[(path, text)])).len()
    }

    #[test]
    fn a_crate_that_reads_a_clock_fails() {
        for reading in READINGS {
            let text = format!("let now = {reading}();\nlet now = std::time::{reading}();\n");
            assert_eq!(lines("crates/engine/src/lease.rs", &text), 2, "{reading}");
        }
        let both = "use std::time::Duration;\nuse tokio::time::sleep;\nlet start = Instant::now();\n";
        assert_eq!(lines("crates/engine/src/lease.rs", both), 1);
        assert_eq!(lines("crates/engine/src/lease.rs", "let now = Instant::now(); // clock: \n"), 1);
    }

    #[test]
    fn clock_files_and_what_is_outside_of_the_crates_may_read_it() {
        let text = "let now = SystemTime::now();\n";
        for path in ["crates/engine/src/clock.rs", "testkit/src/wait.rs", "bench/src/main.rs"] {
            assert_eq!(lines(path, text), 0, "{path}");
        }
        assert_eq!(lines("crates/engine/src/o'clock.rs", text), 1);
    }

    #[test]
    fn tokio_s_instant_a_reason_and_a_comment_pass() {
        let path = "crates/gateway/src/forward.rs";
        for text in [
            "let start = tokio::time::Instant::now();\n",
            "use tokio::time::{Duration, Instant};\nlet start = Instant::now();\n",
            "let now = SystemTime::now(); // clock: the Date header of an answer\n",
            "// clock: the Date header of an answer\nlet now = SystemTime::now();\n",
            "/// Never calls SystemTime::now.\n",
            "let now = MyInstant::now();\n",
        ] {
            assert_eq!(lines(path, text), 0, "{text}");
        }
        let other = "use tokio::time::Instant;\nlet start = std::time::Instant::now();\n";
        assert_eq!(lines(path, other), 1);
    }
}
