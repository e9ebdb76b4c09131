//! The file: records with checksums, appended and flushed; what is open is also in memory.
//!
//! Lock order: `synced` before `state`, never the other way round while the second is held.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use onefold_core::to_hex;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Intention, IntentionError};
use crate::limits::{INTENTION_NAME_BYTES_MAX, INTENTIONS_MAX, JOURNAL_DEAD_MAX};
use crate::{OperationKey, clock};

/// Hexadecimal digits of a record's checksum, then a blank.
const CHECKSUM_DIGITS: usize = 16;

#[derive(Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Record {
    Begin { v: u8, intention: String, key: String, at_ms: u64 },
    End { v: u8, intention: String },
}

pub(super) struct Journal {
    path: PathBuf,
    /// Held as long as this lives; the system lets go of it when the process ends.
    _lock: File,
    state: Mutex<State>,
    /// Up to which record the file is flushed.
    synced: Mutex<u64>,
}

struct State {
    file: Arc<File>,
    open: HashMap<String, Open>,
    /// Records appended by this process.
    written: u64,
    dead: usize,
    poisoned: bool,
}

struct Open {
    key: OperationKey,
    at: Duration,
    record: u64,
}

impl Journal {
    pub(super) fn open(path: &Path) -> Result<Journal, IntentionError> {
        let lock = lock(path)?;
        let (open, whole, lines) = read(path)?;
        let dead = lines - open.len();
        let file = options().append(true).create(true).open(path).map_err(|e| io_error(path, e))?;
        let cut = || {
            file.set_len(whole)?;
            file.sync_all()?;
            sync_folder(path)
        };
        cut().map_err(|e| io_error(path, e))?;
        let state = State { file: Arc::new(file), open, written: 0, dead, poisoned: false };
        let journal =
            Journal { path: path.to_owned(), _lock: lock, state: Mutex::new(state), synced: Mutex::new(0) };
        journal.write_anew_if_mostly_dead(1);
        Ok(journal)
    }

    pub(super) fn begin(
        &self,
        name: &str,
        wanted: Option<&OperationKey>,
    ) -> Result<Intention, IntentionError> {
        if name.is_empty() || name.len() > INTENTION_NAME_BYTES_MAX {
            return Err(IntentionError::Name);
        }
        let now = clock::since_epoch();
        let (intention, record) = {
            let mut state = self.state.lock();
            if let Some(open) = state.open.get(name) {
                if wanted.is_some_and(|key| *key != open.key) {
                    return Err(IntentionError::OtherKey);
                }
                (open.intention(name, now, true), open.record)
            } else if state.open.len() >= INTENTIONS_MAX {
                return Err(IntentionError::Full);
            } else {
                let key = wanted.cloned().unwrap_or_else(OperationKey::generate);
                let at_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
                let record = Record::Begin { v: 1, intention: name.into(), key: key.as_str().into(), at_ms };
                let record = state.append(&record).map_err(|e| self.failed(e))?;
                let open = Open { key, at: now, record };
                let intention = open.intention(name, now, false);
                state.open.insert(name.to_owned(), open);
                (intention, record)
            }
        };
        self.flush(record)?;
        Ok(intention)
    }

    pub(super) fn finish(&self, name: &str) -> Result<(), IntentionError> {
        let record = {
            let mut state = self.state.lock();
            if !state.open.contains_key(name) {
                return Ok(());
            }
            let record =
                state.append(&Record::End { v: 1, intention: name.into() }).map_err(|e| self.failed(e))?;
            state.open.remove(name);
            state.dead += 2;
            record
        };
        self.flush(record)?;
        self.write_anew_if_mostly_dead(JOURNAL_DEAD_MAX);
        Ok(())
    }

    pub(super) fn all(&self) -> Vec<Intention> {
        let now = clock::since_epoch();
        let state = self.state.lock();
        let mut all: Vec<Intention> =
            state.open.iter().map(|(name, open)| open.intention(name, now, true)).collect();
        all.sort_by(|a, b| b.age.cmp(&a.age).then_with(|| a.name.cmp(&b.name)));
        all
    }

    /// From now on the disk takes nothing more.
    #[cfg(test)]
    pub(super) fn break_disk(&self) {
        let read_only = File::open(&self.path).expect("it is there");
        self.state.lock().file = Arc::new(read_only);
    }

    /// Until this record is flushed. Whoever comes first flushes for all who have written by then.
    fn flush(&self, record: u64) -> Result<(), IntentionError> {
        let mut synced = self.synced.lock();
        let (file, written) = {
            let state = self.state.lock();
            if state.poisoned {
                return Err(IntentionError::Poisoned);
            }
            if *synced >= record {
                return Ok(());
            }
            (state.file.clone(), state.written)
        };
        if let Err(error) = file.sync_data() {
            // What the kernel still holds of it is not known: a second flush could succeed without having written.
            self.state.lock().poisoned = true;
            return Err(io_error(&self.path, error));
        }
        *synced = written;
        Ok(())
    }

