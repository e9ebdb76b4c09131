//! Messages that came in: their marks, made in one savepoint with what they bring about.
//!
//! The one write lock is held, so what is looked at first is still so when it is written, and `(id, round)` is unique
//! all the same. What an entry means is not judged here: rows that stand in the way are handed back.

use onefold_core::{ActKind, InboxEntry, InboxState, Message, OperationId};
use onefold_store::codec::{encode_message, message_length};
use onefold_store::{Consumed, DeliveryCounts, Mark, Sealer, Unparking, crash};
use rusqlite::{OptionalExtension, params};

use crate::acts;
use crate::batch::Batch;
use crate::errand::Work;
use crate::error::JobError;
use crate::inbox_row::{self, state_number};
use crate::outgoing::{Outgoing, forget_done, make_all};
use crate::row::kept_ms;

const PUT: &str =
    "INSERT INTO onefold_inbox (seq, id, round, state, failures, received_at, ended_at, expires_at,
        consumer, source, message, handler, fingerprint_version, fingerprint, reason, kept)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
    ON CONFLICT (id, round) DO UPDATE SET state = excluded.state, failures = excluded.failures,
        ended_at = excluded.ended_at, expires_at = excluded.expires_at, handler = excluded.handler,
        reason = excluded.reason,
        kept = CASE WHEN excluded.state IN (0, 4) THEN coalesce(excluded.kept, kept) ELSE excluded.kept END";
const VERSION: &str = "SELECT version, message FROM onefold_entities WHERE entity = ?1";
const SET_VERSION: &str = "INSERT INTO onefold_entities (entity, version, message) VALUES (?1, ?2, ?3)
    ON CONFLICT (entity) DO UPDATE SET version = excluded.version, message = excluded.message";
const COUNT: &str = "UPDATE onefold_inbox SET duplicates = duplicates + ?3, conflicts = conflicts + ?4
    WHERE id = ?1 AND round = ?2";
const UNPARK: &str = "UPDATE onefold_inbox SET state = 0, failures = 0, ended_at = ?3
    WHERE id = ?1 AND round = ?2 AND state = 4";
const OLD: &str =
    "SELECT i.seq, i.id FROM onefold_inbox i WHERE i.expires_at IS NOT NULL AND i.expires_at <= ?1
    AND NOT EXISTS (SELECT 1 FROM onefold_outbox_open o WHERE o.cause = i.id) ORDER BY i.expires_at LIMIT ?2";
const FORGET: &str = "DELETE FROM onefold_inbox WHERE seq = ?1";
const ANY: &str = "SELECT 1 FROM onefold_inbox WHERE id = ?1 LIMIT 1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[PUT, VERSION, SET_VERSION, COUNT, UNPARK, OLD, FORGET, ANY];

/// A mark with its body sealed.
pub(crate) struct MarkWork {
    pub(crate) mark: Mark,
    form: Option<Vec<u8>>,
}

/// What is written into the row of a message.
struct State<'a> {
    state: InboxState,
    failures: u32,
    expires_at: Option<i64>,
    reason: Option<&'a str>,
}

impl MarkWork {
    pub(crate) fn new(mut mark: Mark, sealer: &Sealer) -> MarkWork {
        let form = mark.body.take().map(|kept| {
            let length = message_length(&kept.headers, &kept.body);
            sealer.seal(&mark.id, length, |out| encode_message(&kept.headers, &kept.body, out))
        });
        MarkWork { mark, form }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.form.as_ref().map_or(0, Vec::len)
    }

    /// The entries, and whether they leave the way free. Those of a message that fails do.
    fn in_the_way(&self, batch: &Batch<'_>) -> Result<(Vec<InboxEntry>, bool), JobError> {
        let Mark { id, round, fingerprint, .. } = &self.mark;
        let entries = inbox_row::entries(*id, batch.connection)?;
        let stands = entries.iter().any(|entry| {
            let goes_on = entry.state == InboxState::Failing && entry.fingerprint == *fingerprint;
            entry.round > *round || (entry.round == *round && !goes_on)
        });
        Ok((entries, stands))
    }

