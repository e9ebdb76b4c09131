//! Lanes: what waits at one moment goes to the server as one statement and shares its commit.
//!
//! A lane sends one batch at a time; while it is under way the next one gathers, so nobody waits for a batch to fill.
//! Each job keeps its own answer. Two jobs of one operation never share a batch. A batch that the server refuses is
//! halved until the bad job stands alone, and its neighbours are done. A caller that goes away leaves its job.

use std::collections::{HashSet, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onefold_core::OperationId;
use onefold_store::{StoreError, crash};
use tokio::sync::{mpsc, oneshot};

use crate::error::Failed;
use crate::server::Server;
use crate::stats::Counts;

/// Jobs in one statement, at most: enough to share a commit, few enough that it is short.
pub(crate) const BATCH_JOBS_MAX: usize = 256;
/// Payload bytes after which a batch takes no further job.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Jobs that may wait for one lane; one more is refused.
const WAITING_MAX: usize = 4096;
/// Payload bytes that may wait for all lanes of one kind.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// How long a job waits for its answer: a batch before it and its own, each at its slowest.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Something to be done to one operation.
pub(crate) trait Work: Send + Sync + Sized + 'static {
    /// What became of it.
    type Answer: Send;

    /// The operation.
    fn id(&self) -> OperationId;

    /// About how long its payload is.
    fn bytes(&self) -> usize;

    /// Carries out all of a batch and answers each, in order.
    fn carry_out(
        batch: &[Self],
        server: &Server,
    ) -> impl Future<Output = Result<Vec<Result<Self::Answer, StoreError>>, Failed>> + Send;
}

struct Ask<W: Work> {
    work: W,
    reply: oneshot::Sender<Result<W::Answer, StoreError>>,
    _place: Place,
}

/// Room that is given back.
struct Place(Arc<AtomicUsize>, usize);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// The lanes of one kind of work.
pub(crate) struct Lanes<W: Work> {
    lanes: Vec<mpsc::Sender<Ask<W>>>,
    bytes: Arc<AtomicUsize>,
}

impl<W: Work> Lanes<W> {
    /// Starts so many lanes. They end when this is dropped and what waits is done.
    pub(crate) fn start(number: usize, server: &Server, counts: &Arc<Counts>) -> Lanes<W> {
        let lane = |_| {
            let (sender, jobs) = mpsc::channel(WAITING_MAX);
            tokio::spawn(run(jobs, server.clone(), counts.clone()));
            sender
        };
        Lanes { lanes: (0..number.max(1)).map(lane).collect(), bytes: Arc::default() }
    }

    /// Has the work done in the lane that `place` falls on.
    pub(crate) async fn ask(&self, work: W, place: u64) -> Result<W::Answer, StoreError> {
        let unavailable = |why: &str| StoreError::Unavailable(why.to_owned());
        let bytes = work.bytes();
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let held = Place(self.bytes.clone(), bytes);
        if before > 0 && before + bytes > WAITING_BYTES_MAX {
            return Err(unavailable("too much waits to be written"));
        }
        let (reply, answer) = oneshot::channel();
        let lane = &self.lanes[(place % self.lanes.len() as u64) as usize];
        lane.try_send(Ask { work, reply, _place: held })
            .map_err(|_| unavailable("too many wait to be written"))?;
        match tokio::time::timeout(ANSWER_MAX, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(unavailable("the store is closed"))),
            Err(_) => Err(unavailable("the database takes too long")),
        }
    }
}

async fn run<W: Work>(mut jobs: mpsc::Receiver<Ask<W>>, server: Server, counts: Arc<Counts>) {
    let mut deferred = VecDeque::new();
    loop {
        let first = match deferred.pop_front() {
            Some(first) => first,
            None => match jobs.recv().await {
                Some(first) => first,
                None => return,
            },
        };
        let batch = gather(first, &mut deferred, &mut jobs);
        let (works, replies): (Vec<W>, Vec<_>) =
            batch.into_iter().map(|ask| (ask.work, (ask.reply, ask._place))).unzip();
        let answers = carry_out(&works, &server).await;
        counts.batch(
            works.len(),
            answers.iter().any(|answer| matches!(answer, Err(StoreError::Unavailable(_)))),
        );
        for ((reply, _), answer) in replies.into_iter().zip(answers) {
            crash::point("postgres.answer.before");
            // The caller may have gone away.
            let _ = reply.send(answer);
        }
    }
}

/// Adds what waits to the first job, as far as it fits.
fn gather<W: Work>(
    first: Ask<W>,
    deferred: &mut VecDeque<Ask<W>>,
    jobs: &mut mpsc::Receiver<Ask<W>>,
) -> Vec<Ask<W>> {
    let mut bytes = first.work.bytes();
    let mut ids = HashSet::from([first.work.id()]);
    let mut batch = vec![first];
    let mut again = VecDeque::new();
    while batch.len() < BATCH_JOBS_MAX && bytes < BATCH_BYTES_MAX {
        let next = match deferred.pop_front() {
            Some(next) => next,
            None if again.len() < BATCH_JOBS_MAX => match jobs.try_recv() {
                Ok(next) => next,
                Err(_) => break,
            },
            None => break,
        };
        if ids.insert(next.work.id()) {
            bytes += next.work.bytes();
            batch.push(next);
        } else {
            again.push_back(next);
        }
    }
    again.append(deferred);
    *deferred = again;
    batch
}

/// Carries out a batch; one that is refused is halved.
async fn carry_out<W: Work>(batch: &[W], server: &Server) -> Vec<Result<W::Answer, StoreError>> {
    match W::carry_out(batch, server).await {
        Ok(answers) => answers,
        Err(Failed::Refused(_)) if batch.len() > 1 => {
            let (front, back) = batch.split_at(batch.len() / 2);
            let mut answers = Box::pin(carry_out(front, server)).await;
            answers.extend(Box::pin(carry_out(back, server)).await);
            answers
        }
        Err(failed) => {
            let error = StoreError::from(failed);
            batch.iter().map(|_| Err(error.clone())).collect()
        }
    }
}
