//! The one writer: takes all jobs that wait, does them in one transaction, syncs once, answers everybody.
//!
//! An answer is given after the commit, so what was acknowledged is durable. When the transaction is lost (locked by
//! another process for too long, disk full, I/O error) everybody in it and everybody who waits behind it is told that
//! the store is unavailable, nothing of it is in the file, and the next batch begins with a new connection: no
//! restart is needed. A file that is not at its path any more takes nothing until it is back, for what was written
//! there would be gone. A batch in which nothing is written syncs nothing.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use onefold_core::IdentityKey;
use onefold_store::{Hints, Judge, StoreError, crash};
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};

use crate::batch::Batch;
use crate::checkpoint::Log;
use crate::connection;
use crate::error::{BROKEN, BROKEN_ALONE, is_broken_constraint, unavailable};
use crate::fence::Fence;
use crate::file::FileId;
use crate::job::{Answer, Job};
use crate::stats::Counts;

/// Jobs in one transaction: enough to share a sync among everybody who waits, few enough to stay within tens of
/// milliseconds.
const BATCH_JOBS_MAX: usize = 512;
/// Bytes in one transaction, beyond which no further job is taken in.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// How long the writer waits for those who are still to come back: a fraction of a sync.
const GATHER: Duration = Duration::from_micros(30);

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

/// The writer's state, on its own thread.
pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    /// What was at the path when the store was opened.
    pub(crate) file: FileId,
    pub(crate) record_bytes_max: i32,
    pub(crate) judge: Arc<Judge>,
    /// Digests scopes.
    pub(crate) identity_key: IdentityKey,
    pub(crate) counts: Arc<Counts>,
    /// For the relays of this process.
    pub(crate) hints: Arc<Hints>,
    pub(crate) log: Log,
    /// Held while a transaction is open, so that the checkpointer can ask for a pause.
    pub(crate) gate: Arc<Mutex<()>>,
    /// `None` after a failure.
    pub(crate) connection: Option<(Connection, Fence)>,
    /// So many batches have one job each: somebody's closure broke the commit of all, and is to be found.
    pub(crate) alone: usize,
}

