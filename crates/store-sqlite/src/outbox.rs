//! Messages on their way out: given to relays by their state, settled under the attempt. How they are made:
//! [`outgoing`](crate::outgoing).
//!
//! Of each ordering key only the first message that is not done has a due time; the next one gets it when that one is
//! done. So nobody walks over messages that may not be sent, and a dead letter holds up its own key alone. A lease that
//! is over is due in the same index.

use onefold_core::{Key, OperationId, OutboxState, StoreTime, outgoing_id};
use onefold_store::{Grant, IfLost, Redrive, Redriving, Sent, Settlement, StoredLease, Take, crash};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};

use crate::acts;
use crate::batch::Batch;
use crate::errand::Work;
use crate::error::JobError;
use crate::outbox_row::{RawTaken, state_number};
use crate::outgoing;

const DUE: &str =
    "SELECT o.seq, o.state, o.attempt, o.failures, o.granted_at, o.due_at, m.id, m.address, o.ordering_key,
        o.created_at, m.form
    FROM onefold_outbox_open o INDEXED BY onefold_outbox_open_due CROSS JOIN onefold_outbox m ON m.seq = o.seq
    WHERE o.destination = ?1 AND o.due_at IS NOT NULL AND o.due_at <= ?2 ORDER BY o.due_at, o.seq";
const SEND: &str =
    "UPDATE onefold_outbox_open SET state = 1, attempt = ?2, granted_at = ?3, due_at = ?4 WHERE seq = ?1";
const STAY: &str = "UPDATE onefold_outbox_open
    SET state = ?2, due_at = ?3, failures = ?4, reason = ?5, ended_at = ?6, granted_at = NULL WHERE seq = ?1";
const STANDS: &str = "SELECT o.seq, o.state, o.attempt, o.failures, o.destination, o.ordering_key
    FROM onefold_outbox m CROSS JOIN onefold_outbox_open o ON o.seq = m.seq WHERE m.id = ?1";
const CLOSE: &str = "DELETE FROM onefold_outbox_open WHERE seq = ?1";
const DONE: &str = "INSERT INTO onefold_outbox_done (seq, state, at, attempt, failures, reason) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const NEXT: &str = "UPDATE onefold_outbox_open SET due_at = ?3 WHERE seq = (
        SELECT min(n.seq) FROM onefold_outbox_open n WHERE n.destination = ?1 AND n.ordering_key = ?2)";
const OLD: &str = "SELECT d.seq, m.id FROM onefold_outbox_done d CROSS JOIN onefold_outbox m ON m.seq = d.seq
    WHERE d.at <= ?1 ORDER BY d.at LIMIT ?2";
#[cfg(test)]
pub(crate) const SQL: &[&str] = &[DUE, SEND, STAY, STANDS, CLOSE, DONE, NEXT, OLD];

/// Why a message that was being sent is held.
const HELD: &str = "the relay was lost while it sent the message";

/// Whether any is due, beside the writer.
pub(crate) fn any_due(destination: &str, now: StoreTime, connection: &Connection) -> rusqlite::Result<bool> {
    Ok(connection
        .prepare_cached(DUE)?
        .query_row(params![destination, now.0], |_| Ok(()))
        .optional()?
        .is_some())
}

impl Work for Take {
    type Answer = Vec<RawTaken>;

    fn run(&self, batch: &mut Batch<'_>) -> Result<Vec<RawTaken>, JobError> {
        batch.in_savepoint(|batch| take(self, batch))
    }
}

