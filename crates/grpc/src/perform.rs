//! The modes of the library for a method of tonic (SEMANTICS 5).
//!
//! A caller that hangs up and a deadline that passes cancel nothing: the work runs outside of the handler's future, and
//! the next call under the key gets its answer.

use std::future::Future;

use onefold_library::{
    AtomicStore, BoxError, Call, Onefold, Performing, SqliteStore, SqliteTx, StepStore, Steps, Verdict,
};
use prost::Message;
use tonic::{Request, Response, Status};

use crate::kept::Kept;
use crate::meaning::{Speaks, verdict};
use crate::{Protection, answer};

/// A call that may be performed, with its message.
#[derive(Clone)]
pub struct Admitted<M, S = SqliteStore> {
    pub(crate) onefold: Onefold<S>,
    pub(crate) call: Call,
    pub(crate) message: M,
}

impl<M, S> Admitted<M, S> {
    /// The call, for the library itself: with its caller's key ([`Call::key`]).
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// The message.
    pub fn message(&self) -> &M {
        &self.message
    }

    /// Ties it to other operations of one workflow, in place of what its caller says in the metadata
    /// `onefold-correlation-id`. Messages that it makes carry the same.
    pub fn correlated(mut self, id: impl Into<String>) -> Admitted<M, S> {
        self.call = self.call.correlated(id);
        self
    }
}

impl<M> Admitted<M, SqliteStore>
where
    M: Send + 'static,
{
    /// As [`Protection::atomic`].
    pub async fn atomic<R, F>(self, mut work: F) -> Result<Response<R>, Status>
    where
        R: Message + Default,
        F: FnMut(&mut SqliteTx<'_>, &M) -> Result<Verdict<R>, BoxError> + Send + 'static,
    {
        let message = self.message;
        let done =
            self.onefold.atomic(self.call, move |tx| kept(work(tx, &message), Speaks::ForTheOperation));
        answered(done.await)
    }
}

impl<M, S> Admitted<M, S>
where
    M: Send + 'static,
    S: AtomicStore,
{
    /// As [`Protection::reserved`].
    pub async fn reserved<R, F, Fut>(self, work: F) -> Result<Response<R>, Status>
    where
        R: Message + Default,
        F: FnOnce(Performing, M) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<R>, BoxError>> + Send + 'static,
    {
        let message = self.message;
        let done = self.onefold.reserved(self.call, move |performing| {
            let working = work(performing, message);
            async move { kept(working.await, Speaks::ForTheOperation) }
        });
        answered(done.await)
    }
}

impl<M, S> Admitted<M, S>
where
    M: Send + 'static,
    S: AtomicStore + StepStore,
{
    /// As [`Protection::resumable`].
    pub async fn resumable<R, F, Fut>(self, work: F) -> Result<Response<R>, Status>
    where
        R: Message + Default,
        F: FnOnce(Steps, M) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<R>, BoxError>> + Send + 'static,
    {
        let message = self.message;
        let done = self.onefold.resumable(self.call, move |steps| {
            let speaks = match steps.attempt().attempt() {
                1 => Speaks::ForTheOperation,
                _ => Speaks::ForThisAttempt,
            };
            let working = work(steps, message);
            async move { kept(working.await, speaks) }
        });
        answered(done.await)
    }
}

impl Protection<SqliteStore> {
    /// Performs the call in one transaction: what the closure writes and the record of its answer are committed
    /// together or not at all. The closure may run again when the database is busy.
    ///
    /// An error that is a [`Status`] and refuses for good by the table of [`meanings`](crate::meanings) is
    /// remembered; any other error undoes everything and frees the key. Cancellation: the call is committed whole or
    /// not at all, and the same call made again says which.
    pub async fn atomic<M, R, F>(&self, request: Request<M>, work: F) -> Result<Response<R>, Status>
    where
        M: Message + 'static,
        R: Message + Default,
        F: FnMut(&mut SqliteTx<'_>, &M) -> Result<Verdict<R>, BoxError> + Send + 'static,
    {
        self.admit(request)?.atomic(work).await
    }
}

impl<S: AtomicStore> Protection<S> {
    /// Performs the call whose effect is elsewhere: the claim is durable before the work begins, and an outcome that is
    /// lost is held as unknown.
    ///
    /// What an error that is a [`Status`] means says the table of [`meanings`](crate::meanings); any other error and a
    /// panic leave the outcome unknown. Cancellation: changes nothing but who hears of the answer.
    pub async fn reserved<M, R, F, Fut>(&self, request: Request<M>, work: F) -> Result<Response<R>, Status>
    where
        M: Message + 'static,
        R: Message + Default,
        F: FnOnce(Performing, M) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<R>, BoxError>> + Send + 'static,
    {
        self.admit(request)?.reserved(work).await
    }
}

impl<S: AtomicStore + StepStore> Protection<S> {
    /// Performs the call as a workflow of steps, or goes on with one that was interrupted.
    ///
    /// From the second attempt on a bare [`Status`] refuses nothing for good, since it may be the echo of an earlier
    /// attempt's effect: say [`rejected`](crate::rejected) where it is the business's own word.
    ///
    /// One that is interrupted is told as `in-progress`, and goes on with the next call under its key (`docs/grpc.md`
    /// has the table). Cancellation: changes nothing but who hears of the answer; the workflow goes on.
    pub async fn resumable<M, R, F, Fut>(&self, request: Request<M>, work: F) -> Result<Response<R>, Status>
    where
        M: Message + 'static,
        R: Message + Default,
        F: FnOnce(Steps, M) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<R>, BoxError>> + Send + 'static,
    {
        self.admit(request)?.resumable(work).await
    }
}

/// The library's word for what the work said.
pub(crate) fn kept<R: Message>(
    said: Result<Verdict<R>, BoxError>,
    speaks: Speaks,
) -> Result<Verdict<Kept>, BoxError> {
    match said {
        Ok(Verdict::Succeeded { resource, value }) => {
            Ok(Verdict::Succeeded { resource, value: Kept::message(&value) })
        }
        Ok(Verdict::Rejected { value }) => Ok(Verdict::rejected(Kept::message(&value))),
        Ok(Verdict::NotDone { error, retryable }) => Ok(Verdict::NotDone { error, retryable }),
        Ok(Verdict::Unknown { error }) => Ok(Verdict::Unknown { error }),
        Err(error) => verdict(error, speaks),
    }
}

pub(crate) fn answered<R: Message + Default>(
    done: Result<onefold_library::Done<Kept>, onefold_library::CallError>,
) -> Result<Response<R>, Status> {
    match done {
        Ok(done) => answer::of(done),
        Err(error) => Err(answer::of_error(error)),
    }
}
