//! No stub, no note to oneself, no test that is ignored without a reason.
//!
//! What is not there is not mentioned; what is unfinished is an issue.

use super::Finding;
use crate::repository::Repository;

// In pieces, so that this file does not hold what it forbids.
const FORBIDDEN: [(&str, &str); 5] = [
    (concat!("todo", "!("), "a stub"),
    (concat!("unimplemented", "!("), "a stub"),
    (concat!("FIX", "ME"), "a note to oneself"),
    (concat!("XX", "X"), "a note to oneself"),
    (concat!("#[", "ignore]"), "a test that is ignored without a reason: `= \"…\"`"),
];

pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.ending(".rs") {
        for (number, line) in (1..).zip(file.text.lines()) {
            for (mark, what) in FORBIDDEN {
                if line.contains(mark) {
                    findings.push(Finding::line(&file.path, number, format!("{mark} is {what}")));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_fails() {
        for (mark, _) in FORBIDDEN {
            let text = format!("//! A file.\n  {mark}\n");
            let found = check(&Repository::sample(&[("crates/core/src/lib.rs", &text)]));
            assert_eq!(found.len(), 1, "{mark}");
            assert_eq!(found[0].place, "crates/core/src/lib.rs:2");
        }
    }

    #[test]
    fn an_ignored_test_with_its_reason_passes() {
        let text = concat!("#[", "ignore = \"takes a day\"]\n");
        assert_eq!(check(&Repository::sample(&[("e2e/tests/long.rs", text)])), []);
    }
}
