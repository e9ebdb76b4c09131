//! Every file of code opens with a paragraph: what it promises, what is true after a crash, what it does not do.
//!
//! Whether the paragraph says that, only a reader can tell; that it is there, this rule can.

use super::Finding;
use crate::repository::Repository;

pub fn check(repository: &Repository) -> Vec<Finding> {
    let headless = repository.ending(".rs").filter(|file| !opens_with_header(&file.text));
    headless.map(|file| Finding::file(&file.path, "does not open with a paragraph `//! …`")).collect()
}

fn opens_with_header(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    first.starts_with("#![doc = include_str!(")
        || first.strip_prefix("//!").is_some_and(|says| !says.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_fails_and_so_does_an_empty_one() {
        for text in ["", "use std::fmt;\n//! late\n", "// not a header\n", "//!\n"] {
            let repository = Repository::sample(&[("e2e/tests/kill.rs", text)]);
            assert_eq!(check(&repository).len(), 1, "{text:?}");
        }
    }

    #[test]
    fn a_header_may_stand_in_a_page_of_its_own() {
        let repository = Repository::sample(&[
            ("crates/core/src/lib.rs", "//! The pure heart.\n"),
            ("crates/http/src/lib.rs", "#![doc = include_str!(\"../docs/http.md\")]\n"),
        ]);
        assert_eq!(check(&repository), []);
    }
}
