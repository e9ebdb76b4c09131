//! Checkpoints, off the path of commits.
//!
//! A thread of its own copies the log into the database while the writer goes on. When the log has grown long, it
//! asks the writer for a pause between two batches, copies the little that is left and lets the log begin at its
//! start again, so the log does not grow without bound under constant load, and its blocks are written over instead
//! of added (which makes a sync cheaper). When the store is idle, the log is cut to nothing: what was deleted is then
//! in no file any more. A crash at any point loses nothing; the log is what counts.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::connection;

/// Pages in the log at which a checkpoint begins: 8 MiB.
const PASSIVE_PAGES: i32 = 2_000;
/// Pages in the log at which it is made to begin anew: 32 MiB.
const RESTART_PAGES: i32 = 8_000;
/// Pages in the log at which the file is cut as well: 256 MiB; something has held it up for long.
const TRUNCATE_PAGES: i32 = 64_000;
/// A store that has written nothing for this long is idle.
const IDLE: Duration = Duration::from_secs(5);
/// How long a pause of the writer may wait for readers and other processes.
const PAUSE_MAX: Duration = Duration::from_millis(20);

const PASSIVE: &str = "PRAGMA wal_checkpoint(PASSIVE)";
const RESTART: &str = "PRAGMA wal_checkpoint(RESTART)";
const TRUNCATE: &str = "PRAGMA wal_checkpoint(TRUNCATE)";

/// The writer's side: how long the log is, and whom to tell.
pub(crate) struct Log {
    pages: Arc<AtomicI32>,
    told_at: i32,
    tell: SyncSender<()>,
}

impl Log {
    pub(crate) fn new(pages: Arc<AtomicI32>, tell: SyncSender<()>) -> Log {
        Log { pages, told_at: 0, tell }
    }

    /// Follows the length of the log over the commits of this connection. (This also ends SQLite's own
    /// checkpoints on it.)
    pub(crate) fn watch(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let pages = self.pages.clone();
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, length| {
            pages.store(length, Ordering::Relaxed);
            Ok(())
        }))
    }

    /// After a batch: tells the checkpointer when the log has grown by another portion.
    pub(crate) fn grown(&mut self) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.told_at {
            self.told_at = 0;
        }
        if pages >= self.told_at + PASSIVE_PAGES {
            self.told_at = pages;
            // A full queue means that it has been told.
            let _ = self.tell.try_send(());
        }
    }
}

/// The checkpointer's state, on its own thread.
pub(crate) struct Checkpointer {
    pub(crate) path: PathBuf,
    pub(crate) pages: Arc<AtomicI32>,
    pub(crate) gate: Arc<Mutex<()>>,
}

impl Checkpointer {
    /// Works until the writer is gone.
    pub(crate) fn run(self, told: &Receiver<()>) {
        let mut connection = None;
        let mut seen = -1;
        loop {
            let done = match told.recv_timeout(IDLE) {
                Ok(()) => self.connected(&mut connection).and_then(|connection| self.copy(connection)),
                Err(RecvTimeoutError::Timeout) => {
                    let pages = self.pages.load(Ordering::Relaxed);
                    let idle = pages == seen && pages != 0;
                    seen = pages;
                    if !idle {
                        continue;
                    }
                    self.connected(&mut connection).and_then(|connection| self.cut(connection))
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let Err(error) = done {
                tracing::warn!(%error, "a checkpoint failed; it is tried again");
                connection = None;
            }
        }
    }

    fn connected<'c>(&self, connection: &'c mut Option<Connection>) -> rusqlite::Result<&'c Connection> {
        match connection {
            Some(connection) => Ok(connection),
            None => Ok(connection.insert(connection::checkpointer(&self.path, PAUSE_MAX)?)),
        }
    }

    /// Copies what can be copied; makes a long log begin anew.
    fn copy(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (_, pages) = checkpoint(connection, PASSIVE)?;
        if pages >= RESTART_PAGES {
            let _pause = self.gate.lock();
            checkpoint(connection, if pages >= TRUNCATE_PAGES { TRUNCATE } else { RESTART })?;
        }
        Ok(())
    }

    /// Cuts the log of an idle store to nothing.
    fn cut(&self, connection: &Connection) -> rusqlite::Result<()> {
        checkpoint(connection, PASSIVE)?;
        let _pause = self.gate.lock();
        if let (false, _) = checkpoint(connection, TRUNCATE)? {
            self.pages.store(0, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whether somebody was in the way, and how many pages the log has.
fn checkpoint(connection: &Connection, sql: &str) -> rusqlite::Result<(bool, i32)> {
    connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
}