fn take(take: &Take, batch: &mut Batch<'_>) -> Result<Vec<RawTaken>, JobError> {
    let now = batch.moment.time;
    let connection = batch.connection;
    let (mut found, mut bytes) = (Vec::new(), 0);
    {
        let mut statement = connection.prepare_cached(DUE)?;
        let mut rows = statement.query(params![take.destination, now.0])?;
        while found.len() < take.limit as usize
            && let Some(row) = rows.next()?
        {
            let taken = RawTaken::of(row, &take.destination, now)?;
            if let Some((granted, until)) = taken.lease {
                let lease = StoredLease { id: lease_id(taken.seq), attempt: taken.attempt, granted, until };
                if batch.judge.judge(&lease, batch.moment).is_alive() {
                    continue;
                }
            }
            bytes += taken.bytes();
            if bytes > take.bytes && !found.is_empty() {
                break;
            }
            found.push(taken);
        }
    }
    let mut given = Vec::with_capacity(found.len());
    let mut send = connection.prepare_cached(SEND)?;
    for mut taken in found {
        batch.wrote();
        if taken.lease.is_some() && take.if_lost == IfLost::Hold {
            let state = state_number(OutboxState::Unknown);
            let stay = params![taken.seq, state, None::<i64>, taken.failures, HELD, now.0];
            connection.prepare_cached(STAY)?.execute(stay)?;
            batch.grant(Grant::Ended(lease_id(taken.seq)));
            continue;
        }
        taken.attempt = taken.attempt.saturating_add(1);
        send.execute(params![taken.seq, taken.attempt, now.0, now.plus(take.lease).0])?;
        crash::point("sqlite.sending.after");
        batch.grant(Grant::held(lease_id(taken.seq), taken.attempt, batch.moment, take.lease));
        given.push(taken);
    }
    Ok(given)
}

/// What the lease of a message is known by in this process: no digest of an operation looks so.
fn lease_id(seq: i64) -> OperationId {
    let mut bytes = *b"the lease of an outgoing message";
    bytes[24..].copy_from_slice(&seq.to_be_bytes());
    OperationId::from_bytes(bytes)
}

/// A message that is not done, as far as it matters to a change.
struct Stands {
    seq: i64,
    state: i64,
    attempt: u32,
    failures: u32,
    destination: String,
    ordering_key: Option<String>,
}

fn stands(id: &Key, statement: &mut CachedStatement<'_>) -> rusqlite::Result<Option<Stands>> {
    let one = statement.query_row([id.as_str()], |row| {
        Ok(Stands {
            seq: row.get(0)?,
            state: row.get(1)?,
            attempt: row.get(2)?,
            failures: row.get(3)?,
            destination: row.get(4)?,
            ordering_key: row.get(5)?,
        })
    });
    one.optional()
}

impl Stands {
    fn is(&self, states: [OutboxState; 2], attempt: u32) -> bool {
        self.attempt == attempt && states.iter().any(|state| state_number(*state) == self.state)
    }

    fn stay(
        &self,
        state: OutboxState,
        due: Option<StoreTime>,
        failures: u32,
        reason: &str,
        batch: &mut Batch<'_>,
    ) -> rusqlite::Result<()> {
        let due = due.map(|due| due.0);
        let stay = params![self.seq, state_number(state), due, failures, reason, batch.now_ms()];
        batch.connection.prepare_cached(STAY)?.execute(stay)?;
        crash::point("sqlite.stay.after");
        Ok(())
    }

    /// It is done, and the next one of its ordering key may go.
    fn done(
        &self,
        state: OutboxState,
        reason: Option<&str>,
        ends: &mut Ends<'_>,
        batch: &mut Batch<'_>,
    ) -> rusqlite::Result<()> {
        let now = batch.now_ms();
        ends.close.execute([self.seq])?;
        crash::point("sqlite.close.after");
        ends.done.execute(params![
            self.seq,
            state_number(state),
            now,
            self.attempt,
            self.failures,
            reason
        ])?;
        crash::point("sqlite.sent.after");
        if let Some(key) = &self.ordering_key {
            let next = batch.connection.prepare_cached(NEXT)?.execute(params![self.destination, key, now])?;
            if next > 0 {
                crash::point("sqlite.next_of_key.after");
                batch.messages_wait();
            }
        }
        Ok(())
    }
}

/// The statements of every end, at hand for many.
struct Ends<'c> {
    stands: CachedStatement<'c>,
    close: CachedStatement<'c>,
    done: CachedStatement<'c>,
}

impl<'c> Ends<'c> {
    fn of(batch: &Batch<'c>) -> rusqlite::Result<Ends<'c>> {
        let prepare = |sql| batch.connection.prepare_cached(sql);
        Ok(Ends { stands: prepare(STANDS)?, close: prepare(CLOSE)?, done: prepare(DONE)? })
    }
}

/// Ends of sendings.
pub(crate) struct Settle(pub(crate) Vec<Settlement>);

impl Work for Settle {
    type Answer = Vec<bool>;

