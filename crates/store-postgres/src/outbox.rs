//! Messages on their way out: given to relays by their state, settled under the attempt, redriven, forgotten.
//!
//! Each is one call of a function of the schema in one short transaction at READ COMMITTED; nothing is open while a
//! message is sent, and nobody waits for a transaction of the business. What is decided here is only which rows are
//! looked at; the rules stand with the functions, in the migration.

use std::time::Duration;

use onefold_core::{ActKind, OutboxState};
use onefold_store::{IfLost, Redrive, Redriving, Sent, Settlement, StoreError, Take};
use tokio_postgres::types::Type;

use crate::batch;
use crate::low_water::Look;
use crate::outbox_row::{RawTaken, state_number};
use crate::row::{clock, count, duration_ms, get};
use crate::server::{Server, Unanswered};
use crate::{PostgresStore, acts};

pub(crate) const TAKE: &str = "SELECT now, attempt, failures, made, id, address, ordering_key, form
    FROM onefold.outbox_take($1, $2, $3, $4, $5, $6, $7, $8)";
pub(crate) const SETTLE: &str = "SELECT n, ok FROM onefold.outbox_settle($1, $2, $3, $4, $5, $6, $7)";
pub(crate) const REDRIVE: &str = "SELECT onefold.outbox_redrive($1, $2, $3, $4, $5, $6, $7)";
/// Those that are done for longer than $2, at most $3. What another sweeper has is passed over.
pub(crate) const SWEEP: &str = concat!(
    "WITH clock AS MATERIALIZED (",
    clock!(),
    "),
    old AS MATERIALIZED (
        SELECT d.place FROM onefold.outbox_done d CROSS JOIN clock c WHERE d.at <= c.now - $2::bigint
        ORDER BY d.at LIMIT $3::bigint FOR UPDATE OF d SKIP LOCKED
    ),
    gone AS (DELETE FROM onefold.outbox m USING old WHERE m.place = old.place RETURNING m.id),
    unacted AS (DELETE FROM onefold.acts a USING gone WHERE NOT a.incoming AND a.message = gone.id),
    done AS (DELETE FROM onefold.outbox_done d USING old WHERE d.place = old.place)
    SELECT count(*) FROM old"
);

/// Messages that one claim looks at, at most: those that wait behind others are looked at once.
const LOOK_MAX: u32 = 500;
/// Claims in a row, while all that was looked at waits behind others.
const ROUNDS_MAX: u32 = 20;
/// Messages that are forgotten in one step.
const STEP_MAX: u32 = 500;
/// Why a message that was being sent is held.
const HELD: &str = "the relay was lost while it sent the message";

/// Gives messages that are due, still sealed.
pub(crate) async fn take(take: &Take, store: &PostgresStore) -> Result<Vec<RawTaken>, StoreError> {
    let mut given = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let room = take.limit.saturating_sub(u32::try_from(given.len()).unwrap_or(u32::MAX));
        if room == 0 {
            break;
        }
        let look = store.low_water().look(&take.destination);
        let (more, looked) = take_once(take, room, &look, store).await?;
        given.extend(more);
        if looked < LOOK_MAX.max(room) {
            break;
        }
    }
    Ok(given)
}

async fn take_once(
    take: &Take,
    room: u32,
    look: &Look,
    store: &PostgresStore,
) -> Result<(Vec<RawTaken>, u32), StoreError> {
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 8] = [
        (&store.server().now(), Type::INT8),
        (&take.destination.as_bytes(), Type::BYTEA),
        (&number(room), Type::INT4),
        (&number(LOOK_MAX.max(room)), Type::INT4),
        (&duration_ms(take.lease), Type::INT8),
        (&(take.if_lost == IfLost::Hold), Type::BOOL),
        (&HELD.as_bytes(), Type::BYTEA),
        (&look.from, Type::INT8),
    ];
    let mut rows = store.server().ask_committed(TAKE, &params).await?;
    let unanswered = || StoreError::Unavailable("the database gave no answer".into());
    let end = rows.pop().ok_or_else(unanswered)?;
    let (now, looked, until): (i64, i32, i64) = (get(&end, 0)?, get(&end, 2)?, get(&end, 3)?);
    store.low_water().looked(&take.destination, look, until, now);
    let taken = rows.iter().map(|row| RawTaken::of(row, &take.destination));
    Ok((taken.collect::<Result<_, _>>()?, looked.max(0).unsigned_abs()))
}

