//! A handler's writes and the mark of its message in one transaction.
//!
//! The handler runs at the isolation of the database's transactions. Above READ COMMITTED a transaction has its
//! snapshot before it has waited for a lock; so there the message's lock is not waited for in it: whoever does not
//! get it at once waits in another transaction, looks whether the message is done, and begins anew where it is not.

use async_trait::async_trait;
use onefold_core::{InboxState, OperationId};
use onefold_store::{Atomically, ConsumeStore, Consumed, Finish, Mark, StoreError, reason_of};
use tokio_postgres::types::{ToSql, Type};

use crate::PostgresWork;
use crate::atomic::{LOCK_WAIT_MAX, Stopped, begun, bounded, closure, lock, locking};
use crate::error::Failed;
use crate::held::Held;
use crate::inbox::{self, MarkWork};
use crate::inbox_row::{self, Standing};
use crate::row::{get, unreadable};
use crate::server::pause;
use crate::store::PostgresStore;
use crate::tx::About;

/// Whether the lock is ours, and whether later statements of the transaction see what is committed meanwhile.
pub(crate) const TRY_LOCK: &str =
    "SELECT pg_try_advisory_xact_lock($1), current_setting('transaction_isolation') = 'read committed'";

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
    let (held, mut standing) = match enter(mark, store).await? {
        Ok(entered) => entered,
        Err(consumed) => return Ok(consumed),
    };
    let (mut held, finished) = closure(held, id, About::Message, standing.now, work, store).await?;
    let (state, reason) = match finished.finish {
        Finish::Succeeded if finished.too_late => (InboxState::Superseded, None),
        Finish::Succeeded => (InboxState::Processed, None),
        Finish::Rejected => {
            // Its writes go; the mark is made in a transaction of its own.
            held.roll_back().await;
            (held, standing) = inbox::enter(id, store).await?;
            if let Some(consumed) = mark.judge(&standing) {
                held.roll_back().await;
                return Ok(consumed);
            }
            (InboxState::Rejected, reason_of(&finished.kept))
        }
    };
    let to = mark.done(state, reason.as_deref(), &standing.entries);
    let now = match mark.commit(held, &to, store).await? {
        Ok(now) => now,
        Err(found) => return Ok(found),
    };
    if finished.made_messages && state != InboxState::Rejected {
        store.hints().give();
    }
    Ok(Consumed::Done { now, state })
}

type Entered = (Held, Standing);

/// Begins the handler's transaction with the lock of the message; `Err`: what keeps it from being handled.
async fn enter(mark: &MarkWork, store: &PostgresStore) -> Result<Result<Entered, Consumed>, Stopped> {
    let id = mark.mark.id;
    for turn in 0..TURNS_MAX {
        let (held, standing, ours) = match try_enter(id, store).await? {
            Some((held, standing)) => (held, standing, true),
            None => {
                let (held, standing) = inbox::enter(id, store).await?;
                (held, standing, false)
            }
        };
        if let Some(consumed) = mark.judge(&standing) {
            held.roll_back().await;
            return Ok(Err(consumed));
        }
        if ours {
            return Ok(Ok((held, standing)));
        }
        held.roll_back().await;
        pause(turn).await;
    }
    Err(Stopped::contended(format!("others hold the message, for {LOCK_WAIT_MAX:?} at a time")))
}

/// `None`: the lock is another's, and to wait for it in this transaction would be to no avail.
async fn try_enter(id: OperationId, store: &PostgresStore) -> Result<Option<Entered>, Stopped> {
    let held = store.server().for_closure().await?;
    let number = lock(id);
    let lock: [(&(dyn ToSql + Sync), Type); 1] = [(&number, Type::INT8)];
    let params: [(&(dyn ToSql + Sync), Type); 2] =
        [(&store.server().now(), Type::INT8), (&id.as_bytes().as_slice(), Type::BYTEA)];
    let asked = bounded(async {
        let (open, tried, rows) = tokio::join!(biased;
            held.batch_execute("BEGIN"),
            held.query_typed(TRY_LOCK, &lock),
            held.query_typed(inbox_row::OF, &params)
        );
        let (tried, rows) =
            open.and(tried).and_then(|tried| Ok((tried, rows?))).map_err(|e| Failed::of(&e))?;
        let tried = tried.first().ok_or_else(|| unreadable("no answer"))?;
        if get(tried, 0)? {
            return Ok(Some(rows));
        }
        if !get::<bool>(tried, 1)? {
            return Ok(None);
        }
        let wait = locking(id);
        let (waited, rows) =
            tokio::join!(biased; held.batch_execute(&wait), held.query_typed(inbox_row::OF, &params));
        waited.and(rows).map(Some).map_err(|error| begun(&error))
    });
    match asked.await {
        Ok(Some(rows)) => Ok(Some((held, Standing::of(&rows)?))),
        Ok(None) => {
            held.roll_back().await;
            Ok(None)
        }
        Err(failed) => {
            if !failed.ends_connection() {
                held.roll_back().await;
            }
            Err(failed.into())
        }
    }
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
            Atomically::Busy => Ok(Consumed::Contended("others hold the message".into())),
            other => Err(StoreError::Refused(format!("a message ends in no such way: {other:?}"))),
        }
    }
}
