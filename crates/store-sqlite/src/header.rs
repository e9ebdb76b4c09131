//! What a file is, told from its first hundred bytes before SQLite touches it.
//!
//! A file of another program is never opened: even a reader of SQLite may roll back a journal or make files beside
//! it. Our own files carry our application id, which is written with the first schema in one transaction and before
//! the log is switched on, so it always stands in the file itself. A service's file keeps its own id, and says in the
//! header whether its journal is the write-ahead log.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use crate::OpenError;

/// `OneF`: marks the file as ours.
pub(crate) const APPLICATION_ID: i32 = 0x4F6E_6546;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER: u64 = 100;
/// The write and read version of a file whose journal is the log.
const WAL_VERSIONS: [u8; 2] = [2, 2];

/// What stands at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing, or an empty file.
    Nothing,
    /// A file of our own.
    Ours,
    /// Somebody else's database.
    Foreign {
        /// Whether its journal is the write-ahead log.
        log: bool,
    },
}

/// Looks at the file without changing it.
pub(crate) fn inspect(path: &Path) -> Result<Found, OpenError> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {}
        // Opening a pipe would wait for somebody to write into it.
        Ok(_) => return Err(OpenError::NotADatabase(path.to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(OpenError::io(path, &error)),
    }
    let mut file = File::open(path).map_err(|error| OpenError::io(path, &error))?;
    let mut header = Vec::new();
    file.by_ref().take(HEADER).read_to_end(&mut header).map_err(|error| OpenError::io(path, &error))?;
    if header.is_empty() {
        return Ok(Found::Nothing);
    }
    if header.len() < HEADER as usize || !header.starts_with(MAGIC) {
        return Err(OpenError::NotADatabase(path.to_owned()));
    }
    if word(&header, 68) != APPLICATION_ID as u32 {
        return Ok(Found::Foreign { log: header[18..20] == WAL_VERSIONS });
    }
    Ok(Found::Ours)
}

/// A big-endian word of the header (SQLite file format, 1.3).
fn word(header: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}