    /// Writes what is open into a new file and puts it in the old one's place. When that fails the old file stays.
    fn write_anew_if_mostly_dead(&self, dead_min: usize) {
        let mut synced = self.synced.lock();
        let mut state = self.state.lock();
        if state.dead < dead_min || state.dead <= state.open.len() || state.poisoned {
            return;
        }
        // Not before as many are dead again, whether this succeeds or not.
        state.dead = 0;
        let new = with_suffix(&self.path, ".new");
        match write_new(&new, &state) {
            Err(_) => {
                // Nothing depends on it: the old file is whole.
                let _ = std::fs::remove_file(&new);
            }
            Ok(file) => {
                let replaced = std::fs::rename(&new, &self.path).and_then(|()| sync_folder(&self.path));
                state.poisoned = replaced.is_err();
                state.file = Arc::new(file);
                *synced = state.written;
            }
        }
    }

    fn failed(&self, error: AppendError) -> IntentionError {
        match error {
            AppendError::Poisoned => IntentionError::Poisoned,
            AppendError::Io(error) => io_error(&self.path, error),
        }
    }
}

enum AppendError {
    Poisoned,
    Io(io::Error),
}

impl State {
    /// Appends a record and gives its number.
    fn append(&mut self, record: &Record) -> Result<u64, AppendError> {
        if self.poisoned {
            return Err(AppendError::Poisoned);
        }
        if let Err(error) = (&*self.file).write_all(&line(record)) {
            // The line may be cut in the middle: nothing may stand behind it.
            self.poisoned = true;
            return Err(AppendError::Io(error));
        }
        self.written += 1;
        Ok(self.written)
    }
}

impl Open {
    fn intention(&self, name: &str, now: Duration, found: bool) -> Intention {
        let age = now.saturating_sub(self.at);
        Intention { name: name.to_owned(), key: self.key.clone(), found, age }
    }
}

fn lock(path: &Path) -> Result<File, IntentionError> {
    let beside = with_suffix(path, ".lock");
    let lock = options().write(true).create(true).open(&beside).map_err(|e| io_error(&beside, e))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(IntentionError::InUse(path.to_owned())),
        Err(TryLockError::Error(error)) => Err(io_error(&beside, error)),
    }
}

/// What is open, how many bytes are whole, and how many records there are.
fn read(path: &Path) -> Result<(HashMap<String, Open>, u64, usize), IntentionError> {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io_error(path, error)),
    }
    let (mut open, mut at, mut lines) = (HashMap::new(), 0, 0);
    while let Some(length) = bytes[at..].iter().position(|b| *b == b'\n') {
        let line = &bytes[at..at + length];
        let is_last = at + length + 1 == bytes.len();
        match parse(line) {
            Some(Record::Begin { intention, key, at_ms, .. }) => {
                let key = OperationKey::business(key);
                let key = key.map_err(|_| IntentionError::Damaged { path: path.to_owned(), at })?;
                open.insert(intention, Open { key, at: Duration::from_millis(at_ms), record: 0 });
            }
            Some(Record::End { intention, .. }) => {
                open.remove(&intention);
            }
            // A block of the last record that did not reach the disk reads as zeros.
            None if is_last && line.contains(&0) => break,
            None => return Err(IntentionError::Damaged { path: path.to_owned(), at }),
        }
        at += length + 1;
        lines += 1;
    }
    Ok((open, at as u64, lines))
}

fn line(record: &Record) -> Vec<u8> {
    let json = serde_json::to_vec(record).expect("a record is JSON");
    let mut line = checksum(&json).into_bytes();
    line.push(b' ');
    line.extend(json);
    line.push(b'\n');
    line
}

fn parse(line: &[u8]) -> Option<Record> {
    let (sum, json) = (line.get(..CHECKSUM_DIGITS)?, line.get(CHECKSUM_DIGITS + 1..)?);
    if sum != checksum(json).as_bytes() || line[CHECKSUM_DIGITS] != b' ' {
        return None;
    }
    let record = serde_json::from_slice(json).ok()?;
    matches!(record, Record::Begin { v: 1, .. } | Record::End { v: 1, .. }).then_some(record)
}

fn checksum(json: &[u8]) -> String {
    to_hex(&Sha256::digest(json)[..CHECKSUM_DIGITS / 2])
}

fn write_new(path: &Path, state: &State) -> io::Result<File> {
    let mut all = Vec::new();
    for (name, open) in &state.open {
        all.extend(line(&Record::Begin {
            v: 1,
            intention: name.clone(),
            key: open.key.as_str().to_owned(),
            at_ms: u64::try_from(open.at.as_millis()).unwrap_or(u64::MAX),
        }));
    }
    // One that a crash has left is of no use.
    let _ = std::fs::remove_file(path);
    let file = options().append(true).create_new(true).open(path)?;
    (&file).write_all(&all)?;
    file.sync_all()?;
    Ok(file)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// A file that was made or renamed is found after a power cut only when its folder is flushed too.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn io_error(path: &Path, error: io::Error) -> IntentionError {
    IntentionError::Io { path: path.to_owned(), error }
}
