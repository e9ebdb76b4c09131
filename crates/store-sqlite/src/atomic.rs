//! Record and business rows in one savepoint of the writer's transaction.
//!
//! The one write lock is held, so what is looked at first is still so when it is written, and the unique digest is the
//! judge all the same. The closure runs on the writer's thread: it blocks everybody who writes, so it has a time. A
//! closure that makes SQLite roll the whole transaction back (a statement of its own that is interrupted, `ON CONFLICT
//! ROLLBACK`, a full disk) takes the batch with it: nobody in it is acknowledged.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use onefold_core::{Kept, OperationId, Resource, State, StoreTime};
use onefold_store::codec::{encode_kept, kept_length};
use onefold_store::{Atomically, Ended, Entry, Finish, Grant, Sealer, Step, StoreError};
use parking_lot::Mutex;
use rusqlite::params;

use crate::advance::{self, AdvanceWork};
use crate::batch::Batch;
use crate::claim::{self, Against, ClaimWork};
use crate::error::JobError;
use crate::hot::Hot;
use crate::outcome::{self, Outcome};
use crate::read;
use crate::row::{RawRead, retention_ms, state_number};
use crate::tx::SqliteTx;

type Closure = dyn FnMut(&mut SqliteTx<'_>) -> Ended + Send;

/// A closure that runs in the writer's transaction. It may run again when the database asks for it.
#[derive(Clone)]
pub struct SqliteWork(Arc<Mutex<Closure>>);

impl SqliteWork {
    /// The work that this closure does.
    pub fn new(closure: impl FnMut(&mut SqliteTx<'_>) -> Ended + Send + 'static) -> SqliteWork {
        SqliteWork(Arc::new(Mutex::new(closure)))
    }
}

impl fmt::Debug for SqliteWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SqliteWork")
    }
}

/// An atomic attempt, prepared by the caller's thread.
pub(crate) struct AtomicWork {
    entry: Prepared,
    work: SqliteWork,
    sealer: Arc<Sealer>,
    time: Duration,
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
    pub(crate) fn new(entry: Entry, work: SqliteWork, sealer: Arc<Sealer>, time: Duration) -> AtomicWork {
        let entry = match entry {
            Entry::New(claim) => Prepared::New(ClaimWork::new(*claim)),
            Entry::Next(advance) => Prepared::Next(AdvanceWork::new(*advance, &sealer)),
        };
        AtomicWork { entry, work, sealer, time }
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

/// Runs the closure in a savepoint; where it leaves a record, `write` writes that in the same savepoint and says attempt
/// and expiry.
fn in_savepoint<'c>(
    id: OperationId,
    work: &AtomicWork,
    batch: &mut Batch<'c>,
    write: impl FnOnce(&Finished, &mut Batch<'c>) -> Result<(u32, Option<i64>), JobError>,
) -> Result<RawAtomically, JobError> {
    batch.save()?;
    let done = match closure(id, work, batch)? {
        Ok(finished) => {
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
        Err(ended) => {
            batch.undo()?;
            Ok(RawAtomically::Other(ended))
        }
    };
    if done.is_err() {
        batch.undo()?;
    }
    batch.keep()?;
    done
}

/// Runs the closure. `Err` inside: it leaves nothing, and this is why.
fn closure(
    id: OperationId,
    work: &AtomicWork,
    batch: &Batch<'_>,
) -> Result<Result<Finished, Atomically>, JobError> {
    let mut closure = work.work.0.lock();
    let mut tx = SqliteTx::new(batch.connection, batch.fence, id, batch.moment.time);
    let running = AssertUnwindSafe(|| closure(&mut tx));
    let (ended, overran) = batch.fence.around(work.time, || catch_unwind(running));
    if batch.connection.is_autocommit() {
        let why = "a closure made SQLite roll the whole transaction back";
        return Err(JobError::Batch(StoreError::Unavailable(why.into())));
    }
    if overran {
        let why = format!("the closure held the database for longer than {:?}", work.time);
        return Ok(Err(Atomically::Stopped(why)));
    }
    Ok(match ended {
        Ok(Ended::Finished { finish, kept, resource }) => {
            let seal = || work.sealer.seal(&id, kept_length(&kept), |out| encode_kept(&kept, out));
            let form = (kept != Kept::Nothing).then(seal);
            Ok(Finished { finish, kept, resource, form })
        }
        Ok(Ended::NotDone) => Err(Atomically::NotDone),
        Ok(Ended::Again(why)) => Err(Atomically::Contended(why)),
        Err(panic) => Err(Atomically::Stopped(format!("the closure panicked: {}", message(&*panic)))),
    })
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
