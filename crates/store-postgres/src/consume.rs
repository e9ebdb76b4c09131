//! A handler's writes and the mark of its message in one transaction.
//!
//! A message of which nothing stands is marked when its handler begins, in one statement with the lock, and its
//! transaction then only commits: the mark is there if and only if the handler's writes are. Wherever something stands,
//! or versions are compared, it is looked at first and the mark is written last.
//!
//! The handler runs at the isolation of the database's transactions. Above READ COMMITTED a transaction has its
//! snapshot before it has the message's lock, so it does not see what was committed in between. There another
//! transaction looks, under the lock; and the lock is not waited for: whoever does not get it at once waits in another
//! transaction, looks whether the message is done, and begins anew where it is not.

use async_trait::async_trait;
use onefold_core::{InboxState, OperationId, StoreTime};
use onefold_store::{Atomically, ConsumeStore, Consumed, Finish, Mark, StoreError, crash, reason_of};
use tokio_postgres::types::{ToSql, Type};

use crate::PostgresWork;
use crate::about::About;
use crate::atomic::{LOCK_WAIT_MAX, Stopped, begun, bounded, closure, lock, locking};
use crate::claim::version_number;
use crate::error::Failed;
use crate::held::Held;
use crate::inbox::{self, MarkWork, retention_ms};
use crate::inbox_row::{self, Standing};
use crate::row::{get, unreadable};
use crate::server::pause;
use crate::store::PostgresStore;

/// Whether the lock is ours, and whether later statements of the transaction see what is committed meanwhile.
pub(crate) const TRY_LOCK: &str =
    "SELECT pg_try_advisory_xact_lock($1), current_setting('transaction_isolation') = 'read committed'";

/// The time, where the message is new and the lock is ours.
pub(crate) const BEGIN_NEW: &str =
    "SELECT onefold.inbox_begin($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

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
    if mark.mark.round == 0
        && mark.mark.versioned.is_none()
        && let Some((held, now)) = begin_new(mark, store).await?
    {
        let (held, finished) =
            closure(held, mark.mark.id, About::message(&mark.mark), now, work, store).await?;
        if finished.finish == Finish::Succeeded {
            mark.commit_marked(held, &finished, store).await?;
            return Ok(done(now, finished.handled(), finished.made_messages, store));
        }
        return rejected(mark, held, reason_of(&finished.kept), store).await;
    }
    let (held, standing) = match enter(mark, store).await? {
        Ok(entered) => entered,
        Err(consumed) => return Ok(consumed),
    };
    let newer = match bounded(mark.is_newer(&held, store)).await {
        Ok(newer) => newer,
        Err(failed) => return Err(held.failed(failed).await.into()),
    };
    if !newer {
        let state = InboxState::Superseded;
        let to = mark.done(state, None, &standing.entries);
        return Ok(match mark.commit(held, &to, store).await? {
            Ok(now) => done(now, state, false, store),
            Err(found) => found,
        });
    }
    let (held, finished) =
        closure(held, mark.mark.id, About::message(&mark.mark), standing.now, work, store).await?;
    if finished.finish == Finish::Rejected {
        return rejected(mark, held, reason_of(&finished.kept), store).await;
    }
    let state = finished.handled();
    let to = mark.done(state, None, &standing.entries);
    Ok(match mark.commit(held, &to, store).await? {
        Ok(now) => done(now, state, finished.made_messages, store),
        Err(found) => found,
    })
}

/// A handler that refuses its message: its writes go; the mark is made in a transaction of its own.
async fn rejected(
    mark: &MarkWork,
    held: Held,
    reason: Option<String>,
    store: &PostgresStore,
) -> Result<Consumed, Stopped> {
    held.roll_back().await;
    let (held, standing) = inbox::enter(mark.mark.id, store).await?;
    if let Some(consumed) = mark.judge(&standing) {
        held.roll_back().await;
        return Ok(consumed);
    }
    let state = InboxState::Rejected;
    let to = mark.done(state, reason.as_deref(), &standing.entries);
    Ok(match mark.commit(held, &to, store).await? {
        Ok(now) => done(now, state, false, store),
        Err(found) => found,
    })
}