    fn run(&self, batch: &mut Batch<'_>) -> Result<Vec<bool>, JobError> {
        batch.in_savepoint(|batch| settle_all(&self.0, batch))
    }
}

/// Ends of sendings, and a wish for more to send.
pub(crate) struct SettleAndTake(pub(crate) Vec<Settlement>, pub(crate) Take);

impl Work for SettleAndTake {
    type Answer = (Vec<bool>, Vec<RawTaken>);

    fn run(&self, batch: &mut Batch<'_>) -> Result<Self::Answer, JobError> {
        batch.in_savepoint(|batch| Ok((settle_all(&self.0, batch)?, take(&self.1, batch)?)))
    }
}

fn settle_all(settlements: &[Settlement], batch: &mut Batch<'_>) -> Result<Vec<bool>, JobError> {
    let mut ends = Ends::of(batch)?;
    settlements.iter().map(|settlement| settle(settlement, &mut ends, batch)).collect()
}

fn settle(settlement: &Settlement, ends: &mut Ends<'_>, batch: &mut Batch<'_>) -> Result<bool, JobError> {
    let found = stands(&settlement.id, &mut ends.stands)?;
    let held = [OutboxState::Sending, OutboxState::Unknown];
    let Some(stands) = found.filter(|stands| stands.is(held, settlement.attempt)) else { return Ok(false) };
    match &settlement.sent {
        Sent::Delivered => stands.done(OutboxState::Delivered, None, ends, batch)?,
        Sent::Again { after, counted, reason } => {
            let failures = stands.failures.saturating_add(u32::from(*counted));
            let due = batch.moment.time.plus(*after);
            stands.stay(OutboxState::Waiting, Some(due), failures, reason, batch)?;
        }
        Sent::Dead { reason } => {
            let failures = stands.failures.saturating_add(1);
            stands.stay(OutboxState::Dead, None, failures, reason, batch)?;
        }
        Sent::Unknown { reason } => {
            stands.stay(OutboxState::Unknown, None, stands.failures, reason, batch)?;
        }
    }
    batch.wrote();
    batch.grant(Grant::Ended(lease_id(stands.seq)));
    Ok(true)
}

impl Work for Redriving {
    type Answer = bool;

    fn run(&self, batch: &mut Batch<'_>) -> Result<bool, JobError> {
        batch.in_savepoint(|batch| redrive(self, batch))
    }
}

fn redrive(act: &Redriving, batch: &mut Batch<'_>) -> Result<bool, JobError> {
    let mut ends = Ends::of(batch)?;
    let found = stands(&act.id, &mut ends.stands)?;
    let waits = [OutboxState::Dead, OutboxState::Unknown];
    let Some(stands) = found.filter(|stands| stands.is(waits, act.attempt)) else { return Ok(false) };
    match act.redrive {
        Redrive::SendAgain => {
            let due = batch.moment.time.plus(act.after);
            stands.stay(OutboxState::Waiting, Some(due), 0, &act.reason, batch)?;
            batch.messages_wait();
        }
        Redrive::Delivered => stands.done(OutboxState::Delivered, Some(&act.reason), &mut ends, batch)?,
        Redrive::Discard => stands.done(OutboxState::Discarded, Some(&act.reason), &mut ends, batch)?,
    }
    let id = outgoing_id(&act.id, batch.identity_key);
    acts::add(id, acts::kind_of_redrive(act.redrive), act.attempt, &act.who, &act.reason, batch)?;
    Ok(true)
}

/// One step of forgetting messages that have been done for long.
pub(crate) struct SweepOutbox {
    pub(crate) keep: std::time::Duration,
    pub(crate) limit: u32,
}

impl Work for SweepOutbox {
    type Answer = u64;

    fn run(&self, batch: &mut Batch<'_>) -> Result<u64, JobError> {
        batch.in_savepoint(|batch| {
            let keep = StoreTime(0).plus(self.keep).0;
            let before = batch.now_ms().saturating_sub(keep);
            let old = batch
                .connection
                .prepare_cached(OLD)?
                .query_map(params![before, self.limit], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<Vec<(i64, String)>>>()?;
            for (seq, id) in &old {
                outgoing::forget_rows(*seq, batch)?;
                if let Ok(id) = Key::new(id.as_str()) {
                    acts::forget(outgoing_id(&id, batch.identity_key), batch)?;
                }
                batch.wrote();
            }
            Ok(old.len() as u64)
        })
    }
}
