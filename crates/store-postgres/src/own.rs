//! The service's own reads and writes, beside the boundary: of no operation and no message.
//!
//! Both are a closure in a transaction of the pool, under the time and the limits of every closure. A write is
//! committed behind a statement that a transaction which an error has ended would not take: the commit of such a one
//! rolls back and reports success. When the answer to the commit is lost nobody knows, since there is no record to look
//! for. A read sees one state of the database and writes nothing.

use async_trait::async_trait;
use onefold_core::StoreTime;
use onefold_store::{Atomically, Finish, NO_OPERATION, StoreError, WriteStore, Written};
use tokio_postgres::types::Type;

use crate::PostgresWork;
use crate::about::About;
use crate::atomic::{End, Stopped, bounded, closure, ended, in_turn};
use crate::error::Failed;
use crate::held::Held;
use crate::row::{clock, get, unreadable};
use crate::store::PostgresStore;

const WRITING: &str = "BEGIN";
const READING: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
pub(crate) const NOW: &str = clock!();

#[async_trait]
impl WriteStore for PostgresStore {
    async fn write(&self, work: &mut PostgresWork) -> Result<Written, StoreError> {
        write(work, self).await.map_or_else(written, |()| Ok(Written::Done))
    }
}

impl PostgresStore {
    /// Runs a work in a transaction that only reads, and undoes it.
    pub async fn lend(&self, work: &mut PostgresWork) -> Result<Written, StoreError> {
        read(work, self).await.map_or_else(written, |()| Ok(Written::Done))
    }
}

async fn write(work: &mut PostgresWork, store: &PostgresStore) -> Result<(), Stopped> {
    let (held, now) = begin(WRITING, store).await?;
    let (held, finished) = closure(held, NO_OPERATION, About::Operation, now, work, store).await?;
    if finished.finish == Finish::Rejected {
        held.roll_back().await;
        return Err(Stopped::Undone(Box::new(Atomically::NotDone)));
    }
    let asked = bounded(async {
        let looked = held.query_typed("SELECT 1", &[]);
        Ok(in_turn(looked, held.batch_execute("COMMIT")).await)
    });
    let asked = asked.await;
    match ended(held, "", asked).await? {
        End::Done(_) => {
            if finished.made_messages {
                store.hints().give();
            }
            Ok(())
        }
        End::Exists => Err(Stopped::Store(unreadable("nothing stands in the way of nothing"))),
        End::Lost(why) => Err(Failed::Lost(why).into()),
    }
}

async fn read(work: &mut PostgresWork, store: &PostgresStore) -> Result<(), Stopped> {
    let (held, now) = begin(READING, store).await?;
    let (held, _) = closure(held, NO_OPERATION, About::Operation, now, work, store).await?;
    held.roll_back().await;
    Ok(())
}

async fn begin(sql: &str, store: &PostgresStore) -> Result<(Held, StoreTime), Stopped> {
    let held = store.server().for_closure().await?;
    let begun = bounded(async {
        let params = [(&store.server().now() as _, Type::INT8)];
        let (open, rows) = tokio::join!(biased; held.batch_execute(sql), held.query_typed(NOW, &params));
        open.and(rows).map_err(|error| Failed::of(&error))
    });
    match begun.await {
        Ok(rows) => {
            let row = rows.first().ok_or_else(|| unreadable("no answer"))?;
            Ok((held, StoreTime(get(row, 0)?)))
        }
        Err(failed) => Err(held.failed(failed).await.into()),
    }
}

fn written(stopped: Stopped) -> Result<Written, StoreError> {
    let ended = match stopped {
        Stopped::Store(error) => return Err(error),
        Stopped::Ended(ended) | Stopped::Undone(ended) => *ended,
    };
    match ended {
        Atomically::NotDone => Ok(Written::NotDone),
        Atomically::Stopped(why) => Ok(Written::Stopped(why)),
        Atomically::Contended(why) => Ok(Written::Contended(why)),
        Atomically::Busy => Ok(Written::Contended("others hold what it needs".into())),
        other => Err(StoreError::Refused(format!("writes end in no such way: {other:?}"))),
    }
}
