//! The one writer: takes all jobs that wait, does them in one transaction, syncs once, answers everybody.
//!
//! An answer is given after the commit, so what was acknowledged is durable. When the transaction is lost (locked by
//! another process for too long, disk full, I/O error) everybody in it and everybody who waits behind it is told that
//! the store is unavailable, nothing of it is in the file, and the next batch begins with a new connection: no
//! restart is needed. A batch in which nothing is written syncs nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError};
use std::time::Duration;

use onefold_store::{Judge, StoreError};
use parking_lot::Mutex;
use rusqlite::Connection;

use crate::batch::Batch;
use crate::checkpoint::Log;
use crate::connection;
use crate::error::unavailable;
use crate::job::{Answer, Job};
use crate::stats::Counts;

/// Jobs in one transaction: enough to share a sync among everybody who waits, few enough to stay within tens of
/// milliseconds.
const BATCH_JOBS_MAX: usize = 512;
/// Bytes in one transaction, beyond which no further job is taken in.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// How long the writer waits for those who come back, where there are others than one: a fraction of a sync. (With 64
/// callers it makes batches of 63 of what would be two halves of 32, and a third more operations a second.)
const GATHER: Duration = Duration::from_micros(30);

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

/// The writer's state, on its own thread.
pub(crate) struct Writer {
    pub(crate) path: PathBuf,
    pub(crate) record_bytes_max: i32,
    pub(crate) judge: Arc<Judge>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) log: Log,
    /// Held while a transaction is open, so that the checkpointer can ask for a pause.
    pub(crate) gate: Arc<Mutex<()>>,
    /// `None` after a failure.
    pub(crate) connection: Option<Connection>,
}

impl Writer {
    /// Works until every sender is gone.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        let mut last = 0;
        while let Ok(batch) = gather(jobs, last) {
            last = batch.len();
            self.perform(batch, jobs);
            self.log.grown();
        }
    }

    fn perform(&mut self, batch: Vec<Job>, jobs: &Receiver<Job>) {
        let gate = self.gate.clone();
        let pause = gate.lock();
        let mut answers = Vec::with_capacity(batch.len());
        let (mut waiting, mut undone) = (batch.into_iter(), Vec::new());
        let outcome = self.transaction(&mut waiting, &mut answers, &mut undone);
        drop(pause);
        let lost = outcome.as_ref().err();
        if let Some(error) = lost {
            self.counts.failed();
            tracing::warn!(%error, "a transaction of the store was lost");
            // Closing rolls back what is left of the transaction, whatever state the connection is in.
            self.connection = None;
            // Whoever waits behind a lost batch would wait as long again. They are taken before anybody is answered:
            // what is asked after an answer is a new try.
            undone.extend(waiting.chain(jobs.try_iter()));
            undone.into_iter().for_each(|job| job.refuse(error));
        }
        self.counts.answered(answers.len());
        answers.into_iter().for_each(|answer| answer.give(lost));
    }

    fn transaction(
        &mut self,
        waiting: &mut impl Iterator<Item = Job>,
        answers: &mut Vec<Answer>,
        undone: &mut Vec<Job>,
    ) -> Result<(), StoreError> {
        let lost = |error: rusqlite::Error| unavailable(&error);
        if self.connection.is_none() {
            let mut connection = connection::writer(&self.path, self.record_bytes_max).map_err(lost)?;
            self.log.watch(&mut connection).map_err(lost)?;
            self.connection = Some(connection);
        }
        let Some(connection) = &self.connection else { unreachable!("it was just opened") };
        run(connection, BEGIN).map_err(lost)?;
        let mut batch = Batch::start(connection, &self.judge).map_err(lost)?;
        for job in waiting {
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
        let writes = batch.finish().map_err(lost)?;
        run(connection, if writes { COMMIT } else { ROLLBACK }).map_err(lost)?;
        if writes {
            self.counts.committed();
        }
        // Before anybody is answered: whoever reads next finds the lease that was granted.
        self.judge.note(batch.into_grants());
        Ok(())
    }
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Takes the jobs that wait, and those that are about to come: under load everybody whom the last batch answered
/// comes back at once, and a sync that they share is one sync less. A single caller is never held up by this.
fn gather(jobs: &Receiver<Job>, last: usize) -> Result<Vec<Job>, RecvError> {
    let (first, others) = match jobs.try_recv() {
        Ok(job) => (job, true),
        Err(_) => (jobs.recv()?, last > 1),
    };
    let mut bytes = first.bytes();
    let mut batch = vec![first];
    if others {
        std::thread::sleep(GATHER);
    }
    while batch.len() < BATCH_JOBS_MAX
        && bytes < BATCH_BYTES_MAX
        && let Ok(job) = jobs.try_recv()
    {
        bytes += job.bytes();
        batch.push(job);
    }
    Ok(batch)
}
