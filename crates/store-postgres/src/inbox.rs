//! Messages that came in: their marks, made in one transaction with what they bring about.
//!
//! Whoever handles a message holds its lock until the end of the transaction, so what is looked at under it is still
//! so when the mark is written; `(id, round)` is unique all the same, and what stands there in spite of it makes the
//! commit a rollback. What an entry means is not judged here: rows that stand in the way are handed back.
//!
//! *After a crash* there is the whole or nothing. How marks are committed: [`ending`].

use onefold_core::contract::Retention;
use onefold_core::{InboxEntry, InboxState, OperationId, StoreTime};
use onefold_store::codec::{encode_message, message_length};
use onefold_store::{Consumed, Mark, Sealer, crash};
use tokio::time::Instant;
use tokio_postgres::types::{ToSql, Type};

use crate::atomic::{begin_with, begun, bounded};
use crate::committed::BEGIN;
use crate::error::Failed;
use crate::held::Held;
use crate::inbox_row::{self, Standing};
use crate::row::duration_ms;
use crate::store::PostgresStore;

pub(crate) mod accept;
pub(crate) mod ending;
pub(crate) mod fail;
pub(crate) mod newer;

/// A mark with its body sealed.
pub(crate) struct MarkWork {
    pub(crate) mark: Mark,
    pub(crate) form: Option<Vec<u8>>,
    pub(crate) nonce: i64,
    /// When it came here: no mark of this transaction is older.
    begun: Instant,
}

/// A retention in milliseconds; `None` is for good.
pub(crate) fn retention_ms(retention: &Retention) -> Option<i64> {
    match retention {
        Retention::For(retention) => Some(duration_ms(*retention)),
        Retention::Forever => None,
    }
}

/// What is written into the row of a message.
pub(crate) struct State<'a> {
    pub(crate) state: InboxState,
    pub(crate) failures: u32,
    pub(crate) retention: &'a Retention,
    /// It stays at least until then.
    pub(crate) floor: Option<StoreTime>,
    pub(crate) reason: Option<&'a str>,
}

impl MarkWork {
    pub(crate) fn new(mut mark: Mark, sealer: &Sealer) -> MarkWork {
        let form = mark.body.take().map(|kept| {
            let length = message_length(&kept.headers, &kept.body);
            sealer.seal(&mark.id, length, |out| encode_message(&kept.headers, &kept.body, out))
        });
        MarkWork { mark, form, nonce: rand::random(), begun: Instant::now() }
    }

    /// Whether the entries stand in the way. Those of a message that fails do not.
    pub(crate) fn is_barred_by(&self, entries: &[InboxEntry]) -> bool {
        let Mark { round, fingerprint, .. } = &self.mark;
        entries.iter().any(|entry| {
            let goes_on = entry.state == InboxState::Failing && entry.fingerprint == *fingerprint;
            entry.round > *round || (entry.round == *round && !goes_on)
        })
    }

    /// What keeps the message from being handled now.
    pub(crate) fn judge(&self, standing: &Standing) -> Option<Consumed> {
        let (now, entries) = (standing.now, &standing.entries);
        if self.is_barred_by(entries) {
            return Some(Consumed::Found { now, entries: entries.clone() });
        }
        let too_old = entries.is_empty() && self.mark.too_old_at.is_some_and(|at| at <= now);
        too_old.then_some(Consumed::TooOld { now })
    }

    /// The end of a message that is done: its mark stays no shorter than those of earlier rounds.
    pub(crate) fn done<'a>(
        &'a self,
        state: InboxState,
        reason: Option<&'a str>,
        entries: &'a [InboxEntry],
    ) -> State<'a> {
        let earlier = || entries.iter().filter(|entry| entry.round < self.mark.round);
        let for_good = earlier().any(|entry| entry.expires_at.is_none());
        State {
            state,
            failures: self.failures(entries),
            retention: if for_good { &Retention::Forever } else { &self.mark.retention },
            floor: earlier().filter_map(|entry| entry.expires_at).max(),
            reason,
        }
    }

    pub(crate) fn failures(&self, entries: &[InboxEntry]) -> u32 {
        entries.iter().find(|entry| entry.round == self.mark.round).map_or(0, |entry| entry.failures)
    }
}

/// Begins a transaction at READ COMMITTED, takes the lock of the message, and looks at what stands of it.
pub(crate) async fn enter(id: OperationId, store: &PostgresStore) -> Result<(Held, Standing), Failed> {
    let held = Held::new(store.server().connection().await?);
    let params: [(&(dyn ToSql + Sync), Type); 2] =
        [(&store.server().now(), Type::INT8), (&id.as_bytes().as_slice(), Type::BYTEA)];
    let begin = begin_with(BEGIN, id);
    crash::point("postgres.inbox.before");
    let asked = bounded(async {
        let (open, rows) =
            tokio::join!(biased; held.batch_execute(&begin), held.query_typed(inbox_row::OF, &params));
        let rows = open.and(rows).map_err(|error| begun(&error))?;
        Ok(Standing::of(&rows)?)
    });
    let asked = asked.await;
    crash::point("postgres.inbox.after");
    match asked {
        Ok(standing) => Ok((held, standing)),
        Err(failed) => Err(held.failed(failed).await),
    }
}
