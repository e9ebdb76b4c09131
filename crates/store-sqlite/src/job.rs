//! Jobs for the writer and their answers.
//!
//! A job carries its place for the answer with it. The answer is made inside the transaction and given only after
//! the commit; when the commit fails, everybody in it is told that the store is unavailable. A caller that has gone
//! away is not waited for.

use onefold_core::{Counters, OperationId};
use onefold_store::{StoreError, Swept, TakeProbes};
use tokio::sync::oneshot;

use crate::advance::{AdvanceWork, RawAdvanced};
use crate::atomic::{AtomicWork, RawAtomically};
use crate::batch::Batch;
use crate::claim::{ClaimWork, RawClaimed};
use crate::closure::Nothing;
use crate::errand::{Errand, Told};
use crate::error::JobError;
use crate::probes::RawTurn;
use crate::queue::Place;
use crate::steps::{RawStepPut, StepWork};
use crate::sweep::SweepWork;
use crate::{advance, atomic, claim, counts, probes, steps, sweep};

/// Where an answer goes, and the work with it: its memory is the caller's to free, on his own thread.
pub(crate) type ReplyTo<W, A> = oneshot::Sender<(Result<A, StoreError>, W)>;

/// What is to be done, and where the answer goes.
pub(crate) struct Ask<W, A> {
    pub(crate) work: W,
    pub(crate) reply: ReplyTo<W, A>,
    pub(crate) place: Place,
}

/// A job for the writer.
pub(crate) enum Job {
    Claim(Ask<Box<ClaimWork>, RawClaimed>),
    Advance(Ask<Box<AdvanceWork>, RawAdvanced>),
    Atomic(Ask<Box<AtomicWork>, RawAtomically>),
    Step(Ask<Box<StepWork>, RawStepPut>),
    Count(Ask<Vec<(OperationId, Counters)>, ()>),
    Lose(Ask<u32, u64>),
    Probe(Ask<TakeProbes, Vec<RawTurn>>),
    Sweep(Ask<SweepWork, Swept>),
    Errand(Box<dyn Errand>),
    /// Commits the time and nothing else: the proof that the store can be written.
    Ready(Ask<(), ()>),
}

/// An answer that waits for the commit.
pub(crate) struct Reply<W, A> {
    to: ReplyTo<W, A>,
    answer: Result<A, StoreError>,
    work: W,
}

/// An answer of any kind that waits for the commit.
pub(crate) enum Answer {
    Claim(Reply<Box<ClaimWork>, RawClaimed>),
    Advance(Reply<Box<AdvanceWork>, RawAdvanced>),
    Atomic(Reply<Box<AtomicWork>, RawAtomically>),
    Step(Reply<Box<StepWork>, RawStepPut>),
    Counted(Reply<Vec<(OperationId, Counters)>, ()>),
    Lost(Reply<u32, u64>),
    Turns(Reply<TakeProbes, Vec<RawTurn>>),
    Swept(Reply<SweepWork, Swept>),
    Errand(Box<dyn Told>),
    Ready(Reply<(), ()>),
}

