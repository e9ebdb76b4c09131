//! A handler's writes and the mark of its message in one savepoint of the writer's transaction.

use async_trait::async_trait;
use onefold_core::InboxState;
use onefold_store::{ConsumeStore, Consumed, Finish, Mark, StoreError, reason_of};

use crate::batch::Batch;
use crate::closure::{About, Nothing, Running, SqliteWork};
use crate::errand::Work;
use crate::error::JobError;
use crate::inbox::MarkWork;
use crate::store::SqliteStore;

/// A message with its handler.
struct Consume {
    mark: MarkWork,
    handler: Running,
}

impl Work for Consume {
    type Answer = Consumed;

    fn run(&self, batch: &mut Batch<'_>) -> Result<Consumed, JobError> {
        let entries = match self.mark.judge(batch)? {
            Ok(entries) => entries,
            Err(consumed) => return Ok(consumed),
        };
        batch.in_savepoint(|batch| {
            if !self.mark.is_newer(batch)? {
                return self.mark.done(InboxState::Superseded, None, &entries, batch);
            }
            let (state, reason) =
                match self.handler.run(self.mark.mark.id, About::Message(&self.mark.mark), batch)? {
                    Ok(left) if left.finish == Finish::Succeeded => match left.too_late {
                        true => (InboxState::Superseded, None),
                        false => (InboxState::Processed, None),
                    },
                    Ok(left) => {
                        batch.undo()?;
                        (InboxState::Rejected, reason_of(&left.kept))
                    }
                    Err(nothing) => {
                        batch.undo()?;
                        return Ok(nothing.into());
                    }
                };
            self.mark.done(state, reason.as_deref(), &entries, batch)
        })
    }

    fn payload_bytes(&self) -> usize {
        self.mark.bytes()
    }
}

#[async_trait]
impl ConsumeStore for SqliteStore {
    async fn consume(&self, mark: Mark, work: &mut SqliteWork) -> Result<Consumed, StoreError> {
        let mark = MarkWork::new(mark, &self.sealer);
        match self.errand(Consume { mark, handler: self.running(work) }).await {
            Err(error) => Nothing::of(&error).map(Consumed::from).ok_or(error),
            done => done,
        }
    }
}
