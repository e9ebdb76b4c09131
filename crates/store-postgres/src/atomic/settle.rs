//! An attempt, or a verdict, that settles its record together with what a closure writes.
//!
//! The record is looked at first, so that a closure does not run where another has settled it; the judge is the
//! transition behind the closure, in whose row lock nobody waits for the closure's end: heartbeats and takeovers go
//! on. Where it has changed meanwhile, everything is undone. The key's lock is that of every atomic attempt.

use onefold_core::StoreTime;
use onefold_store::{Advance, Also, Atomically, Finish, Step, StoreError, crash};
use tokio_postgres::types::{ToSql, Type};

use super::key_lock::{tried, trying};
use super::next::commit;
use super::{PostgresWork, Stopped, bounded, closure, found};
use crate::about::About;
use crate::advance::AdvanceWork;
use crate::error::Failed;
use crate::lanes::Work;
use crate::row::{clock, get, state_bits, unreadable};
use crate::store::PostgresStore;

/// Whether the record $2 is under the attempt $3, in one of the states $4.
pub(crate) const STANDS: &str = concat!(
    "SELECT c.now, EXISTS (SELECT FROM onefold.operations o
        WHERE o.id = $2::bytea AND o.attempt = $3::integer AND (1 << o.state) & $4::integer <> 0)
    FROM (",
    clock!(),
    ") c"
);
const ANY_STATE: i32 = i32::MAX;

pub(crate) async fn run(
    advance: Advance,
    work: &mut PostgresWork,
    store: &PostgresStore,
) -> Result<Atomically, Stopped> {
    let (id, start) = (advance.id, advance.start);
    if !matches!(advance.step, Step::Settle { .. } | Step::Reconcile { .. }) {
        return Err(Stopped::Store(StoreError::Refused("an entry that settles says so".into())));
    }
    let settle = AdvanceWork::new(advance, store.sealer());
    store.takes(settle.bytes())?;
    let states = if start.also == Also::OrReconciled { ANY_STATE } else { state_bits(start.states) };
    let params: [(&(dyn ToSql + Sync), Type); 4] = [
        (&store.server().now(), Type::INT8),
        (&id.as_bytes().as_slice(), Type::BYTEA),
        (&i32::try_from(start.attempt).unwrap_or(-1), Type::INT4),
        (&states, Type::INT4),
    ];
    let held = store.server().for_closure().await?;
    let started = bounded(async {
        crash::point("postgres.settling.before");
        let taken = tried(&held, &trying(id)).await?;
        crash::point("postgres.settling.after");
        if !taken {
            return Ok(None);
        }
        let rows = held.query_typed(STANDS, &params).await.map_err(|error| Failed::of(&error))?;
        crash::point("postgres.stands.after");
        let row = rows.first().ok_or_else(|| unreadable("no answer"))?;
        Ok(Some((StoreTime(get(row, 0)?), get::<bool>(row, 1)?)))
    });
    let now = match started.await {
        Ok(Some((now, true))) => now,
        Ok(Some((_, false))) => {
            held.roll_back().await;
            return Err(Stopped::ended(found(id, store).await?));
        }
        Ok(None) => {
            held.roll_back().await;
            return Err(Stopped::busy());
        }
        Err(failed) => return Err(held.failed(failed).await.into()),
    };
    let (held, finished) = closure(held, id, About::Operation, now, work, store).await?;
    if finished.finish == Finish::Rejected {
        held.roll_back().await;
        return Err(Stopped::Store(StoreError::Refused("a work beside an outcome rejects nothing".into())));
    }
    commit(held, &settle, start.attempt, finished, store).await
}