impl Job {
    /// About how much is written for it, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Job::Claim(ask) => ask.place.bytes,
            Job::Advance(ask) => ask.place.bytes,
            Job::Atomic(ask) => ask.place.bytes,
            Job::Step(ask) => ask.place.bytes,
            Job::Count(ask) => ask.place.bytes,
            Job::Lose(ask) => ask.place.bytes,
            Job::Probe(ask) => ask.place.bytes,
            Job::Sweep(ask) => ask.place.bytes,
            Job::Errand(errand) => errand.bytes(),
            Job::Ready(ask) => ask.place.bytes,
        }
    }

    /// Does the job inside the transaction. An error means that the transaction is lost.
    pub(crate) fn run(self, batch: &mut Batch<'_>) -> Result<Answer, (Job, StoreError)> {
        match self {
            Job::Claim(ask) => {
                run(ask, batch, |work, batch| claim::run(work, batch), Answer::Claim, Job::Claim)
            }
            Job::Advance(ask) => {
                run(ask, batch, |work, batch| advance::run(work, batch), Answer::Advance, Job::Advance)
            }
            Job::Atomic(ask) => {
                run(ask, batch, |work, batch| atomic::run(work, batch), Answer::Atomic, Job::Atomic)
            }
            Job::Step(ask) => run(ask, batch, |work, batch| steps::put(work, batch), Answer::Step, Job::Step),
            Job::Count(ask) => {
                run(ask, batch, |work, batch| counts::run(work, batch), Answer::Counted, Job::Count)
            }
            Job::Lose(ask) => {
                run(ask, batch, |work, batch| sweep::lose_stale(*work, batch), Answer::Lost, Job::Lose)
            }
            Job::Probe(ask) => run(ask, batch, probes::take, Answer::Turns, Job::Probe),
            Job::Sweep(ask) => {
                run(ask, batch, |work, batch| sweep::run(*work, batch), Answer::Swept, Job::Sweep)
            }
            Job::Errand(errand) => match errand.run(batch) {
                Ok(told) => Ok(Answer::Errand(told)),
                Err((errand, error)) => Err((Job::Errand(errand), error)),
            },
            Job::Ready(ask) => run(
                ask,
                batch,
                |(), batch| {
                    batch.wrote();
                    Ok(())
                },
                Answer::Ready,
                Job::Ready,
            ),
        }
    }

    /// Answers that nothing was done.
    pub(crate) fn refuse(self, error: &StoreError) {
        match self {
            Job::Claim(ask) => ask.refuse(error),
            Job::Advance(ask) => ask.refuse(error),
            Job::Atomic(ask) => match Nothing::of(error) {
                // The caller may have gone away.
                Some(nothing) => drop(ask.reply.send((Ok(RawAtomically::Other(nothing.into())), ask.work))),
                None => ask.refuse(error),
            },
            Job::Step(ask) => ask.refuse(error),
            Job::Count(ask) => ask.refuse(error),
            Job::Lose(ask) => ask.refuse(error),
            Job::Probe(ask) => ask.refuse(error),
            Job::Sweep(ask) => ask.refuse(error),
            Job::Errand(errand) => errand.refuse(error),
            Job::Ready(ask) => ask.refuse(error),
        }
    }
}

fn run<W, A>(
    ask: Ask<W, A>,
    batch: &mut Batch<'_>,
    work: impl FnOnce(&W, &mut Batch<'_>) -> Result<A, JobError>,
    answer: impl FnOnce(Reply<W, A>) -> Answer,
    job: impl FnOnce(Ask<W, A>) -> Job,
) -> Result<Answer, (Job, StoreError)> {
    let done = match work(&ask.work, batch) {
        Ok(done) => Ok(done),
        Err(JobError::Job(error)) => Err(error),
        Err(JobError::Batch(error)) => return Err((job(ask), error)),
    };
    Ok(answer(Reply { to: ask.reply, answer: done, work: ask.work }))
}

impl<W, A> Ask<W, A> {
    fn refuse(self, error: &StoreError) {
        // The caller may have gone away.
        let _ = self.reply.send((Err(error.clone()), self.work));
    }
}

impl<W, A> Reply<W, A> {
    fn give(self, lost: Option<&StoreError>) {
        let answer = match lost {
            Some(error) => Err(error.clone()),
            None => self.answer,
        };
        // The caller may have gone away.
        let _ = self.to.send((answer, self.work));
    }
}

impl Answer {
    /// Gives the answer after the commit; `lost` is why the commit failed.
    pub(crate) fn give(self, lost: Option<&StoreError>) {
        match self {
            Answer::Claim(reply) => reply.give(lost),
            Answer::Advance(reply) => reply.give(lost),
            Answer::Atomic(mut reply) => match lost.and_then(Nothing::of) {
                Some(nothing) => {
                    reply.answer = Ok(RawAtomically::Other(nothing.into()));
                    reply.give(None);
                }
                None => reply.give(lost),
            },
            Answer::Step(reply) => reply.give(lost),
            Answer::Counted(reply) => reply.give(lost),
            Answer::Lost(reply) => reply.give(lost),
            Answer::Turns(reply) => reply.give(lost),
            Answer::Swept(reply) => reply.give(lost),
            Answer::Errand(told) => told.give(lost),
            Answer::Ready(reply) => reply.give(lost),
        }
    }
}
