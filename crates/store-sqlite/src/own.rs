//! The service's own reads and writes, beside the boundary: of no operation and no message.
//!
//! Writes are a closure in the writer's transaction, in a savepoint and behind the fence like every closure, and share
//! its commits. Reads run on connections that are kept apart from the layer's, so that neither waits for the other;
//! each sees one state of the file. One that leaves its connection in another state than it was, or panics, has it
//! closed.

use async_trait::async_trait;
use onefold_store::{Finish, NO_OPERATION, StoreError, WriteStore, Written};
use rusqlite::Connection;

use crate::batch::Batch;
use crate::closure::{About, Nothing, Running, SqliteWork};
use crate::errand::Work;
use crate::error::JobError;
use crate::store::SqliteStore;

struct Write(Running);

impl Work for Write {
    type Answer = Written;

    fn run(&self, batch: &mut Batch<'_>) -> Result<Written, JobError> {
        batch.in_savepoint(|batch| {
            let written = match self.0.run(NO_OPERATION, About::Operation, batch)? {
                Ok(left) if left.finish == Finish::Succeeded => {
                    batch.wrote();
                    return Ok(Written::Done);
                }
                Ok(_) | Err(Nothing::NotDone) => Written::NotDone,
                Err(Nothing::Stopped(why)) => Written::Stopped(why),
                Err(Nothing::Again(why)) => Written::Contended(why),
            };
            batch.undo()?;
            Ok(written)
        })
    }
}

#[async_trait]
impl WriteStore for SqliteStore {
    async fn write(&self, work: &mut SqliteWork) -> Result<Written, StoreError> {
        match self.errand(Write(self.running(work))).await {
            Err(error) => match Nothing::of(&error) {
                Some(Nothing::Again(why)) => Ok(Written::Contended(why)),
                Some(Nothing::Stopped(why)) => Ok(Written::Stopped(why)),
                Some(Nothing::NotDone) | None => Err(error),
            },
            written => written,
        }
    }
}

impl SqliteStore {
    /// Reads on a connection that only reads, on a thread that may block.
    ///
    /// # Panics
    /// Where `read` does.
    pub async fn lend<A: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> A + Send + 'static,
    ) -> Result<A, StoreError> {
        self.own_readers.lend(read).await
    }
}
