//! Relative links in Markdown pages.
//!
//! A link must lead to a file or folder of this repository. Addresses on the web and anchors are not followed;
//! code, fenced or inline, has no links.

use anyhow::{Result, bail};

use crate::repository::{File, Repository};

/// Follows every relative link; prints those that lead nowhere.
pub fn check(repository: &Repository) -> Result<()> {
    let mut followed = 0;
    let mut broken = 0;
    for page in repository.ending(".md") {
        for (line, target) in relative_links(&page.text) {
            followed += 1;
            if !leads_somewhere(repository, page, target) {
                broken += 1;
                println!("{}:{line}: {target} leads nowhere", page.path);
            }
        }
    }
    println!("{followed} relative links followed");
    if broken > 0 {
        bail!("{broken} links lead nowhere");
    }
    Ok(())
}

fn leads_somewhere(repository: &Repository, page: &File, target: &str) -> bool {
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            part => parts.push(part),
        }
    }
    repository.holds(&parts.join("/"))
}

/// Each relative link with its line, without anchor or title.
fn relative_links(markdown: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    let mut fence = None;
    for (number, line) in (1..).zip(markdown.lines()) {
        let trimmed = line.trim_start();
        if let Some(mark) = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark)) {
            match fence {
                None => fence = Some(mark),
                Some(open) if open == mark => fence = None,
                Some(_) => {}
            }
        } else if fence.is_none() {
            links.extend(targets(line).filter_map(relative).map(|target| (number, target)));
        }
    }
    links
}

/// The targets of `[text](target)` and `[name]: target` in one line, outside inline code.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let definition = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .filter(|(name, _)| !name.starts_with('^'))
        .map(|(_, target)| target);
    let mut rest = line;
    let inline = std::iter::from_fn(move || {
        loop {
            let link = rest.find("](");
            let code = rest.find('`');
            match (link, code) {
                (None, _) => return None,
                (Some(link), Some(code)) if code < link => rest = after_code(&rest[code..]),
                (Some(link), _) => {
                    let (target, tail) = rest[link + 2..].split_once(')')?;
                    rest = tail;
                    return Some(target);
                }
            }
        }
    });
    definition.into_iter().chain(inline)
}

/// What follows the inline code with which this text opens.
fn after_code(text: &str) -> &str {
    let ticks = text.len() - text.trim_start_matches('`').len();
    let (mark, inside) = text.split_at(ticks);
    inside.split_once(mark).map_or(inside, |(_, rest)| rest)
}

/// The path of a target that is one of ours.
fn relative(target: &str) -> Option<&str> {
    let target = target.split_whitespace().next()?.trim_matches(['<', '>']);
    let path = target.split('#').next().unwrap_or_default();
    let has_scheme = target.contains("://") || target.starts_with("mailto:");
    (!path.is_empty() && !has_scheme).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code_and_web_addresses_are_left_alone() {
        let page = "see [a](docs/a.md#part), [web](https://example.com/x), [here](#part)\n\
                    `[no](code.md)` then [b](<b.md> \"title\") and ``[n`o](code.md)`` [c](c.md)\n\
                    ```\n[no](fenced.md)\n```\n[name]: d.md\n[^1]: a footnote\n";
        assert_eq!(relative_links(page), [(1, "docs/a.md"), (2, "b.md"), (2, "c.md"), (6, "d.md")]);
    }

    #[test]
    fn a_link_to_a_file_or_a_folder_of_the_repository_is_good() {
        let repository = Repository::sample(&[
            ("README.md", "[a](docs/a.md) [all](docs) [all](docs/)"),
            ("docs/a.md", "[up](../README.md) [me](a.md) [me](./a.md) [root](..)"),
        ]);
        check(&repository).unwrap();
    }

    #[test]
    fn a_link_that_leads_nowhere_or_out_of_the_repository_fails() {
        for link in ["docs/b.md", "doc", "../shared/x.md"] {
            let readme = format!("[broken]({link})");
            let repository = Repository::sample(&[("README.md", &readme), ("docs/a.md", "")]);
            assert!(check(&repository).is_err(), "{link}");
        }
    }
}