    /// What keeps the message from being handled now; otherwise its entries so far.
    pub(crate) fn judge(&self, batch: &Batch<'_>) -> Result<Result<Vec<InboxEntry>, Consumed>, JobError> {
        let (entries, stands) = self.in_the_way(batch)?;
        let now = batch.moment.time;
        if stands {
            return Ok(Err(Consumed::Found { now, entries }));
        }
        if entries.is_empty() && self.mark.too_old_at.is_some_and(|at| at <= now) {
            return Ok(Err(Consumed::TooOld { now }));
        }
        Ok(Ok(entries))
    }

    /// Whether it brings something newer, as far as versions are compared; notes that.
    pub(crate) fn is_newer(&self, batch: &Batch<'_>) -> Result<bool, JobError> {
        let mark = &self.mark;
        let Some(versioned) = &mark.versioned else { return Ok(true) };
        let entity = versioned.digest(&mark.identity, batch.identity_key);
        let known: Option<(i64, [u8; 32])> = batch
            .connection
            .prepare_cached(VERSION)?
            .query_row([entity], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let newer = known.is_none_or(|(version, message)| {
            let own = mark.round > 0 && message == *mark.id.as_bytes();
            versioned.version > version || (own && versioned.version == version)
        });
        if newer {
            let row = params![entity, versioned.version, mark.id.as_bytes()];
            batch.connection.prepare_cached(SET_VERSION)?.execute(row)?;
            crash::point("sqlite.version.after");
        }
        Ok(newer)
    }

    /// Makes the mark of a message that is done. It stays no shorter than those of earlier rounds.
    pub(crate) fn done(
        &self,
        state: InboxState,
        reason: Option<&str>,
        entries: &[InboxEntry],
        batch: &mut Batch<'_>,
    ) -> Result<Consumed, JobError> {
        let own = kept_ms(&self.mark.retention).map(|kept| batch.now_ms().saturating_add(kept));
        let earlier = entries.iter().filter(|entry| entry.round < self.mark.round);
        let expires_at = earlier.fold(own, |longest, entry| Some(longest?.max(entry.expires_at?.0)));
        let failures = self.last(entries).map_or(0, |entry| entry.failures);
        self.put(&State { state, failures, expires_at, reason }, batch)?;
        Ok(Consumed::Done { now: batch.moment.time, state })
    }

    fn last<'a>(&self, entries: &'a [InboxEntry]) -> Option<&'a InboxEntry> {
        entries.iter().find(|entry| entry.round == self.mark.round)
    }

    fn put(&self, to: &State<'_>, batch: &mut Batch<'_>) -> Result<(), JobError> {
        let (mark, seq) = (&self.mark, batch.next_seq());
        crash::point("sqlite.mark.before");
        batch.connection.prepare_cached(PUT)?.execute(params![
            seq,
            mark.id.as_bytes(),
            mark.round,
            state_number(to.state),
            to.failures,
            batch.now_ms(),
            to.expires_at,
            mark.identity.consumer,
            mark.identity.source,
            mark.identity.message.as_str(),
            mark.handler,
            mark.fingerprint.version,
            mark.fingerprint.digest,
            to.reason,
            self.form,
        ])?;
        crash::point("sqlite.mark.after");
        batch.wrote();
        Ok(())
    }
}

/// A message whose effect is other messages.
pub(crate) struct Accept {
    pub(crate) mark: MarkWork,
    pub(crate) messages: Vec<Outgoing>,
}

impl Accept {
    pub(crate) fn new(
        mark: MarkWork,
        messages: Vec<Message>,
        seal: impl FnMut(Message) -> Outgoing,
    ) -> Accept {
        Accept { mark, messages: messages.into_iter().map(seal).collect() }
    }
}

impl Work for Accept {
    type Answer = Consumed;

