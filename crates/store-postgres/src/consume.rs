//! A handler's writes and the mark of its message in one transaction.
//!
//! The handler runs at the isolation of the database's transactions. Above READ COMMITTED a transaction has its snapshot
//! before it has waited for a lock; so the message's lock is never waited for in it: whoever does not get it at once waits
//! in another transaction and begins anew.

use async_trait::async_trait;
use onefold_core::{InboxState, OperationId};
use onefold_store::{Atomically, ConsumeStore, Consumed, Finish, Mark, StoreError};
use tokio_postgres::types::{ToSql, Type};

use crate::PostgresWork;
use crate::atomic::{LOCK_WAIT_MAX, Stopped, bounded, closure, lock};
use crate::error::Failed;
use crate::held::Held;
use crate::inbox::{self, MarkWork};
use crate::inbox_row::{self, Standing};
use crate::row::get;
use crate::store::PostgresStore;
use crate::tx::About;

pub(crate) const TRY_LOCK: &str = "SELECT pg_try_advisory_xact_lock($1)";

/// How often a message whose lock was waited for may be another's again before its handler gives way.
const TURNS_MAX: u32 = 20;

#[async_trait]
impl ConsumeStore for PostgresStore {
    async fn consume(&self, mark: Mark, work: &mut PostgresWork) -> Result<Consumed, StoreError> {
        let mark = MarkWork::new(mark, self.sealer());
        consume(&mark, work, self).await.map_or_else(Stopped::consumed, Ok)
    }
}

async fn consume(
    mark: &MarkWork,
    work: &mut PostgresWork,
    store: &PostgresStore,
) -> Result<Consumed, Stopped> {
    let id = mark.mark.id;
    let (held, mut standing) = enter(id, store).await?;
    if let Some(consumed) = mark.judge(&standing) {
        held.roll_back().await;
        return Ok(consumed);
    }
    let (mut held, finished) = closure(held, id, About::Message, standing.now, work, store).await?;
    let state = match finished.finish {
        Finish::Succeeded => InboxState::Processed,
        Finish::Rejected => {
            // Its writes go; the mark is made in a transaction of its own.
            held.roll_back().await;
            (held, standing) = inbox::enter(id, store).await?;
            if let Some(consumed) = mark.judge(&standing) {
                held.roll_back().await;
                return Ok(consumed);
            }
            InboxState::Rejected
        }
    };
    let to = mark.done(state, &standing.entries);
    let now = match mark.commit(held, &to, store).await? {
        Ok(now) => now,
        Err(found) => return Ok(found),
    };
    if finished.made_messages && state == InboxState::Processed {
        store.hints().give();
    }
    Ok(Consumed::Done { now, state })
}

/// Begins the handler's transaction with the lock of the message.
async fn enter(id: OperationId, store: &PostgresStore) -> Result<(Held, Standing), Stopped> {
    for _ in 0..TURNS_MAX {
        if let Some(entered) = try_enter(id, store).await? {
            return Ok(entered);
        }
        let (held, _) = inbox::enter(id, store).await?;
        held.roll_back().await;
    }
    Err(Stopped::contended(format!("others hold the message, for {LOCK_WAIT_MAX:?} at a time")))
}

async fn try_enter(id: OperationId, store: &PostgresStore) -> Result<Option<(Held, Standing)>, Stopped> {
    let held = Held::new(store.server().connection().await?);
    let number = lock(id);
    let lock: [(&(dyn ToSql + Sync), Type); 1] = [(&number, Type::INT8)];
    let params: [(&(dyn ToSql + Sync), Type); 2] =
        [(&store.server().now(), Type::INT8), (&id.as_bytes().as_slice(), Type::BYTEA)];
    let asked = bounded(async {
        let (open, locked, rows) = tokio::join!(biased;
            held.batch_execute("BEGIN"),
            held.query_typed(TRY_LOCK, &lock),
            held.query_typed(inbox_row::OF, &params)
        );
        let answered = open.and(locked).and_then(|locked| Ok((locked, rows?)));
        answered.map_err(|error| Failed::of(&error))
    });
    let (locked, rows) = match asked.await {
        Ok(answered) => answered,
        Err(failed) => {
            if !failed.ends_connection() {
                held.roll_back().await;
            }
            return Err(failed.into());
        }
    };
    let ours = locked.first().map(|row| get::<bool>(row, 0)).transpose()?;
    if ours == Some(true) {
        return Ok(Some((held, Standing::of(&rows)?)));
    }
    held.roll_back().await;
    Ok(None)
}

impl Stopped {
    /// What it means for a message.
    pub(crate) fn consumed(self) -> Result<Consumed, StoreError> {
        let ended = match self {
            Stopped::Store(error) => return Err(error),
            Stopped::Ended(ended) | Stopped::Undone(ended) => *ended,
        };
        match ended {
            Atomically::NotDone => Ok(Consumed::NotDone),
            Atomically::Stopped(why) => Ok(Consumed::Stopped(why)),
            Atomically::Contended(why) => Ok(Consumed::Contended(why)),
            other => Err(StoreError::Refused(format!("a message ends in no such way: {other:?}"))),
        }
    }
}
