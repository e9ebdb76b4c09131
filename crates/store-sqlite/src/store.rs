//! The store as the engine sees it: jobs go to the writer, readings to the readers.
//!
//! Payloads are encoded, sealed and opened on the caller's side. A call whose future is dropped may or may not have
//! its effect. When the store is dropped, what waits is still done, then the threads end and the file is closed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::{Counters, Event, IdentityKey, Kept, OperationId, Record};
use onefold_store::{
    Advance, Advanced, AtomicStore, Atomically, Claim, Claimed, Entry, Finding, FinishedStep, Hints,
    Inventory, Judge, OperationStore, Page, ProbeTurn, Query, Read, Sealer, StepPut, StepStore, StoreError,
    Survey, Swept, TakeProbes,
};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::advance::{AdvanceWork, RawAdvanced};
use crate::atomic::{AtomicWork, RawAtomically};
use crate::checkpoint::{Checkpointer, Log};
use crate::claim::{ClaimWork, RawClaimed};
use crate::closure::{Running, SqliteWork};
use crate::errand::Work;
use crate::fence::Fence;
use crate::file::FileId;
use crate::job::{Ask, Job};
use crate::queue::{self, Queue};
use crate::readers::Readers;
use crate::stats::{Counts, Stats};
use crate::steps::{RawStepPut, StepWork};
use crate::sweep::SweepWork;
use crate::versions::Place;
use crate::writer::Writer;
use crate::{
    OpenError, Options, check, companion, events, interrupted, inventory, list, migrate, open, probes, read,
    steps, survey, sweep,
};

/// What a job costs beside its payload: its row, its index entries.
const JOB_BYTES: usize = 1024;

/// A SQLite file as a store of operations.
pub struct SqliteStore {
    pub(crate) identity_key: IdentityKey,
    pub(crate) sealer: Arc<Sealer>,
    closure_time_max: Duration,
    pub(crate) judge: Arc<Judge>,
    path: PathBuf,
    pub(crate) file: FileId,
    pub(crate) readers: Readers,
    /// Those of the service.
    pub(crate) own_readers: Readers,
    counts: Arc<Counts>,
    pub(crate) hints: Arc<Hints>,
    pub(crate) versions: Arc<Place>,
    /// Tells this store's sweeps from those of other processes.
    sweeper: i64,
    queue: Arc<Queue>,
    /// `None` once it closes.
    jobs: Option<SyncSender<Job>>,
    threads: Vec<JoinHandle<()>>,
    /// The one on which closures run.
    writer: ThreadId,
}

/// Takes everything over from the log and empties it.
const CUT_LOG: &str = "PRAGMA wal_checkpoint(TRUNCATE)";
/// How long the last checkpoint waits for other processes.
const LAST_CHECKPOINT: Duration = Duration::from_millis(500);
/// Reads a page of the table itself.
const LATEST: &str = "SELECT max(seq) FROM onefold_operations";