fn done(now: StoreTime, state: InboxState, made_messages: bool, store: &PostgresStore) -> Consumed {
    if made_messages {
        store.hints().give();
    }
    Consumed::Done { now, state }
}

/// Begins the handler's transaction with the lock of the message and its mark, as most messages are new. `None`: it is
/// to be looked at first.
async fn begin_new(mark: &MarkWork, store: &PostgresStore) -> Result<Option<(Held, StoreTime)>, Stopped> {
    let mut held = store.server().for_closure().await?;
    let begin = held.begin(store.closure_time_max());
    let MarkWork { mark, form, nonce, .. } = mark;
    let params: [(&(dyn ToSql + Sync), Type); 13] = [
        (&store.server().now(), Type::INT8),
        (&lock(mark.id), Type::INT8),
        (&mark.id.as_bytes().as_slice(), Type::BYTEA),
        (&mark.identity.consumer.as_bytes(), Type::BYTEA),
        (&mark.identity.source.as_bytes(), Type::BYTEA),
        (&mark.identity.message.as_str().as_bytes(), Type::BYTEA),
        (&mark.handler.as_bytes(), Type::BYTEA),
        (&version_number(mark.fingerprint.version), Type::INT2),
        (&mark.fingerprint.digest.as_slice(), Type::BYTEA),
        (nonce, Type::INT8),
        (&retention_ms(&mark.retention), Type::INT8),
        (&mark.too_old_at.map(|at| at.0), Type::INT8),
        (form, Type::BYTEA),
    ];
    crash::point("postgres.new_mark.before");
    let asked = bounded(async {
        let statement = held.prepared(BEGIN_NEW, &params).await.map_err(|error| Failed::of(&error))?;
        let (open, rows) = tokio::join!(biased; held.batch_execute(&begin), statement.query(&held, &params));
        let rows = open.and(rows).map_err(|error| Failed::of(&error))?;
        Ok(rows.first().map(|row| get::<Option<i64>>(row, 0)).transpose()?.flatten())
    });
    let asked = asked.await;
    crash::point("postgres.new_mark.after");
    match asked {
        Ok(Some(now)) => Ok(Some((held, StoreTime(now)))),
        Ok(None) => {
            held.roll_back().await;
            Ok(None)
        }
        Err(failed) => Err(held.failed(failed).await.into()),
    }
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
    crash::point("postgres.handling.before");
    let asked = bounded(async {
        let (open, tried, rows) = tokio::join!(biased;
            held.batch_execute("BEGIN"),
            held.query_typed(TRY_LOCK, &lock),
            held.query_typed(inbox_row::OF, &params)
        );
        let (tried, rows) =
            open.and(tried).and_then(|tried| Ok((tried, rows?))).map_err(|e| Failed::of(&e))?;
        let tried = tried.first().ok_or_else(|| unreadable("no answer"))?;
        match (get::<bool>(tried, 0)?, get::<bool>(tried, 1)?) {
            (true, true) => return Ok(Some(Standing::of(&rows)?)),
            (true, false) => return Ok(Some(inbox_row::standing(id, store.server()).await?)),
            (false, false) => return Ok(None),
            (false, true) => {}
        }
        let wait = locking(id);
        let (waited, rows) =
            tokio::join!(biased; held.batch_execute(&wait), held.query_typed(inbox_row::OF, &params));
        let rows = waited.and(rows).map_err(|error| begun(&error))?;
        Ok(Some(Standing::of(&rows)?))
    });
    let asked = asked.await;
    crash::point("postgres.handling.after");
    match asked {
        Ok(Some(standing)) => Ok(Some((held, standing))),
        Ok(None) => {
            held.roll_back().await;
            Ok(None)
        }
        Err(failed) => Err(held.failed(failed).await.into()),
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
