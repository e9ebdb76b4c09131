//! The files of this repository, as a commit of everything would hold them.
//!
//! Tracked files and new ones that no `.gitignore` names: a rule sees a file before it is committed, and never a
//! build's output. Needs git and a clone. Files that are not text are kept with their unreadable bytes replaced.

use std::path::Path;

use anyhow::{Context, Result};

use crate::cargo;

/// Every file, in the order of their paths.
pub struct Repository {
    files: Vec<File>,
}

/// One file.
pub struct File {
    /// From the root, with `/` between folders.
    pub path: String,
    /// What it says.
    pub text: String,
}

impl Repository {
    /// Reads the repository at the root of the workspace.
    pub fn read(root: &Path) -> Result<Self> {
        let list = cargo::output(cargo::command("git").current_dir(root).args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "--deduplicate",
        ]))
        .context("the list of files comes from git")?;
        let list = String::from_utf8(list).context("a file's name is not UTF-8")?;
        let mut files = Vec::new();
        for path in list.split('\0').filter(|path| !path.is_empty()) {
            let on_disk = root.join(path);
            if on_disk.is_file() {
                let bytes = std::fs::read(&on_disk).with_context(|| format!("cannot read {path}"))?;
                files.push(File { path: path.into(), text: String::from_utf8_lossy(&bytes).into_owned() });
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// Every file.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// The file at this path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok().map(|found| &self.files[found])
    }

    /// Whether this path is a file, or a folder with one in it.
    pub fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty() || self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }

    /// The files whose name ends so.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| file.path.ends_with(end))
    }

    /// A repository made of samples.
    #[cfg(test)]
    pub fn sample(files: &[(&str, &str)]) -> Self {
        let mut files: Vec<File> =
            files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() }).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_repository_has_this_file_and_no_build_output() {
        let repository = Repository::read(cargo::root()).unwrap();
        let this = repository.file("xtask/src/repository.rs").expect("this file is part of the repository");
        assert!(this.text.starts_with("//! The files of this repository"));
        assert!(
            repository.holds("xtask/src") && !repository.holds("xtask/sr") && !repository.holds("target")
        );
    }
}
