//! Messages on their way out: given to relays by their state, settled under the attempt, redriven, forgotten.
//!
//! Each is one call of a function of the schema in one short transaction at READ COMMITTED; nothing is open while a
//! message is sent, and nobody waits for a transaction of the business. What is decided here is only which rows are
//! looked at; the rules stand with the functions, in the migration.

use std::time::Duration;

use onefold_core::{ActKind, OutboxState};
use onefold_store::{IfLost, Redrive, Redriving, Sent, Settlement, StoreError, Take};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::batch;
use crate::committed::Statement;
use crate::low_water::Look;
use crate::outbox_row::{RawTaken, state_number};
use crate::row::{clock, count, duration_ms, get};
use crate::server::{Server, Unanswered};
use crate::{PostgresStore, acts};

pub(crate) const TAKE: &str = "SELECT now, attempt, failures, made, id, address, ordering_key, form
    FROM onefold.outbox_take($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
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
const HELD: &[u8] = b"the relay was lost while it sent the message";

/// Gives messages that are due, still sealed.
pub(crate) async fn take(take: &Take, store: &PostgresStore) -> Result<Vec<RawTaken>, StoreError> {
    let mut given = Given::default();
    given.more(take, store).await?;
    Ok(given.taken)
}

/// Ends sendings, in one commit.
pub(crate) async fn settle(settlements: &[Settlement], server: &Server) -> Result<Vec<bool>, StoreError> {
    let (now, ends) = (server.now(), Ends::of(settlements));
    ends.ended(&server.ask_committed(SETTLE, &ends.params(&now)).await?)
}

/// The one, then the other, in one commit.
pub(crate) async fn settle_and_take(
    settlements: &[Settlement],
    take: &Take,
    store: &PostgresStore,
) -> Result<(Vec<bool>, Vec<RawTaken>), StoreError> {
    let (now, ends) = (store.server().now(), Ends::of(settlements));
    let mut given = Given::default();
    let wish = given.wish(take, store);
    let statements: [Statement<'_>; 2] = [(SETTLE, &ends.params(&now)), (TAKE, &wish.params())];
    let [ended, taken] = store.server().ask_all_committed(statements).await?;
    let ended = ends.ended(&ended)?;
    if given.took(wish, taken, store)? == More::Perhaps {
        given.more(take, store).await?;
    }
    Ok((ended, given.taken))
}

/// What was given so far.
#[derive(Default)]
struct Given {
    taken: Vec<RawTaken>,
    bytes: u64,
    rounds: u32,
}

/// Whether messages stand behind those that were looked at.
#[derive(PartialEq, Eq)]
enum More {
    No,
    Perhaps,
}

impl Given {
    /// Takes until there are enough, or no more.
    async fn more(&mut self, take: &Take, store: &PostgresStore) -> Result<(), StoreError> {
        loop {
            let wish = self.wish(take, store);
            if wish.room == 0 || self.rounds == ROUNDS_MAX {
                return Ok(());
            }
            let rows = store.server().ask_committed(TAKE, &wish.params()).await?;
            if self.took(wish, rows, store)? == More::No {
                return Ok(());
            }
        }
    }

    /// What is left of a wish.
    fn wish<'t>(&self, take: &'t Take, store: &PostgresStore) -> Wish<'t> {
        let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        let room = take.limit.saturating_sub(u32::try_from(self.taken.len()).unwrap_or(u32::MAX));
        Wish {
            now: store.server().now(),
            destination: &take.destination,
            name: take.destination.as_bytes(),
            room: number(room),
            look_max: number(LOOK_MAX.max(room)),
            lease_ms: duration_ms(take.lease),
            hold: take.if_lost == IfLost::Hold,
            look: store.low_water().look(&take.destination),
            bytes: i64::try_from(take.bytes.saturating_sub(self.bytes)).unwrap_or(i64::MAX),
            first: self.taken.is_empty(),
        }
    }

    fn took(
        &mut self,
        wish: Wish<'_>,
        mut rows: Vec<Row>,
        store: &PostgresStore,
    ) -> Result<More, StoreError> {
        let unanswered = || StoreError::Unavailable("the database gave no answer".into());
        let end = rows.pop().ok_or_else(unanswered)?;
        let (now, looked, until): (i64, i32, i64) = (get(&end, 0)?, get(&end, 2)?, get(&end, 3)?);
        store.low_water().looked(wish.destination, &wish.look, until, now);
        for row in &rows {
            let taken = RawTaken::of(row, wish.destination)?;
            self.bytes += taken.bytes();
            self.taken.push(taken);
        }
        self.rounds += 1;
        Ok(if looked < wish.look_max { More::No } else { More::Perhaps })
    }
}

