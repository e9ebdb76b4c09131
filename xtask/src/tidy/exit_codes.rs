//! Every exit code of the command has a row in a table of the documentation.
//!
//! A code is a number in a file of `crates/cli` named `exit…`, given to a constant or a variant or answered by an
//! arm, or a number written into `ExitCode::from(…)` anywhere in that crate. Scripts branch on these numbers, so a
//! page in `docs` has a row that opens with each: `| 65 | …`.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::{File, Repository};

const COMMAND: &str = "crates/cli/src/";

pub fn check(repository: &Repository) -> Vec<Finding> {
    let documented: BTreeSet<u8> = repository
        .ending(".md")
        .filter(|page| page.path.starts_with("docs/"))
        .flat_map(|page| page.text.lines().filter_map(row))
        .collect();
    let mut findings = Vec::new();
    for file in repository.ending(".rs").filter(|file| file.path.starts_with(COMMAND)) {
        for code in codes(file).difference(&documented) {
            findings
                .push(Finding::file(&file.path, format!("no table in docs has a row for exit code {code}")));
        }
    }
    findings
}

/// The number with which a row of a table opens.
fn row(line: &str) -> Option<u8> {
    let first = line.trim().strip_prefix('|')?.split('|').next()?;
    first.trim().trim_matches('`').parse().ok()
}

fn codes(file: &File) -> BTreeSet<u8> {
    let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let mut marks = vec!["ExitCode::from("];
    if name.starts_with("exit") {
        marks.extend(["= ", "=> "]);
    }
    marks.into_iter().flat_map(|mark| code.split(mark).skip(1)).filter_map(number).collect()
}

/// The whole number with which this text opens, not followed by a letter or a fraction.
fn number(text: &str) -> Option<u8> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (digits, rest) = text.split_at(digits);
    let ends = rest.starts_with([',', ';', ')', ' ', '\n', '}']);
    digits.parse().ok().filter(|_| ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(files: &[(&str, &str)]) -> Vec<String> {
        check(&Repository::sample(files)).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn an_exit_code_without_a_row_fails() {
        let page =
            ("docs/exit-codes.md", "| code | meaning |\n| --- | --- |\n| 0 | done |\n| `65` | conflict |\n");
        for (path, text) in [
            ("crates/cli/src/exit.rs", "pub const DONE: u8 = 0;\npub const UNKNOWN: u8 = 76;\n"),
            ("crates/cli/src/exit.rs", "enum Exit {\n    Conflict = 65,\n    Unknown = 76,\n}\n"),
            (
                "crates/cli/src/exit.rs",
                "match self {\n    Exit::Conflict => 65,\n    Exit::Unknown => 76 }\n",
            ),
            ("crates/cli/src/main.rs", "let limit = 70;\nreturn ExitCode::from(76);\n"),
        ] {
            assert_eq!(
                texts(&[page, (path, text)]),
                ["no table in docs has a row for exit code 76"],
                "{text}"
            );
        }
    }

    #[test]
    fn documented_codes_pass_and_tests_are_not_looked_at() {
        let page = ("docs/cli.md", "| 2 | usage |\n");
        let source = ("crates/cli/src/exit.rs", "const USAGE: u8 = 2;\n#[cfg(test)]\nlet code = 99;\n");
        assert_eq!(texts(&[page, source]), [""; 0]);
        assert_eq!(texts(&[source]).len(), 1, "no page at all");
    }
}
