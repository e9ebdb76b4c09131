//! Jobs about messages, all of one shape: work that is prepared by the caller, done in the transaction, and answered
//! after the commit.

use onefold_store::StoreError;

use crate::batch::Batch;
use crate::error::JobError;
use crate::job::{Ask, ReplyTo};

/// Work for the writer.
pub(crate) trait Work: Send + 'static {
    /// What it is answered.
    type Answer: Send + 'static;

    /// Does it inside the transaction.
    fn run(&self, batch: &mut Batch<'_>) -> Result<Self::Answer, JobError>;

    /// About how much is written for it beside its row, in bytes.
    fn payload_bytes(&self) -> usize {
        0
    }
}

/// A job of any such work.
pub(crate) trait Errand: Send {
    fn bytes(&self) -> usize;
    fn run(self: Box<Self>, batch: &mut Batch<'_>) -> Result<Box<dyn Told>, (Box<dyn Errand>, StoreError)>;
    fn refuse(self: Box<Self>, error: &StoreError);
}

/// An answer that waits for the commit.
pub(crate) trait Told: Send {
    fn give(self: Box<Self>, lost: Option<&StoreError>);
}

impl<W: Work> Errand for Ask<W, W::Answer> {
    fn bytes(&self) -> usize {
        self.place.bytes
    }

    fn run(self: Box<Self>, batch: &mut Batch<'_>) -> Result<Box<dyn Told>, (Box<dyn Errand>, StoreError)> {
        let answer = match self.work.run(batch) {
            Ok(answer) => Ok(answer),
            Err(JobError::Job(error)) => Err(error),
            Err(JobError::Batch(error)) => return Err((self, error)),
        };
        let Ask { work, reply, .. } = *self;
        Ok(Box::new(Answered { to: reply, answer, work }))
    }

    fn refuse(self: Box<Self>, error: &StoreError) {
        // The caller may have gone away.
        let _ = self.reply.send((Err(error.clone()), self.work));
    }
}

struct Answered<W: Work> {
    to: ReplyTo<W, W::Answer>,
    answer: Result<W::Answer, StoreError>,
    work: W,
}

impl<W: Work> Told for Answered<W> {
    fn give(self: Box<Self>, lost: Option<&StoreError>) {
        let answer = match lost {
            Some(error) => Err(error.clone()),
            None => self.answer,
        };
        // The caller may have gone away.
        let _ = self.to.send((answer, self.work));
    }
}