/// The parameters of one claim.
struct Wish<'t> {
    now: Option<i64>,
    destination: &'t str,
    name: &'t [u8],
    room: i32,
    look_max: i32,
    lease_ms: i64,
    hold: bool,
    look: Look,
    bytes: i64,
    /// Whether one message is given whatever its length.
    first: bool,
}

impl Wish<'_> {
    fn params(&self) -> [(&(dyn ToSql + Sync), Type); 10] {
        [
            (&self.now, Type::INT8),
            (&self.name, Type::BYTEA),
            (&self.room, Type::INT4),
            (&self.look_max, Type::INT4),
            (&self.lease_ms, Type::INT8),
            (&self.hold, Type::BOOL),
            (&HELD, Type::BYTEA),
            (&self.look.from, Type::INT8),
            (&self.bytes, Type::INT8),
            (&self.first, Type::BOOL),
        ]
    }
}

/// Ends of sendings, column by column.
#[derive(Default)]
struct Ends<'s> {
    ids: Vec<&'s [u8]>,
    attempts: Vec<i32>,
    states: Vec<i16>,
    after: Vec<i64>,
    failures: Vec<i32>,
    reasons: Vec<Option<&'s [u8]>>,
}

impl<'s> Ends<'s> {
    fn of(settlements: &'s [Settlement]) -> Ends<'s> {
        let mut ends = Ends::default();
        for Settlement { id, attempt, sent } in settlements {
            let (state, pause, failed, reason) = match sent {
                Sent::Delivered => (OutboxState::Delivered, Duration::ZERO, false, None),
                Sent::Again { after, counted, reason } => {
                    (OutboxState::Waiting, *after, *counted, Some(reason))
                }
                Sent::Dead { reason } => (OutboxState::Dead, Duration::ZERO, true, Some(reason)),
                Sent::Unknown { reason } => (OutboxState::Unknown, Duration::ZERO, false, Some(reason)),
            };
            ends.ids.push(id.as_str().as_bytes());
            ends.attempts.push(i32::try_from(*attempt).unwrap_or(-1));
            ends.states.push(state_number(state));
            ends.after.push(duration_ms(pause));
            ends.failures.push(i32::from(failed));
            ends.reasons.push(reason.map(String::as_bytes));
        }
        ends
    }

    fn params<'p>(&'p self, now: &'p Option<i64>) -> [(&'p (dyn ToSql + Sync), Type); 7] {
        [
            (now, Type::INT8),
            (&self.ids, Type::BYTEA_ARRAY),
            (&self.attempts, Type::INT4_ARRAY),
            (&self.states, Type::INT2_ARRAY),
            (&self.after, Type::INT8_ARRAY),
            (&self.failures, Type::INT4_ARRAY),
            (&self.reasons, Type::BYTEA_ARRAY),
        ]
    }

    /// For each, whether it was the attempt that holds the message. Those that are not in the rows are not.
    fn ended(&self, rows: &[Row]) -> Result<Vec<bool>, StoreError> {
        let mut ended = vec![false; self.ids.len()];
        for row in rows {
            let place = batch::place(row, ended.len())?;
            ended[place] = get(row, 1)?;
        }
        Ok(ended)
    }
}

/// A person's act.
pub(crate) async fn redrive(act: &Redriving, server: &Server) -> Result<bool, StoreError> {
    let kind = match act.redrive {
        Redrive::SendAgain => ActKind::Redriven,
        Redrive::Delivered => ActKind::Delivered,
        Redrive::Discard => ActKind::Discarded,
    };
    let params: [(&(dyn ToSql + Sync), Type); 7] = [
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
        let params: [(&(dyn ToSql + Sync), Type); 3] =
            [(&server.now(), Type::INT8), (&duration_ms(keep), Type::INT8), (&i64::from(step), Type::INT8)];
        let rows = server.ask(SWEEP, &params, Unanswered::GiveUp).await?;
        let done = rows.first().map(|row| get::<i64>(row, 0)).transpose()?.map_or(0, count);
        if done == 0 {
            return Ok(swept);
        }
        swept += done;
    }
}
