//! The bytes of a SQLite store on disk, with its log: what a thief of the disk would see.

use onefold_testkit::Setup;
use onefold_testkit::wire::find;

/// All bytes of the store's files.
///
/// # Panics
/// When the store's file cannot be read.
#[must_use]
pub fn of(setup: &Setup) -> Vec<u8> {
    let path = setup.store_path();
    let mut bytes = std::fs::read(&path).expect("reads the store");
    for suffix in ["-wal", "-shm", "-journal"] {
        let beside = format!("{}{suffix}", path.display());
        bytes.extend(std::fs::read(beside).unwrap_or_default());
    }
    bytes
}

/// Whether the store's files contain this text.
#[must_use]
pub fn contains(setup: &Setup, text: &str) -> bool {
    find(&of(setup), text.as_bytes()).is_some()
}
