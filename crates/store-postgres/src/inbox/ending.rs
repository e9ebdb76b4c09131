//! The end of a handled message: its mark and the commit.
//!
//! When the answer to a commit is lost, the message's lock says when the server has ended that transaction, and the
//! mark says how; where the mark may have been forgotten since, nobody knows. The retention of a mark counts from the
//! end of its handler. One that was made when its handler began is written again at the end where that makes a
//! difference of more than a thousandth.

use onefold_core::contract::Retention;
use onefold_core::{InboxState, StoreTime};
use onefold_store::{Consumed, StoreError, crash};
use tokio_postgres::types::{ToSql, Type};

use super::{MarkWork, State, enter, retention_ms};
use crate::atomic::{End, Finished, Stopped, bounded, ended, in_turn};
use crate::held::Held;
use crate::inbox_row::{self, Standing, round_number, state_number};
use crate::row::{get, millis};
use crate::store::PostgresStore;

pub(crate) const PUT: &str =
    "SELECT onefold.inbox_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
/// Ends a message that was marked when its handler began.
pub(crate) const END: &str = concat!(
    "UPDATE onefold.inbox SET state = $3, ended_at = ",
    millis!(),
    ", expires_at = ",
    millis!(),
    " + $4 WHERE id = $2 AND round = 0::integer"
);

/// A retention is exact to this part of it.
const EXACT_TO: u32 = 1000;

impl MarkWork {
    /// Writes the mark and commits, in one round trip. `Err`: what stands in the way, or what else became of it.
    pub(crate) async fn commit(
        &self,
        held: Held,
        to: &State<'_>,
        store: &PostgresStore,
    ) -> Result<Result<StoreTime, Consumed>, Stopped> {
        let mark = &self.mark;
        let retention = retention_ms(to.retention);
        let params: [(&(dyn ToSql + Sync), Type); 16] = [
            (&store.server().now(), Type::INT8),
            (&mark.id.as_bytes().as_slice(), Type::BYTEA),
            (&round_number(mark.round), Type::INT4),
            (&mark.identity.consumer.as_bytes(), Type::BYTEA),
            (&mark.identity.source.as_bytes(), Type::BYTEA),
            (&mark.identity.message.as_str().as_bytes(), Type::BYTEA),
            (&mark.handler.as_bytes(), Type::BYTEA),
            (&crate::claim::version_number(mark.fingerprint.version), Type::INT2),
            (&mark.fingerprint.digest.as_slice(), Type::BYTEA),
            (&state_number(to.state), Type::INT2),
            (&self.nonce, Type::INT8),
            (&i32::try_from(to.failures).unwrap_or(i32::MAX), Type::INT4),
            (&retention, Type::INT8),
            (&to.floor.map(|floor| floor.0), Type::INT8),
            (&to.reason.map(str::as_bytes), Type::BYTEA),
            (&self.form, Type::BYTEA),
        ];
        crash::point("postgres.inbox_mark.before");
        let asked = bounded(async {
            Ok(in_turn(held.query_typed(PUT, &params), held.batch_execute("COMMIT")).await)
        });
        let asked = asked.await;
        crash::point("postgres.inbox_mark.after");
        match ended(held, "inbox", asked).await? {
            End::Done(rows) => {
                let now = rows.first().map(|row| get(row, 0)).transpose()?;
                Ok(Ok(StoreTime(now.unwrap_or(0))))
            }
            End::Exists => {
                let Standing { now, entries, .. } = inbox_row::standing(mark.id, store.server()).await?;
                Ok(Err(Consumed::Found { now, entries }))
            }
            End::Lost(why) => self.fate(why, store).await,
        }
    }

    /// Commits a transaction in which the mark was made when it began. All that was seen of it went well; where the end
    /// of a statement of the handler's was not, it may have failed, and `COMMIT` ends a transaction that has failed
    /// without a word.
    pub(crate) async fn commit_marked(
        &self,
        held: Held,
        finished: &Finished,
        store: &PostgresStore,
    ) -> Result<(), Stopped> {
        let (state, retention) = (finished.handled(), &self.mark.retention);
        let params: [(&(dyn ToSql + Sync), Type); 4] = [
            (&store.server().now(), Type::INT8),
            (&self.mark.id.as_bytes().as_slice(), Type::BYTEA),
            (&state_number(state), Type::INT2),
            (&retention_ms(retention), Type::INT8),
        ];
        crash::point("postgres.marked.before");
        let asked = bounded(async {
            if state != InboxState::Processed || self.falls_short_of(retention) {
                let (written, committed) =
                    in_turn(held.query_typed(END, &params), held.batch_execute("COMMIT")).await;
                return Ok((written.map(drop), committed));
            }
            let commit = if finished.unseen { "SELECT 1; COMMIT" } else { "COMMIT" };
            Ok((Ok(()), held.batch_execute(commit).await))
        });
        let asked = asked.await;
        crash::point("postgres.marked.after");
        match ended(held, "inbox", asked).await? {
            End::Done(()) => Ok(()),
            End::Exists => Err(Stopped::contended("somebody came between".into())),
            End::Lost(why) => match self.fate(why, store).await? {
                Ok(_) => Ok(()),
                Err(found) => Err(Stopped::contended(format!("somebody came between: {found:?}"))),
            },
        }
    }

    /// What became of a transaction whose commit was not answered. The lock says that the server has ended it.
    async fn fate(&self, why: String, store: &PostgresStore) -> Result<Result<StoreTime, Consumed>, Stopped> {
        tracing::debug!(%why, "the answer to a commit was lost; the mark is looked for");
        let entered = enter(self.mark.id, store).await;
        let (held, standing) = entered.map_err(|failed| {
            let then = StoreError::from(failed);
            StoreError::Unavailable(format!("the answer to a commit was lost ({why}); {then}"))
        })?;
        held.roll_back().await;
        if standing.nonces.contains(&self.nonce) {
            return Ok(Ok(standing.now));
        }
        if self.may_be_forgotten() {
            let why = format!("the answer to a commit was lost ({why}), and its mark may be forgotten since");
            return Err(StoreError::Unavailable(why).into());
        }
        Err(Stopped::contended(format!("the connection was lost before the commit: {why}")))
    }

    /// Whether a mark of the beginning would be forgotten noticeably too early: its retention counts from the end.
    fn falls_short_of(&self, retention: &Retention) -> bool {
        matches!(retention, Retention::For(retention) if self.begun.elapsed() > *retention / EXACT_TO)
    }

    /// Whether a mark that was committed may have been swept since.
    fn may_be_forgotten(&self) -> bool {
        matches!(&self.mark.retention, Retention::For(retention) if self.begun.elapsed() >= *retention)
    }
}
