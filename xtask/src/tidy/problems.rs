//! Every problem has its page, and every page its problem.
//!
//! The catalogue is `crates/core/src/problem.rs`: a literal in lower-case words joined by `-` is a code, and a
//! reader who meets the code finds `docs/errors/CODE.md`. A page whose name no crate says is for an error that
//! nobody can meet.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository::Repository;

const CATALOGUE: &str = "crates/core/src/problem.rs";
const PAGES: &str = "docs/errors/";

pub fn check(repository: &Repository) -> Vec<Finding> {
    let Some(catalogue) = repository.file(CATALOGUE) else {
        return vec![Finding::file(CATALOGUE, "the catalogue of problems is not here any more")];
    };
    let mut findings = Vec::new();
    let codes: BTreeSet<&str> = codes(&catalogue.text).collect();
    if codes.is_empty() {
        findings.push(Finding::file(CATALOGUE, "no code is found in the catalogue"));
    }
    for code in codes {
        if repository.file(&format!("{PAGES}{code}.md")).is_none() {
            findings.push(Finding::file(CATALOGUE, format!("{code} has no page {PAGES}{code}.md")));
        }
    }
    for page in repository.files() {
        let name = page.path.strip_prefix(PAGES).and_then(|name| name.strip_suffix(".md"));
        if let Some(name) = name.filter(|name| *name != "README" && !is_said(repository, name)) {
            findings.push(Finding::file(&page.path, format!("no crate says the code {name}")));
        }
    }
    findings
}

/// The codes that this file's code says, its tests left out.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split('"').skip(1).step_by(2)).filter(|literal| is_code(literal))
}

fn is_code(literal: &str) -> bool {
    literal.split('-').all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()))
}

fn is_said(repository: &Repository, code: &str) -> bool {
    let mut sources = repository.ending(".rs").filter(|file| file.path.starts_with("crates/"));
    sources.any(|file| codes(&file.text).any(|said| said == code))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! says \"nothing\"\nP::A => (\"key-missing\", 400, \"A key is needed\"),\n\
                          P::B => (\"forbidden\", 403, \"No\"),\n#[cfg(test)]\nassert(\"not-a-code\")\n";

    fn texts(files: &[(&str, &str)]) -> Vec<String> {
        check(&Repository::sample(files)).into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn a_code_without_a_page_fails() {
        let found = texts(&[(CATALOGUE, SOURCE), ("docs/errors/forbidden.md", "# forbidden")]);
        assert_eq!(found, ["key-missing has no page docs/errors/key-missing.md"]);
    }

    #[test]
    fn a_page_without_a_code_fails() {
        let found = texts(&[
            (CATALOGUE, "(\"forbidden\", 403)"),
            ("docs/errors/README.md", ""),
            ("docs/errors/forbidden.md", ""),
            ("docs/errors/gone.md", ""),
        ]);
        assert_eq!(found, ["no crate says the code gone"]);
    }

    #[test]
    fn a_catalogue_that_moved_or_is_not_understood_fails() {
        assert_eq!(texts(&[]).len(), 1);
        assert_eq!(texts(&[(CATALOGUE, "//! Empty.\n")]), ["no code is found in the catalogue"]);
    }
}
