//! The raw limit: a preallocated file to which what waits is appended in one write and synced once.
//!
//! It keeps nothing that could be read again, checks nothing and finds nothing; it only makes bytes durable for groups
//! as the store does.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use tokio::sync::oneshot;

/// The file is written from its start again when it is full, so that no append makes it longer.
const FILE_BYTES: usize = 256 << 20;
/// More than there are tasks.
const WAITING_MAX: usize = 8192;

struct Entry {
    bytes: Vec<u8>,
    synced: oneshot::Sender<()>,
}

/// A log that is open.
pub(crate) struct RawLog {
    entries: Option<SyncSender<Entry>>,
    writer: Option<JoinHandle<io::Result<()>>>,
}

impl RawLog {
    /// Makes the file and allocates it.
    pub(crate) fn create(path: &Path) -> Result<RawLog> {
        let mut file = File::create(path)?;
        let block = vec![0; 1 << 20];
        for _ in 0..FILE_BYTES / block.len() {
            file.write_all(&block)?;
        }
        file.sync_all()?;
        let (entries, waiting) = sync_channel(WAITING_MAX);
        let writer = std::thread::spawn(move || write(&file, &waiting));
        Ok(RawLog { entries: Some(entries), writer: Some(writer) })
    }

    /// Appends; returns when the bytes are durable.
    pub(crate) async fn append(&self, bytes: Vec<u8>) -> Result<()> {
        let (synced, durable) = oneshot::channel();
        let entries = self.entries.as_ref().context("the log is open")?;
        entries.try_send(Entry { bytes, synced }).context("the log has stopped")?;
        durable.await.context("the log has stopped")
    }
}

impl Drop for RawLog {
    fn drop(&mut self) {
        self.entries = None;
        if let Some(Ok(Err(error))) = self.writer.take().map(JoinHandle::join) {
            eprintln!("bench: raw log: {error}");
        }
    }
}

fn write(file: &File, waiting: &Receiver<Entry>) -> io::Result<()> {
    let mut offset = 0;
    while let Ok(first) = waiting.recv() {
        let mut group = first.bytes;
        let mut told = vec![first.synced];
        while let Ok(entry) = waiting.try_recv() {
            group.extend_from_slice(&entry.bytes);
            told.push(entry.synced);
        }
        if offset + group.len() > FILE_BYTES {
            offset = 0;
        }
        file.write_all_at(&group, offset as u64)?;
        file.sync_data()?;
        offset += group.len();
        for synced in told {
            let _ = synced.send(());
        }
    }
    Ok(())
}
