//! Messages that came in: their marks, made in one transaction with what they bring about.
//!
//! Whoever handles a message holds its lock until the end of the transaction, so what is looked at under it is still
//! so when the mark is written; `(id, round)` is unique all the same, and what stands there in spite of it makes the
//! commit a rollback. What an entry means is not judged here: rows that stand in the way are handed back.
//!
//! *After a crash* there is the whole or nothing. When the answer to a commit is lost, the message's lock says when the
//! server has ended that transaction, and the mark says how.

use onefold_core::contract::Retention;
use onefold_core::{FingerprintBuilder, InboxEntry, InboxState, OperationId, StoreTime};
use onefold_store::codec::{encode_message, message_length};
use onefold_store::{Consumed, Mark, Sealer, StoreError, crash};
use tokio_postgres::types::{ToSql, Type};

use crate::ask::Within;
use crate::atomic::{Committing, Finished, Stopped, begin_with, begun, bounded, committing, in_turn};
use crate::committed::BEGIN;
use crate::error::Failed;
use crate::held::Held;
use crate::inbox_row::{self, Standing, round_number, state_number};
use crate::outgoing::{self, Outgoing};
use crate::row::{duration_ms, get};
use crate::server::{RERUNS_MAX, pause};
use crate::store::PostgresStore;

pub(crate) const PUT: &str =
    "SELECT onefold.inbox_put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
/// The mark of a message whose handler came too late.
pub(crate) const SUPERSEDE: &str =
    "UPDATE onefold.inbox SET state = 3::smallint WHERE id = $1 AND round = 0::integer";
/// Whether this version is newer than the entity's; it is noted then. $4: its own version counts as newer.
pub(crate) const NEWER: &str = "INSERT INTO onefold.entities AS e (entity, version, message) VALUES ($1, $2, $3)
    ON CONFLICT (entity) DO UPDATE SET version = excluded.version, message = excluded.message
    WHERE e.version < excluded.version OR ($4 AND e.message = excluded.message AND e.version = excluded.version)
    RETURNING e.version";

/// A mark with its body sealed.
pub(crate) struct MarkWork {
    pub(crate) mark: Mark,
    pub(crate) form: Option<Vec<u8>>,
    pub(crate) nonce: i64,
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
        MarkWork { mark, form, nonce: rand::random() }
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

    /// Whether it brings something newer, as far as versions are compared; notes that.
    pub(crate) async fn is_newer(&self, held: &Held, store: &PostgresStore) -> Result<bool, Failed> {
        let mark = &self.mark;
        let Some(versioned) = &mark.versioned else { return Ok(true) };
        let entity = FingerprintBuilder::new(store.secret())
            .part("consumer", mark.identity.consumer.as_bytes())
            .part("source", mark.identity.source.as_bytes())
            .part("entity", versioned.entity.as_bytes())
            .finish()
            .digest;
        let params: [(&(dyn ToSql + Sync), Type); 4] = [
            (&entity.as_slice(), Type::BYTEA),
            (&versioned.version, Type::INT8),
            (&mark.id.as_bytes().as_slice(), Type::BYTEA),
            (&(mark.round > 0), Type::BOOL),
        ];
        let rows = held.query_typed(NEWER, &params).await.map_err(|error| Failed::of(&error))?;
        crash::point("postgres.newer.after");
        Ok(!rows.is_empty())
    }

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
            let (written, committed) =
                in_turn(held.query_typed(PUT, &params), held.batch_execute("COMMIT")).await;
            Ok((written, committed.unwrap_or(Ok(()))))
        });
        let asked = asked.await;
        crash::point("postgres.inbox_mark.after");
        let lost = match asked {
            Ok((written, committed)) => match committing("inbox", &written, &committed) {
                Committing::Done => {
                    held.give_back();
                    let rows = written.map_err(|error| Failed::of(&error))?;
                    let now = rows.first().map(|row| get(row, 0)).transpose()?;
                    return Ok(Ok(StoreTime(now.unwrap_or(0))));
                }
                Committing::Exists => {
                    held.roll_back().await;
                    let Standing { now, entries, .. } = inbox_row::standing(mark.id, store.server()).await?;
                    return Ok(Err(Consumed::Found { now, entries }));
                }
                Committing::Undone(stopped) => {
                    held.roll_back().await;
                    return Err(stopped);
                }
                Committing::Broken(stopped) => return Err(stopped),
                Committing::Lost(why) => why,
            },
            Err(Failed::Lost(why)) => why,
            Err(other) => return Err(other.into()),
        };
        // Closed first, so that the server need not wait for us.
        drop(held);
        self.fate(lost, store).await
    }

    /// Commits a transaction in which the mark was made. All that was seen of it went well; where the end of a statement
    /// of the handler's was not, it may have failed, and `COMMIT` ends a transaction that has failed without a word.
    pub(crate) async fn commit_marked(
        &self,
        held: Held,
        finished: &Finished,
        store: &PostgresStore,
    ) -> Result<(), Stopped> {
        let id: [(&(dyn ToSql + Sync), Type); 1] = [(&self.mark.id.as_bytes().as_slice(), Type::BYTEA)];
        crash::point("postgres.marked.before");
        let asked = bounded(async {
            if finished.handled() == InboxState::Superseded {
                let (written, committed) =
                    in_turn(held.query_typed(SUPERSEDE, &id), held.batch_execute("COMMIT")).await;
                return Ok((written.map(drop), committed.unwrap_or(Ok(()))));
            }
            let commit = if finished.unseen { "SELECT 1; COMMIT" } else { "COMMIT" };
            Ok((Ok(()), held.batch_execute(commit).await))
        });
        let asked = asked.await;
        crash::point("postgres.marked.after");
        let lost = match asked {
            Ok((written, committed)) => match committing("inbox", &written, &committed) {
                Committing::Done => {
                    held.give_back();
                    return Ok(());
                }
                Committing::Exists => return Err(Stopped::contended("somebody came between".into())),
                Committing::Undone(stopped) => {
                    held.roll_back().await;
                    return Err(stopped);
                }
                Committing::Broken(stopped) => return Err(stopped),
                Committing::Lost(why) => why,
            },
            Err(Failed::Lost(why)) => why,
            Err(other) => return Err(other.into()),
        };
        // Closed first, so that the server need not wait for us.
        drop(held);
        match self.fate(lost, store).await? {
            Ok(_) => Ok(()),
            Err(found) => Err(Stopped::contended(format!("somebody came between: {found:?}"))),
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
        Err(Stopped::contended(format!("the connection was lost before the commit: {why}")))
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
        open.and(rows).map_err(|error| begun(&error))
    });
    let asked = asked.await;
    crash::point("postgres.inbox.after");
    match asked {
        Ok(rows) => match Standing::of(&rows) {
            Ok(standing) => Ok((held, standing)),
            Err(error) => {
                held.roll_back().await;
                Err(error.into())
            }
        },
        Err(failed) => {
            if !failed.ends_connection() {
                held.roll_back().await;
            }
            Err(failed)
        }
    }
}

