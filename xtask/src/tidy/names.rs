//! No room without a name.
//!
//! A file or folder of code that is called after nothing in particular takes in everything.

use super::Finding;
use crate::repository::Repository;

const NAMELESS: [&str; 8] = ["util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"];

pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.ending(".rs") {
        let rooms = file.path.trim_end_matches(".rs").split('/');
        for room in rooms.filter(|room| NAMELESS.contains(room)) {
            findings.push(Finding::file(&file.path, format!("`{room}` names nothing: what is in it?")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_or_folder_that_is_named_after_nothing_fails() {
        for path in ["crates/core/src/utils.rs", "e2e/tests/common/mod.rs", "crates/helpers/src/lib.rs"] {
            assert_eq!(check(&Repository::sample(&[(path, "")])).len(), 1, "{path}");
        }
        assert_eq!(check(&Repository::sample(&[("crates/core/src/commons.rs", "")])), []);
    }
}
