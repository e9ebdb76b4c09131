//! Recordings of what real services have sent. They lie beside the project and are read in place; a test that needs some
//! that are missing says that it is skipped.

use std::path::{Path, PathBuf};

use crate::skipped::skipped;

const PLACE: &str = "../../shared/cases/files";

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(PLACE).join(name)
}

fn missing(name: &str) {
    skipped(name, &format!("not at {PLACE}"));
}

/// A recorded body; `None` after saying that it is skipped.
#[must_use]
pub fn body(file: &str) -> Option<Vec<u8>> {
    let body = std::fs::read(place(file)).ok();
    if body.is_none() {
        missing(file);
    }
    body
}

/// The recordings of a folder with this extension, by their names; none after saying that they are skipped.
#[must_use]
pub fn all(folder: &str, extension: &str) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(place(folder)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    if files.is_empty() {
        missing(folder);
    }
    let read = |path: PathBuf| {
        let body = std::fs::read(&path).expect("a recording can be read");
        (path.display().to_string(), body)
    };
    files.into_iter().map(read).collect()
}