impl Writer {
    /// Works until every sender is gone.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        let mut last = 0;
        while let Ok(first) = jobs.recv() {
            let jobs_max = if self.alone > 0 { 1 } else { BATCH_JOBS_MAX };
            self.alone = self.alone.saturating_sub(1);
            let mut waiting = Waiting::new(first, jobs, last, jobs_max);
            self.perform(&mut waiting);
            last = waiting.taken;
            self.log.grown();
        }
    }

    fn perform(&mut self, waiting: &mut Waiting<'_>) {
        let gate = self.gate.clone();
        let pause = gate.lock();
        let (mut answers, mut undone) = (Vec::new(), Vec::new());
        let outcome = self.transaction(waiting, &mut answers, &mut undone);
        drop(pause);
        let lost = outcome.as_ref().err();
        if let Some(error) = lost {
            self.counts.failed();
            tracing::warn!(%error, "a transaction of the store was lost");
            // Closing rolls back what is left of the transaction, whatever state the connection is in.
            self.connection = None;
            // Whoever waits behind a lost batch would wait as long again. They are taken before anybody is answered:
            // what is asked after an answer is a new try. A broken constraint is no matter of those behind.
            if !is_broken_constraint(error) {
                undone.extend(waiting.rest());
            }
            undone.into_iter().for_each(|job| job.refuse(error));
        }
        self.counts.answered(answers.len());
        for answer in answers {
            crash::point("sqlite.answer.before");
            answer.give(lost);
        }
    }

    fn transaction(
        &mut self,
        waiting: &mut Waiting<'_>,
        answers: &mut Vec<Answer>,
        undone: &mut Vec<Job>,
    ) -> Result<(), StoreError> {
        let lost = |error: rusqlite::Error| unavailable(&error);
        if FileId::at(&self.path).ok() != Some(self.file) {
            return Err(StoreError::Unavailable(format!(
                "{} was removed or replaced while it was open; put it back. A restart without it begins an empty store, and every key used so far is new",
                self.path.display()
            )));
        }
        if self.connection.is_none() {
            let mut connection = connection::writer(&self.path, self.record_bytes_max).map_err(lost)?;
            self.log.watch(&mut connection).map_err(lost)?;
            let fence = Fence::put_on(&mut connection).map_err(lost)?;
            self.connection = Some((connection, fence));
        }
        let Some((connection, fence)) = &self.connection else { unreachable!("it was just opened") };
        crash::point("sqlite.begin.before");
        run(connection, BEGIN).map_err(lost)?;
        crash::point("sqlite.begin.after");
        let mut batch = Batch::start(connection, &self.judge, &self.identity_key, fence).map_err(lost)?;
        while waiting.take_in() {
            // Whoever asks now has perhaps seen a later time than the batch began at.
            batch.look_at_the_clock();
            for job in waiting.by_ref() {
                match job.run(&mut batch) {
                    Ok(answer) => answers.push(answer),
                    Err((job, error)) => {
                        undone.push(job);
                        return Err(error);
                    }
                }
                if connection.is_autocommit() {
                    return Err(StoreError::Unavailable("SQLite has rolled the transaction back".into()));
                }
            }
        }
        let writes = batch.finish().map_err(lost)?;
        crash::point("sqlite.commit.before");
        run(connection, if writes { COMMIT } else { ROLLBACK }).map_err(|error| match error {
            error if !is_constraint(&error) => unavailable(&error),
            _ if waiting.taken == 1 => StoreError::Unavailable(BROKEN_ALONE.into()),
            _ => {
                self.alone = BATCH_JOBS_MAX;
                StoreError::Unavailable(BROKEN.into())
            }
        })?;
        crash::point("sqlite.commit.after");
        if writes {
            self.counts.committed();
        }
        // Before anybody is answered: whoever reads next finds the lease that was granted.
        if batch.do_messages_wait() {
            self.hints.give();
        }
        self.judge.note(batch.into_grants());
        Ok(())
    }
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// The jobs of one batch, taken in portions: those that wait, then those that came while these were done. So under
/// load everybody whom the last batch answered is in the next one, and shares its sync; a single caller is never held
/// up by this.
struct Waiting<'j> {
    jobs: &'j Receiver<Job>,
    portion: VecDeque<Job>,
    /// How many were in the batch before.
    expected: usize,
    taken: usize,
    jobs_max: usize,
    bytes: usize,
}

impl<'j> Waiting<'j> {
    fn new(first: Job, jobs: &'j Receiver<Job>, expected: usize, jobs_max: usize) -> Waiting<'j> {
        let expected = expected.min(jobs_max);
        let bytes = first.bytes();
        Waiting { jobs, portion: VecDeque::from([first]), expected, taken: 1, jobs_max, bytes }
    }

    /// Takes in the next portion, if the one before is done. False when the batch is complete.
    fn take_in(&mut self) -> bool {
        self.take_what_waits();
        if self.portion.is_empty() && self.taken < self.expected {
            // Those who are missing may be on their way; they are waited for once.
            self.expected = 0;
            std::thread::sleep(GATHER);
            self.take_what_waits();
        }
        !self.portion.is_empty()
    }

    fn take_what_waits(&mut self) {
        while self.taken < self.jobs_max
            && self.bytes < BATCH_BYTES_MAX
            && let Ok(job) = self.jobs.try_recv()
        {
            self.taken += 1;
            self.bytes += job.bytes();
            self.portion.push_back(job);
        }
    }

    /// Everybody who waits, in this batch or behind it.
    fn rest(&mut self) -> impl Iterator<Item = Job> {
        self.portion.drain(..).chain(self.jobs.try_iter())
    }
}

impl Iterator for Waiting<'_> {
    type Item = Job;

    /// The next job of the portion.
    fn next(&mut self) -> Option<Job> {
        self.portion.pop_front()
    }
}