impl SqliteStore {
    /// Opens the file, or makes it. Blocks; an error has changed nothing.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<SqliteStore, OpenError> {
        let mut opened = open::open(path.as_ref(), &options)?;
        let (kept_path, file) = (opened.path.clone(), opened.file);
        let other = |error: std::io::Error| OpenError::io(path.as_ref(), &error);
        let (judge, counts) = (Arc::new(opened.judge), Arc::new(Counts::default()));
        let hints = Arc::new(Hints::default());
        // A log that a crash has left is cut at the first idle moment, so it counts as one page at least.
        let (pages, gate) = (Arc::new(AtomicI32::new(1)), Arc::new(Mutex::new(())));
        let (tell, told) = sync_channel(1);
        let (jobs, waiting) = sync_channel(queue::JOBS_MAX);
        let log = Log::new(pages.clone(), tell);
        log.watch(&mut opened.connection).map_err(|error| OpenError::sqlite(path.as_ref(), &error))?;
        let fence = Fence::put_on(&mut opened.connection)
            .map_err(|error| OpenError::sqlite(path.as_ref(), &error))?;
        let writer = Writer {
            path: opened.path.clone(),
            file,
            record_bytes_max: options.record_bytes_max,
            judge: judge.clone(),
            identity_key: opened.identity_key.clone(),
            counts: counts.clone(),
            hints: hints.clone(),
            log,
            gate: gate.clone(),
            connection: Some((opened.connection, fence)),
            alone: 0,
        };
        let checkpointer = Checkpointer { path: opened.path.clone(), pages, gate };
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let threads = vec![
            thread("store-writer").spawn(move || writer.run(&waiting)).map_err(other)?,
            thread("store-checkpointer").spawn(move || checkpointer.run(&told)).map_err(other)?,
        ];
        Ok(SqliteStore {
            writer: threads[0].thread().id(),
            identity_key: opened.identity_key,
            sealer: Arc::new(opened.sealer),
            closure_time_max: options.closure_time_max,
            judge,
            path: kept_path,
            file,
            own_readers: Readers::new(opened.path.clone()),
            readers: Readers::new(opened.path),
            counts,
            hints,
            versions: Arc::default(),
            sweeper: rand::random(),
            queue: Arc::default(),
            jobs: Some(jobs),
            threads,
        })
    }

    /// What the writer did since the store was opened.
    pub fn stats(&self) -> Stats {
        self.counts.read(self.queue.jobs())
    }

    pub(crate) fn claimed(&self, claimed: RawClaimed) -> Result<Claimed, StoreError> {
        Ok(match claimed {
            RawClaimed::Won { now } => Claimed::Won { now },
            RawClaimed::Exists(read) => Claimed::Exists(Box::new(read.open(&self.sealer)?)),
            RawClaimed::QuotaReached => Claimed::QuotaReached,
            RawClaimed::KeyTooOld { now } => Claimed::KeyTooOld { now },
        })
    }

    pub(crate) fn advanced(&self, advanced: RawAdvanced) -> Result<Advanced, StoreError> {
        Ok(match advanced {
            RawAdvanced::Done { now, expires_at } => Advanced::Done { now, expires_at },
            RawAdvanced::Superseded(read) => Advanced::Superseded(Box::new(read.open(&self.sealer)?)),
            RawAdvanced::Missing => Advanced::Missing,
        })
    }

    /// Looks at the content and changes nothing. Walks over the whole file.
    pub async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        let judge = self.judge.clone();
        self.readers.run(move |connection| check::run(connection, &judge)).await
    }

    /// The schema that the file has: [`SCHEMA_VERSION`](crate::SCHEMA_VERSION), or that of a later release, which lets
    /// this one work.
    pub async fn schema(&self) -> Result<u32, StoreError> {
        self.readers.run(|connection| migrate::versions(connection).map(|(schema, _)| schema)).await
    }

    /// Counts what stands, by walking over the tables.
    pub async fn inventory(&self) -> Result<Inventory, StoreError> {
        let judge = self.judge.clone();
        self.readers.run(move |connection| inventory::run(connection, &judge)).await
    }

    /// A closure with what it needs.
    pub(crate) fn running(&self, work: &SqliteWork) -> Running {
        Running { work: work.clone(), sealer: self.sealer.clone(), time: self.closure_time_max }
    }

    /// Has the writer do this.
    pub(crate) async fn errand<W: Work>(&self, work: W) -> Result<W::Answer, StoreError> {
        let bytes = work.payload_bytes();
        self.ask(work, bytes, |ask| Job::Errand(Box::new(ask))).await
    }

    async fn ask<W, A>(&self, work: W, bytes: usize, job: fn(Ask<W, A>) -> Job) -> Result<A, StoreError> {
        let unavailable = |why: &str| StoreError::Unavailable(why.to_owned());
        // The writer would wait for itself, or do this after all when the closure is undone.
        if std::thread::current().id() == self.writer {
            return Err(StoreError::Refused("a closure may not ask its own store".into()));
        }
        let (reply, answer) = oneshot::channel();
        let Some(place) = self.queue.place(bytes + JOB_BYTES) else {
            return Err(unavailable("too much waits to be written"));
        };
        let job = job(Ask { work, reply, place });
        let Some(jobs) = &self.jobs else { return Err(unavailable("the store is closed")) };
        jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => unavailable("too many wait to be written"),
            TrySendError::Disconnected(_) => unavailable("the writer has stopped"),
        })?;
        match answer.await {
            Ok((answer, _work)) => answer,
            Err(_) => Err(unavailable("the writer has stopped")),
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.readers.close();
        self.own_readers.close();
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
        // Connections that close at the same moment leave the log to one another. Nobody is left to do so now, and
        // what the log cannot give up to other processes stays there as after a crash.
        if FileId::at(&self.path).ok() == Some(self.file) {
            let _ = crate::connection::checkpointer(&self.path, LAST_CHECKPOINT)
                .and_then(|connection| connection.query_row(CUT_LOG, [], |_| Ok(())));
        }
    }
}

/// How many records the next step of a sweep may touch.
fn step_of(limit: u32, done: u64) -> u32 {
    let left = u64::from(limit).saturating_sub(done);
    u32::try_from(left).map_or(sweep::STEP_RECORDS_MAX, |left| left.min(sweep::STEP_RECORDS_MAX))
}

#[async_trait]
impl OperationStore for SqliteStore {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn identity_key(&self) -> &IdentityKey {
        &self.identity_key
    }

    async fn read(&self, id: OperationId) -> Result<Read, StoreError> {
        let judge = self.judge.clone();
        self.readers.run(move |connection| read::beside(id, connection, &judge)).await?.open(&self.sealer)
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let claimed = self.ask(Box::new(ClaimWork::new(claim)), 0, Job::Claim).await?;
        self.claimed(claimed)
    }

