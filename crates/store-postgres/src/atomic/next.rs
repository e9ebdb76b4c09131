//! An operation that begins again, from a free key, an expired record or a lease that is over: the record is begun,
//! the closure runs, the record is settled, in one transaction. Rare, so it takes its round trips one by one. A crash
//! in between leaves the record as it was found.

use onefold_core::State;
use onefold_store::{Advance, Also, Atomically, Finish, Read, Start, Step, StoreError, crash};
use tokio::time::Instant;

use super::ending::fate;
use super::key_lock::{tried, trying};
use super::{End, Finished, PostgresWork, Stopped, bounded, closure, ended, found};
use crate::about::About;
use crate::advance::AdvanceWork;
use crate::ask::Within;
use crate::batch::RawAdvanced;
use crate::begin::BeginWork;
use crate::error::Failed;
use crate::guest::any_shard;
use crate::held::Held;
use crate::lanes::Work;
use crate::store::PostgresStore;

/// Between the beginning and the closure's writes.
const MARK: &str = "SAVEPOINT onefold";
const UNDO: &str = "ROLLBACK TO SAVEPOINT onefold";

pub(crate) async fn run(
    advance: Advance,
    work: &mut PostgresWork,
    store: &PostgresStore,
) -> Result<Atomically, Stopped> {
    let (id, attempt) = (advance.id, advance.start.attempt + 1);
    if !matches!(advance.step, Step::Begin { .. }) {
        return Err(Stopped::Store(StoreError::Refused("an entry begins an attempt".into())));
    }
    let held = store.server().for_closure().await?;
    let started = bounded(async {
        crash::point("postgres.beginning.before");
        let taken = tried(&held, &trying(id)).await?;
        crash::point("postgres.beginning.after");
        if !taken {
            return Ok(None);
        }
        let work = BeginWork::new(advance, |scope| store.bucket(scope), any_shard());
        let within = Within { client: &*held, now: store.server().now() };
        let answers = BeginWork::run(std::slice::from_ref(&work), &within).await?;
        held.batch_execute(MARK).await.map_err(|error| Failed::of(&error))?;
        crash::point("postgres.mark.after");
        Ok(Some(answers))
    });
    let started = match started.await {
        Ok(None) => {
            held.roll_back().await;
            return Err(Stopped::busy());
        }
        Ok(Some(mut answers)) => answers.pop().unwrap_or(Ok(RawAdvanced::Missing)),
        Err(failed) => return Err(held.failed(failed).await.into()),
    };
    let now = match started? {
        RawAdvanced::Done { now, .. } => now,
        RawAdvanced::Superseded(read) => {
            held.roll_back().await;
            let read: Read = read.open(store.sealer())?;
            return Err(Stopped::ended(Atomically::Found(Box::new(read))));
        }
        RawAdvanced::Missing => {
            held.roll_back().await;
            return Err(Stopped::ended(found(id, store).await?));
        }
    };
    let (held, finished) = closure(held, id, About::Operation, now, work, store).await?;
    if finished.finish == Finish::Rejected {
        crash::point("postgres.undo.before");
        bounded(async { held.batch_execute(UNDO).await.map_err(|error| Failed::of(&error)) }).await?;
        crash::point("postgres.undo.after");
    }
    let start = Start { states: &[State::Processing], attempt, also: Also::Nothing };
    let (state, kept, resource) = (finished.state(), finished.kept.clone(), finished.resource.clone());
    let step = Step::Settle { state, kept, resource };
    let advance = Advance { id, start, step, event: None, if_superseded: None };
    commit(held, &AdvanceWork::new(advance, store.sealer()), attempt, finished, store).await
}

/// Settles the record behind the closure's writes, and commits.
pub(super) async fn commit(
    held: Held,
    settle: &AdvanceWork,
    attempt: u32,
    finished: Finished,
    store: &PostgresStore,
) -> Result<Atomically, Stopped> {
    let id = settle.id();
    let settled = bounded(async {
        let within = Within { client: &*held, now: store.server().now() };
        AdvanceWork::run(std::slice::from_ref(settle), &within).await
    });
    let (now, expires_at) = match settled.await?.pop().unwrap_or(Ok(RawAdvanced::Missing))? {
        RawAdvanced::Done { now, expires_at } => (now, expires_at),
        RawAdvanced::Superseded(read) => {
            held.roll_back().await;
            return Err(Stopped::ended(Atomically::Found(Box::new(read.open(store.sealer())?))));
        }
        RawAdvanced::Missing => {
            held.roll_back().await;
            return Err(Stopped::ended(found(id, store).await?));
        }
    };
    crash::point("postgres.commit.before");
    let asked = bounded(async { Ok((Ok(()), held.batch_execute("COMMIT").await)) }).await;
    crash::point("postgres.commit.after");
    match ended(held, "operations", asked).await? {
        End::Done(()) => Ok(finished.committed(now, attempt, expires_at, store)),
        End::Exists => Err(Stopped::contended("a record came between".into())),
        // The record was there before: if it is gone, it was swept, before a rollback or behind the commit.
        End::Lost(why) => fate(id, settle.nonce(), Some(Instant::now()), why, finished, store).await,
    }
}
