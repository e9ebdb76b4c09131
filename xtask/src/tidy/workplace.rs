//! Nothing in the repository names the machine it was written on.
//!
//! An absolute path into somebody's folders works for nobody else. Every file is looked at, pages and the lock
//! file included.

use super::Finding;
use crate::repository::Repository;

// In pieces, so that this file does not hold what it forbids.
const FOLDERS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!(".lib", "rary"),
];

pub fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.files() {
        for (number, line) in (1..).zip(file.text.lines()) {
            for folder in FOLDERS.into_iter().filter(|folder| names(line, folder)) {
                findings.push(Finding::line(
                    &file.path,
                    number,
                    format!("names a folder of one machine: {folder}"),
                ));
            }
        }
    }
    findings
}

/// Whether the line holds this as the start of a path, not as the middle of a longer one with a folder of that name.
fn names(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        folder.starts_with('.') || !before.is_some_and(|c| c.is_alphanumeric() || "._-{}*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_fails_in_any_file() {
        for folder in FOLDERS {
            for text in
                [format!("see {folder}x"), format!("ok\n\"{folder}notes\""), format!("file://{folder}x")]
            {
                let repository = Repository::sample(&[("docs/page.md", &text)]);
                assert_eq!(check(&repository).len(), 1, "{text}");
            }
        }
    }

    #[test]
    fn a_folder_of_that_name_inside_a_path_passes() {
        let text = format!("src{0}x example.com{0}x", FOLDERS[0]);
        assert_eq!(check(&Repository::sample(&[("docs/page.md", &text)])), []);
    }
}