/// Ends sendings, in one commit.
pub(crate) async fn settle(settlements: &[Settlement], server: &Server) -> Result<Vec<bool>, StoreError> {
    let ids: Vec<&[u8]> = settlements.iter().map(|one| one.id.as_str().as_bytes()).collect();
    let attempts: Vec<i32> = settlements.iter().map(|one| i32::try_from(one.attempt).unwrap_or(-1)).collect();
    let (mut states, mut after, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    let mut reasons: Vec<Option<&[u8]>> = Vec::new();
    for settlement in settlements {
        let (state, pause, failed, reason) = match &settlement.sent {
            Sent::Delivered => (OutboxState::Delivered, Duration::ZERO, false, None),
            Sent::Again { after, counted, reason } => (OutboxState::Waiting, *after, *counted, Some(reason)),
            Sent::Dead { reason } => (OutboxState::Dead, Duration::ZERO, true, Some(reason)),
            Sent::Unknown { reason } => (OutboxState::Unknown, Duration::ZERO, false, Some(reason)),
        };
        states.push(state_number(state));
        after.push(duration_ms(pause));
        failures.push(i32::from(failed));
        reasons.push(reason.map(String::as_bytes));
    }
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 7] = [
        (&server.now(), Type::INT8),
        (&ids, Type::BYTEA_ARRAY),
        (&attempts, Type::INT4_ARRAY),
        (&states, Type::INT2_ARRAY),
        (&after, Type::INT8_ARRAY),
        (&failures, Type::INT4_ARRAY),
        (&reasons, Type::BYTEA_ARRAY),
    ];
    let mut ended = vec![false; settlements.len()];
    for row in &server.ask_committed(SETTLE, &params).await? {
        let place = batch::place(row, settlements.len())?;
        ended[place] = get(row, 1)?;
    }
    Ok(ended)
}

/// A person's act.
pub(crate) async fn redrive(act: &Redriving, server: &Server) -> Result<bool, StoreError> {
    let kind = match act.redrive {
        Redrive::SendAgain => ActKind::Redriven,
        Redrive::Delivered => ActKind::Delivered,
        Redrive::Discard => ActKind::Discarded,
    };
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 7] = [
        (&server.now(), Type::INT8),
        (&act.id.as_str().as_bytes(), Type::BYTEA),
        (&i32::try_from(act.attempt).unwrap_or(-1), Type::INT4),
        (&acts::kind_number(kind), Type::INT2),
        (&duration_ms(act.after), Type::INT8),
        (&act.who.as_bytes(), Type::BYTEA),
        (&act.reason.as_bytes(), Type::BYTEA),
    ];
    let rows = server.ask_committed(REDRIVE, &params).await?;
    rows.first().map_or(Ok(false), |row| get(row, 0))
}

/// Forgets what has been done for longer than `keep`, at most `limit`.
pub(crate) async fn sweep(keep: Duration, limit: u32, server: &Server) -> Result<u64, StoreError> {
    let mut swept = 0;
    loop {
        let left = u64::from(limit).saturating_sub(swept);
        let step = u32::try_from(left).unwrap_or(u32::MAX).min(STEP_MAX);
        if step == 0 {
            return Ok(swept);
        }
        let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] =
            [(&server.now(), Type::INT8), (&duration_ms(keep), Type::INT8), (&i64::from(step), Type::INT8)];
        let rows = server.ask(SWEEP, &params, Unanswered::GiveUp).await?;
        let done = rows.first().map(|row| get::<i64>(row, 0)).transpose()?.map_or(0, count);
        if done == 0 {
            return Ok(swept);
        }
        swept += done;
    }
}
