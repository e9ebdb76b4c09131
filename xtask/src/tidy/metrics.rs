//! Every metric is documented in `docs/metrics.md`, and every metric documented there exists.
//!
//! A metric's name in code is a literal `"onefold_…"` in the sources of a crate.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::Repository;

const PAGE: &str = "docs/metrics.md";
const PREFIX: &str = "onefold_";

pub fn check(repository: &Repository) -> Vec<Finding> {
    let page = repository.file(PAGE).map_or("", |page| page.text.as_str());
    let documented: BTreeSet<&str> = words(page).collect();
    let mut findings = Vec::new();
    let sources = repository.ending(".rs").filter(|file| file.path.starts_with("crates/"));
    for file in sources {
        for (number, line) in (1..).zip(file.text.lines()) {
            for name in literals(line).filter(|name| !documented.contains(name)) {
                findings.push(Finding::line(&file.path, number, format!("{name} is not in {PAGE}")));
            }
        }
    }
    findings
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| word.starts_with(PREFIX))
}

/// The string literals of this line that are a metric's name and nothing else.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    let is_name = |text: &&str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    line.split('"').skip(1).step_by(2).filter(|text| text.starts_with(PREFIX)).filter(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: (&str, &str) =
        ("crates/engine/src/metrics.rs", "register(\"onefold_operations\", help);\n");

    #[test]
    fn a_metric_without_a_line_in_the_page_fails() {
        let found = check(&Repository::sample(&[SOURCE, (PAGE, "`onefold_operations_total`\n")]));
        assert_eq!(found.len(), 1);
        assert_eq!(check(&Repository::sample(&[SOURCE])).len(), 1, "no page at all");
        assert_eq!(check(&Repository::sample(&[SOURCE, (PAGE, "| `onefold_operations` | … |\n")])), []);
    }
}
