//! Connections that read beside the writer.
//!
//! A reader sees the latest commit at the moment it begins and waits for none. There are few connections, because
//! each has a cache of its own; whoever finds all of them busy waits for one. A connection that failed is closed.

use std::path::PathBuf;
use std::sync::Arc;

use onefold_store::StoreError;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::connection;
use crate::error::{read_failed, unavailable};

/// Connections at most. Reading is bound by the processor, and a page cache goes with each.
const READERS_MAX: usize = 4;

/// The readers of one file.
#[derive(Clone)]
pub(crate) struct Readers(Arc<Shared>);

struct Shared {
    path: PathBuf,
    free: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf) -> Readers {
        let free = Arc::new(Semaphore::new(READERS_MAX));
        Readers(Arc::new(Shared { path, free, idle: Mutex::default() }))
    }

    /// Runs `read` on a free connection, on a thread that may block.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.0.clone();
        let closed = || StoreError::Unavailable("the store is closed".into());
        let permit = shared.free.clone().acquire_owned().await.map_err(|_| closed())?;
        let reading = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let connection = shared.take()?;
            match read(&connection) {
                Ok(value) => {
                    shared.idle.lock().push(connection);
                    Ok(value)
                }
                Err(error) => Err(read_failed(&error)),
            }
        });
        reading.await.map_err(|_| closed())?
    }

    /// Lends a free connection, with a transaction in which all statements see one state of the file.
    pub(crate) async fn lend<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.0.clone();
        let closed = || StoreError::Unavailable("the store is closed".into());
        let permit = shared.free.clone().acquire_owned().await.map_err(|_| closed())?;
        let reading = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let connection = shared.take()?;
            connection.execute_batch("BEGIN").map_err(|error| unavailable(&error))?;
            let value = read(&connection);
            let ended = !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_ok();
            let as_it_was = connection.pragma_query_value(None, "query_only", |row| row.get(0));
            if ended && as_it_was == Ok(true) {
                shared.idle.lock().push(connection);
            }
            Ok(value)
        });
        match reading.await {
            Ok(read) => read,
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            Err(_) => Err(closed()),
        }
    }

    /// Lets no more reading begin and closes the idle connections.
    pub(crate) fn close(&self) {
        self.0.free.close();
        self.0.idle.lock().clear();
    }
}

impl Shared {
    fn take(&self) -> Result<Connection, StoreError> {
        let idle = self.idle.lock().pop();
        match idle {
            Some(connection) => Ok(connection),
            None => connection::reader(&self.path).map_err(|error| unavailable(&error)),
        }
    }
}
