//! Record and business rows in one savepoint of the writer's transaction.
//!
//! The one write lock is held, so what is looked at first is still so when it is written, and the unique digest is the
//! judge all the same. How the closure runs is said in `closure.rs`.

use onefold_core::{Kept, OperationId, Resource, State, StoreTime};
use onefold_store::codec::{encode_kept, kept_length};
use onefold_store::{Atomically, Entry, Finish, Grant, Sealer, Step, StoreError, crash};
use rusqlite::params;

use crate::advance::{self, AdvanceWork};
use crate::batch::Batch;
use crate::claim::{self, Against, ClaimWork};
use crate::closure::{About, Left, Running};
use crate::error::JobError;
use crate::hot::Hot;
use crate::outcome::{self, Outcome};
use crate::read;
use crate::row::{RawRead, retention_ms, state_number};

/// An atomic attempt, prepared by the caller's thread.
pub(crate) struct AtomicWork {
    entry: Prepared,
    closure: Running,
}

enum Prepared {
    New(ClaimWork),
    Next(AdvanceWork),
}

/// What became of it; the payload of a record that was found is still to be opened.
pub(crate) enum RawAtomically {
    Found(Box<RawRead>),
    Other(Atomically),
}

impl AtomicWork {
    pub(crate) fn new(entry: Entry, closure: Running) -> AtomicWork {
        let entry = match entry {
            Entry::New(claim) => Prepared::New(ClaimWork::new(*claim)),
            Entry::Next(advance) => Prepared::Next(AdvanceWork::new(*advance, &closure.sealer)),
        };
        AtomicWork { entry, closure }
    }
}

/// What a closure has left, with the payload sealed.
struct Finished {
    finish: Finish,
    kept: Kept,
    resource: Option<Resource>,
    form: Option<Vec<u8>>,
}

impl Finished {
    fn of(left: Left, id: OperationId, sealer: &Sealer) -> Finished {
        let Left { finish, kept, resource, .. } = left;
        let seal = || sealer.seal(&id, kept_length(&kept), |out| encode_kept(&kept, out));
        let form = (kept != Kept::Nothing).then(seal);
        Finished { finish, kept, resource, form }
    }

    fn state(&self) -> State {
        match self.finish {
            Finish::Succeeded => State::Succeeded,
            Finish::Rejected => State::Rejected,
        }
    }

    fn outcome(&self, expires_at: Option<i64>) -> Outcome<'_> {
        Outcome {
            expires_at,
            resource_kind: self.resource.as_ref().map(|resource| resource.kind.as_str()),
            resource_id: self.resource.as_ref().map(|resource| resource.id.as_str()),
            kept: self.form.as_deref(),
        }
    }

    fn committed(self, now: StoreTime, attempt: u32, expires_at: Option<i64>) -> RawAtomically {
        let Finished { finish, kept, resource, .. } = self;
        let expires_at = expires_at.map(StoreTime);
        RawAtomically::Other(Atomically::Committed { now, attempt, expires_at, finish, kept, resource })
    }
}

/// Runs the closure and writes the record.
pub(crate) fn run(work: &AtomicWork, batch: &mut Batch<'_>) -> Result<RawAtomically, JobError> {
    match &work.entry {
        Prepared::New(claim) => new(claim, work, batch),
        Prepared::Next(advance) => next(advance, work, batch),
    }
}

fn new(claim: &ClaimWork, work: &AtomicWork, batch: &mut Batch<'_>) -> Result<RawAtomically, JobError> {
    let id = claim.claim.id;
    if claim::exists(id, batch)? {
        return Ok(RawAtomically::Found(Box::new(read::in_batch(id, batch)?)));
    }
    // A scope that is made for an attempt that does nothing is taken away before the commit.
    let scope = match claim::against(claim, batch)? {
        Against::Nothing(scope) => scope,
        Against::KeyTooOld => {
            return Ok(RawAtomically::Other(Atomically::KeyTooOld { now: batch.moment.time }));
        }
        Against::Quota => return Ok(RawAtomically::Other(Atomically::QuotaReached)),
    };
    in_savepoint(id, work, batch, |finished, batch| {
        let (now, seq) = (batch.moment.time, batch.next_seq());
        if !claim::make(claim, seq, scope, batch)? {
            return Err(JobError::Batch(StoreError::Unavailable("a record appeared behind the lock".into())));
        }
        let expires_at = expires(retention_ms(&claim.claim.promise), now);
        let Outcome { resource_kind, resource_id, kept, .. } = finished.outcome(expires_at);
        let state = state_number(finished.state());
        let row = params![seq, state, now.0, expires_at, resource_kind, resource_id, kept];
        batch.hot(Hot::Outcome)?.execute(row)?;
        crash::point("sqlite.result.after");
        batch.one_claimed(scope);
        Ok((1, expires_at))
    })
}

fn next(begin: &AdvanceWork, work: &AtomicWork, batch: &mut Batch<'_>) -> Result<RawAtomically, JobError> {
    let advance = &begin.advance;
    let Step::Begin { promise, .. } = &advance.step else {
        return Err(JobError::Job(StoreError::Refused("an entry begins an attempt".into())));
    };
    let found = advance::found(advance.id, batch)?;
    let Some(found) = found.filter(|found| found.is_start_of(advance, batch)) else {
        return Ok(RawAtomically::Found(Box::new(read::in_batch(advance.id, batch)?)));
    };
    // A tombstone that begins anew counts as live again.
    batch.write_claimed()?;
    in_savepoint(advance.id, work, batch, |finished, batch| {
        advance::begin::run(begin, &found, batch)?;
        let expires_at = expires(retention_ms(promise), batch.moment.time);
        let outcome = finished.outcome(expires_at);
        outcome::put(advance.id, found.seq, State::Processing, finished.state(), &outcome, batch)?;
        batch.grant(Grant::Ended(advance.id));
        Ok((found.attempt + 1, expires_at))
    })
}

fn expires(retention_ms: Option<i64>, now: StoreTime) -> Option<i64> {
    retention_ms.map(|retention| now.0.saturating_add(retention))
}

/// Runs the closure in a savepoint; where it leaves a record, `write` writes that in the same savepoint and says
/// attempt and expiry.
fn in_savepoint<'c>(
    id: OperationId,
    work: &AtomicWork,
    batch: &mut Batch<'c>,
    write: impl FnOnce(&Finished, &mut Batch<'c>) -> Result<(u32, Option<i64>), JobError>,
) -> Result<RawAtomically, JobError> {
    batch.save()?;
    let done = match work.closure.run(id, About::Operation, batch)? {
        Ok(left) => {
            let finished = Finished::of(left, id, &work.closure.sealer);
            if finished.finish == Finish::Rejected {
                batch.undo()?;
            }
            match write(&finished, batch) {
                Ok((attempt, expires_at)) => {
                    batch.wrote();
                    Ok(finished.committed(batch.moment.time, attempt, expires_at))
                }
                Err(JobError::Job(error)) => Err(JobError::Job(error)),
                Err(lost) => return Err(lost),
            }
        }
        Err(nothing) => {
            batch.undo()?;
            Ok(RawAtomically::Other(nothing.into()))
        }
    };
    if done.is_err() {
        batch.undo()?;
    }
    batch.keep()?;
    done
}