/// A message whose effect is other messages.
pub(crate) async fn accept(
    mark: Mark,
    messages: impl Fn() -> Vec<Outgoing> + Sync,
    store: &PostgresStore,
) -> Result<Consumed, StoreError> {
    let mark = MarkWork::new(mark, store.sealer());
    let mut reruns = 0;
    loop {
        let accepted = accept_once(&mark, &messages, store).await;
        match accepted.map_or_else(Stopped::consumed, Ok)? {
            Consumed::Contended(_) if reruns < RERUNS_MAX => {
                pause(reruns).await;
                reruns += 1;
            }
            consumed => return Ok(consumed),
        }
    }
}

async fn accept_once(
    mark: &MarkWork,
    messages: &(impl Fn() -> Vec<Outgoing> + Sync),
    store: &PostgresStore,
) -> Result<Consumed, Stopped> {
    let (held, standing) = enter(mark.mark.id, store).await?;
    if let Some(consumed) = mark.judge(&standing) {
        held.roll_back().await;
        return Ok(consumed);
    }
    let made = bounded(async {
        let within = Within { client: &*held, now: store.server().now() };
        if !mark.is_newer(&held, store).await? {
            return Ok(None);
        }
        // An earlier mark of the message, which is forgotten, may have brought them about before.
        outgoing::put_anew(messages, mark.mark.id, &within).await.map(Some)
    });
    let made = match made.await {
        Ok(made) => made,
        Err(failed) => {
            if !failed.ends_connection() {
                held.roll_back().await;
            }
            return Err(failed.into());
        }
    };
    let state = if made.is_some() { InboxState::Processed } else { InboxState::Superseded };
    let to = mark.done(state, None, &standing.entries);
    let now = match mark.commit(held, &to, store).await? {
        Ok(now) => now,
        Err(found) => return Ok(found),
    };
    if made.is_some_and(|made| made > 0) {
        store.hints().give();
    }
    Ok(Consumed::Done { now, state })
}

/// Notes a failure of a handler; gives the entry as it then stands.
pub(crate) async fn fail(
    mark: &MarkWork,
    reason: &str,
    park_after: Option<u32>,
    store: &PostgresStore,
) -> Result<InboxEntry, StoreError> {
    let mut reruns = 0;
    loop {
        let failed = fail_once(mark, reason, park_after, store).await;
        match failed.map_or_else(|stopped| stopped.consumed().map(Err), |entry| Ok(Ok(entry)))? {
            Ok(entry) => return Ok(entry),
            Err(Consumed::Contended(_)) if reruns < RERUNS_MAX => {
                pause(reruns).await;
                reruns += 1;
            }
            Err(other) => {
                return Err(StoreError::Unavailable(format!("a failure could not be noted: {other:?}")));
            }
        }
    }
}

async fn fail_once(
    mark: &MarkWork,
    reason: &str,
    park_after: Option<u32>,
    store: &PostgresStore,
) -> Result<InboxEntry, Stopped> {
    let (held, Standing { mut entries, .. }) = enter(mark.mark.id, store).await?;
    if mark.is_barred_by(&entries) {
        held.roll_back().await;
        return entries
            .pop()
            .ok_or_else(|| StoreError::Refused("an entry is there and is not".into()).into());
    }
    let failures = mark.failures(&entries).saturating_add(1);
    let parked = park_after.is_some_and(|after| failures >= after);
    let state = if parked { InboxState::Parked } else { InboxState::Failing };
    let (retention, reason) = (&Retention::Forever, Some(reason));
    let to = State { state, failures, retention, floor: None, reason };
    if let Err(other) = mark.commit(held, &to, store).await? {
        return Err(Stopped::contended(format!("somebody came between: {other:?}")));
    }
    let entry = inbox_row::standing(mark.mark.id, store.server()).await?.entries.pop();
    entry.ok_or_else(|| StoreError::Refused("a failure that was noted is not there".into()).into())
}
