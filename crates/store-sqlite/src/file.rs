//! Which file the store is, beyond its name.
//!
//! SQLite goes on with an open file whose name was taken away, and what is written there is gone with the process: the
//! next start would begin with an empty store, and every key would be new again. So a file that is not at its path
//! any more is not written to.

use std::fs::{Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Readable and writable by its owner alone: answers are in it.
const MODE: u32 = 0o600;

/// A file of the file system, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file that is at the path now.
    pub(crate) fn at(path: &Path) -> io::Result<FileId> {
        std::fs::metadata(path)
            .map(|metadata: Metadata| FileId { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// Makes the file, empty, if there is none.
pub(crate) fn make(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path).map(drop)
}