    async fn advance(&self, advance: Advance) -> Result<Advanced, StoreError> {
        let work = Box::new(AdvanceWork::new(advance, &self.sealer));
        let bytes = work.payload_bytes();
        let advanced = self.ask(work, bytes, Job::Advance).await?;
        self.advanced(advanced)
    }

    async fn count(&self, counts: Vec<(OperationId, Counters)>) -> Result<(), StoreError> {
        self.ask(counts, 0, Job::Count).await
    }

    async fn list(&self, query: Query) -> Result<Page, StoreError> {
        let judge = self.judge.clone();
        let page = self.readers.run(move |connection| list::run(&query, connection, &judge)).await?;
        let records = page.records.into_iter().map(|record| record.open(&self.sealer));
        let records = records.collect::<Result<_, _>>()?;
        Ok(Page { now: page.now, records, next_cursor: page.next_cursor })
    }

    async fn events(&self, id: OperationId) -> Result<Vec<Event>, StoreError> {
        self.readers.run(move |connection| events::of(id, connection)).await
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        let mut swept = Swept::default();
        loop {
            let step =
                SweepWork { limit: step_of(limit, swept.tombstones + swept.deleted), sweeper: self.sweeper };
            let done = if step.limit > 0 { self.ask(step, 0, Job::Sweep).await? } else { Swept::default() };
            if done == Swept::default() {
                return Ok(swept);
            }
            swept.tombstones += done.tombstones;
            swept.deleted += done.deleted;
        }
    }

    async fn lose_stale(&self, limit: u32) -> Result<u64, StoreError> {
        let mut lost = 0;
        loop {
            let step = step_of(limit, lost);
            let done = if step > 0 { self.ask(step, 0, Job::Lose).await? } else { 0 };
            if done == 0 {
                return Ok(lost);
            }
            lost += done;
        }
    }

    async fn take_probes(&self, take: TakeProbes) -> Result<Vec<ProbeTurn>, StoreError> {
        let (judge, wanted) = (self.judge.clone(), take.clone());
        let any = self.readers.run(move |connection| probes::any_due(&wanted, connection, &judge)).await?;
        let turns = if any { self.ask(take, 0, Job::Probe).await? } else { Vec::new() };
        turns.into_iter().map(|turn| turn.open(&self.sealer)).collect()
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        let judge = self.judge.clone();
        self.readers.run(move |connection| survey::run(connection, &judge)).await
    }

    async fn interrupted(&self, operations: &[String], limit: u32) -> Result<Vec<Record>, StoreError> {
        let (judge, operations) = (self.judge.clone(), operations.to_vec());
        let found =
            self.readers.run(move |connection| interrupted::run(&operations, limit, connection, &judge));
        found.await?.into_iter().map(|record| record.open(&self.sealer)).collect()
    }

    async fn note_companion(&self, operation: &str) -> Result<(), StoreError> {
        self.errand(companion::Note::of(operation)).await
    }

    async fn has_companion(&self, operation: &str) -> Result<bool, StoreError> {
        let note = companion::Note::of(operation);
        self.readers.run(move |connection| note.stands(connection)).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.ask((), 0, Job::Ready).await?;
        self.readers.run(|connection| connection.query_row(LATEST, [], |_| Ok(()))).await
    }
}

#[async_trait]
impl AtomicStore for SqliteStore {
    type Work = SqliteWork;

    async fn atomically(&self, entry: Entry, work: &mut SqliteWork) -> Result<Atomically, StoreError> {
        let atomic = AtomicWork::new(entry, self.running(work));
        let bytes = atomic.payload_bytes();
        Ok(match self.ask(Box::new(atomic), bytes, Job::Atomic).await? {
            RawAtomically::Found(read) => Atomically::Found(Box::new(read.open(&self.sealer)?)),
            RawAtomically::Other(ended) => ended,
        })
    }
}

#[async_trait]
impl StepStore for SqliteStore {
    async fn put_step(
        &self,
        id: OperationId,
        attempt: u32,
        name: String,
        kept: Kept,
    ) -> Result<StepPut, StoreError> {
        let work = Box::new(StepWork::new(id, attempt, name, &kept, &self.sealer));
        let bytes = work.payload_bytes();
        Ok(match self.ask(work, bytes, Job::Step).await? {
            RawStepPut::Done => StepPut::Done,
            RawStepPut::Superseded(read) => StepPut::Superseded(Box::new(read.open(&self.sealer)?)),
            RawStepPut::Exists(step) => StepPut::Exists(Box::new(step.open(&id, &self.sealer)?)),
        })
    }

    async fn steps(&self, id: OperationId) -> Result<Vec<FinishedStep>, StoreError> {
        let steps = self.readers.run(move |connection| steps::of(id, connection)).await?;
        steps.into_iter().map(|step| step.open(&id, &self.sealer)).collect()
    }
}