    fn run(&self, batch: &mut Batch<'_>) -> Result<Consumed, JobError> {
        batch.in_savepoint(|batch| {
            let entries = match self.mark.judge(batch)? {
                Ok(entries) => entries,
                Err(consumed) => return Ok(consumed),
            };
            if !self.mark.is_newer(batch)? {
                return self.mark.done(InboxState::Superseded, None, &entries, batch);
            }
            if make_all(&self.messages, Some(self.mark.mark.id), batch)? < self.messages.len() as u64 {
                // An earlier mark of the message, which is forgotten, brought them about, and they are not yet.
                forget_done(&self.messages, batch)?;
                make_all(&self.messages, Some(self.mark.mark.id), batch)?;
            }
            self.mark.done(InboxState::Processed, None, &entries, batch)
        })
    }

    fn payload_bytes(&self) -> usize {
        self.mark.bytes() + self.messages.iter().map(Outgoing::bytes).sum::<usize>()
    }
}

/// A failure of a handler.
pub(crate) struct Fail {
    pub(crate) mark: MarkWork,
    pub(crate) reason: String,
    pub(crate) park_after: Option<u32>,
}

impl Work for Fail {
    type Answer = Option<InboxEntry>;

    fn run(&self, batch: &mut Batch<'_>) -> Result<Option<InboxEntry>, JobError> {
        batch.in_savepoint(|batch| {
            let (mut entries, stands) = self.mark.in_the_way(batch)?;
            if stands {
                return Ok(entries.pop());
            }
            let failures = self.mark.last(&entries).map_or(0, |entry| entry.failures).saturating_add(1);
            let parked = self.park_after.is_some_and(|after| failures >= after);
            let state = if parked { InboxState::Parked } else { InboxState::Failing };
            let reason = Some(self.reason.as_str());
            self.mark.put(&State { state, failures, expires_at: None, reason }, batch)?;
            Ok(inbox_row::entries(self.mark.mark.id, batch.connection)?.pop())
        })
    }

    fn payload_bytes(&self) -> usize {
        self.mark.bytes()
    }
}

/// Deliveries that are counted.
pub(crate) struct CountDeliveries(pub(crate) Vec<(OperationId, u32, DeliveryCounts)>);

impl Work for CountDeliveries {
    type Answer = ();

    fn run(&self, batch: &mut Batch<'_>) -> Result<(), JobError> {
        batch.in_savepoint(|batch| {
            for (id, round, counts) in &self.0 {
                let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
                let row = params![id.as_bytes(), round, number(counts.duplicates), number(counts.conflicts)];
                batch.connection.prepare_cached(COUNT)?.execute(row)?;
                batch.wrote();
            }
            Ok(())
        })
    }
}

/// A dead letter that is let go on.
pub(crate) struct Unpark(pub(crate) Unparking);

impl Work for Unpark {
    type Answer = bool;

    fn run(&self, batch: &mut Batch<'_>) -> Result<bool, JobError> {
        batch.in_savepoint(|batch| {
            let Unparking { id, round, after, who, reason } = &self.0;
            let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
            let row = params![id.as_bytes(), round, batch.now_ms().saturating_add(after)];
            let unparked = batch.connection.prepare_cached(UNPARK)?.execute(row)? > 0;
            if unparked {
                crash::point("sqlite.unpark.after");
                acts::add(*id, ActKind::Redriven, *round, who, reason, batch)?;
            }
            Ok(unparked)
        })
    }
}

/// One step of forgetting marks whose time is over.
pub(crate) struct SweepInbox(pub(crate) u32);

impl Work for SweepInbox {
    type Answer = u64;

    fn run(&self, batch: &mut Batch<'_>) -> Result<u64, JobError> {
        batch.in_savepoint(|batch| {
            let old = batch
                .connection
                .prepare_cached(OLD)?
                .query_map(params![batch.now_ms(), self.0], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<Vec<(i64, [u8; 32])>>>()?;
            for (seq, id) in &old {
                batch.connection.prepare_cached(FORGET)?.execute([seq])?;
                let another = batch.connection.prepare_cached(ANY)?.exists([id])?;
                if !another {
                    acts::forget(OperationId::from_bytes(*id), batch)?;
                }
                batch.wrote();
            }
            Ok(old.len() as u64)
        })
    }
}
