//! Rows into records: the stored numbers and their meaning.
//!
//! A row is taken with the time of the statement that read it, by which its lease is judged. Opening and decoding its
//! payload is left to the caller's task. A number that no release has written is an error, never a guess.

use onefold_core::contract::{OnStale, Retention};
use onefold_core::{
    Counters, Fingerprint, Kept, Key, Lease, OperationId, Reconciliation, Record, Resource, Scope, State,
    StoreTime,
};
use onefold_store::codec::{decode_kept, decode_scope, decode_texts};
use onefold_store::{Promise, Read, Sealer, StoreError};
use tokio_postgres::types::{FromSql, Type};

use crate::driver::Columns;

/// The columns of a record under an alias, in the order in which [`raw`] takes them.
macro_rules! columns {
    ($o:literal) => {
        concat!(
            $o,
            ".id, ",
            $o,
            ".nonce, ",
            $o,
            ".created_at, ",
            $o,
            ".lease_until, ",
            $o,
            ".state, ",
            $o,
            ".attempt, ",
            $o,
            ".on_stale, ",
            $o,
            ".ended_at, ",
            $o,
            ".expires_at, ",
            $o,
            ".duplicates, ",
            $o,
            ".conflicts, ",
            $o,
            ".replays, ",
            $o,
            ".fingerprint_version, ",
            $o,
            ".fingerprint, ",
            $o,
            ".operation, ",
            $o,
            ".key, ",
            $o,
            ".scope, ",
            $o,
            ".owner, ",
            $o,
            ".correlation_id, ",
            $o,
            ".ignored, ",
            $o,
            ".resource_kind, ",
            $o,
            ".resource_id, ",
            $o,
            ".kept, ",
            $o,
            ".reconciliation"
        )
    };
}
/// The time of a statement, as a column `now`: the server's, unless a test says otherwise in `$1`.
macro_rules! clock {
    () => {
        "SELECT coalesce($1::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000::numeric)::bigint) AS now"
    };
}
/// The microseconds of a statement. The server evaluates each mention of a time by itself, so it is computed in the
/// processor's numbers, which is exact to one, and not in decimal ones.
macro_rules! micros {
    () => {
        "(pg_catalog.date_part('epoch'::text, pg_catalog.statement_timestamp()) * 1000000::double precision)::bigint"
    };
}
/// Its milliseconds. $1 is a test's time.
macro_rules! millis {
    () => {
        concat!("coalesce($1::bigint, ", crate::row::micros!(), " / 1000::bigint)")
    };
}
pub(crate) use clock;
pub(crate) use columns;
pub(crate) use micros;
pub(crate) use millis;

/// A record whose payload is still to be opened.
#[derive(Debug)]
pub(crate) struct RawRecord {
    /// The transition that wrote it.
    pub(crate) nonce: i64,
    pub(crate) record: Record,
    kept: Option<Vec<u8>>,
}

impl RawRecord {
    /// The record with its payload.
    pub(crate) fn open(self, sealer: &Sealer) -> Result<Record, StoreError> {
        let mut record = self.record;
        if let Some(form) = self.kept {
            let refused = |why: String| StoreError::Refused(format!("the payload of {}: {why}", record.id));
            let plain = sealer.open(&record.id, &form).map_err(|error| refused(error.to_string()))?;
            record.kept = decode_kept(&plain).map_err(|error| refused(error.to_string()))?;
        }
        Ok(record)
    }
}

/// What a statement found, with its time.
#[derive(Debug)]
pub(crate) struct RawRead {
    pub(crate) now: StoreTime,
    pub(crate) record: Option<RawRecord>,
}

impl RawRead {
    /// The reading with the payload of its record.
    pub(crate) fn open(self, sealer: &Sealer) -> Result<Read, StoreError> {
        let record = self.record.map(|record| record.open(sealer)).transpose()?;
        Ok(Read { now: self.now, record })
    }
}

/// The stored number of a state.
pub(crate) fn state_number(state: State) -> i16 {
    match state {
        State::Received => 0,
        State::Processing => 1,
        State::Succeeded => 2,
        State::Rejected => 3,
        State::Failed => 4,
        State::OutcomeUnknown => 5,
    }
}

/// The states as a set of bits.
pub(crate) fn state_bits(states: &[State]) -> i32 {
    states.iter().fold(0, |bits, state| bits | 1 << state_number(*state))
}

/// The stored number of what follows a lease that ends.
pub(crate) fn on_stale_number(on_stale: OnStale) -> i16 {
    match on_stale {
        OnStale::Unknown => 0,
        OnStale::Resume => 1,
        OnStale::Reconcile => 2,
    }
}

/// The stored number of how far reconciliation has come; `None` is open.
pub(crate) fn reconciliation_number(reconciliation: Reconciliation) -> Option<i16> {
    match reconciliation {
        Reconciliation::Open => None,
        Reconciliation::MayRetry => Some(1),
        Reconciliation::Escalated => Some(2),
        Reconciliation::Settled => Some(3),
    }
}

/// Durations are kept below this, so that no sum of times overflows: 36 million years.
const DURATION_MS_MAX: i64 = 1 << 60;

/// A duration as it is stored.
pub(crate) fn duration_ms(duration: std::time::Duration) -> i64 {
    StoreTime(0).plus(duration).0.min(DURATION_MS_MAX)
}

/// The stored retention; `None` is for good.
pub(crate) fn retention_ms(promise: &Promise) -> Option<i64> {
    match promise.retention {
        Retention::For(retention) => Some(duration_ms(retention)),
        Retention::Forever => None,
    }
}

/// A row says what no release has written.
pub(crate) fn unreadable(why: impl std::fmt::Display) -> StoreError {
    StoreError::Refused(format!("a stored record cannot be read: {why}"))
}

/// A column of a row.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a impl Columns, column: usize) -> Result<T, StoreError> {
    // The types that are read here do not depend on the column's: a number has its length, and the rest are bytes.
    T::from_sql_nullable(&Type::UNKNOWN, row.bytes(column).map_err(unreadable)?).map_err(unreadable)
}

/// A text that is stored as bytes.
pub(crate) fn text(bytes: &[u8]) -> Result<String, StoreError> {
    str::from_utf8(bytes).map(str::to_owned).map_err(unreadable)
}

/// A non-negative number.
pub(crate) fn count(number: i64) -> u64 {
    number.max(0).unsigned_abs()
}

/// An id.
pub(crate) fn id(row: &impl Columns, column: usize) -> Result<OperationId, StoreError> {
    let bytes: &[u8] = get(row, column)?;
    Ok(OperationId::from_bytes(bytes.try_into().map_err(unreadable)?))
}

/// An attempt.
pub(crate) fn attempt(row: &impl Columns, column: usize) -> Result<u32, StoreError> {
    get::<i32>(row, column)?.try_into().map_err(unreadable)
}

/// Takes a record from a row whose columns begin at `at`, if there is one.
pub(crate) fn found(row: &impl Columns, at: usize, now: StoreTime) -> Result<Option<RawRecord>, StoreError> {
    match get::<Option<&[u8]>>(row, at)? {
        Some(_) => raw(row, at, now).map(Some),
        None => Ok(None),
    }
}

/// Takes a record from a row whose columns begin at `at`.
pub(crate) fn raw(row: &impl Columns, at: usize, now: StoreTime) -> Result<RawRecord, StoreError> {
    let time = |column: usize| Ok::<_, StoreError>(get::<Option<i64>>(row, at + column)?.map(StoreTime));
    let counted =
        |column: usize| Ok::<_, StoreError>(count(get::<Option<i64>>(row, at + column)?.unwrap_or(0)));
    let bytes = |column: usize| get::<Option<&[u8]>>(row, at + column);
    let words = |column: usize| bytes(column)?.map(text).transpose();
    let state = state_of(get(row, at + 4)?)?;
    let created_at = StoreTime(get(row, at + 2)?);
    let fingerprint = match (get::<Option<i16>>(row, at + 12)?, bytes(13)?) {
        (Some(version), Some(digest)) => Some(Fingerprint {
            version: version.try_into().map_err(unreadable)?,
            digest: digest.try_into().map_err(unreadable)?,
        }),
        _ => None,
    };
    let resource = match (words(20)?, words(21)?) {
        (Some(kind), Some(id)) => Some(Resource { kind, id }),
        _ => None,
    };
    let record = Record {
        id: id(row, at)?,
        scope: bytes(16)?.map(decode_scope).transpose().map_err(unreadable)?.unwrap_or_else(Scope::shared),
        operation: text(get(row, at + 14)?)?,
        key: words(15)?.map(Key::new).transpose().map_err(unreadable)?,
        correlation_id: words(18)?,
        fingerprint,
        ignored: bytes(19)?.map(decode_texts).transpose().map_err(unreadable)?.unwrap_or_default(),
        state,
        attempt: attempt(row, at + 5)?,
        owner: words(17)?.unwrap_or_default(),
        lease: match (state, time(3)?) {
            (State::Processing, Some(end)) if end > now => Lease::Alive(now.until(end)),
            (State::Processing, _) => Lease::Over,
            _ => Lease::None,
        },
        on_stale: on_stale_of(get(row, at + 6)?)?,
        reconciliation: reconciliation_of(get(row, at + 23)?)?,
        resource,
        kept: Kept::Nothing,
        created_at,
        begun_at: Some(created_at),
        completed_at: if state.is_terminal() { time(7)? } else { None },
        expires_at: time(8)?,
        counters: Counters { duplicates: counted(9)?, conflicts: counted(10)?, replays: counted(11)? },
    };
    Ok(RawRecord { nonce: get(row, at + 1)?, record, kept: bytes(22)?.map(<[u8]>::to_vec) })
}

fn state_of(number: i16) -> Result<State, StoreError> {
    let state = State::ALL.into_iter().find(|state| state_number(*state) == number);
    state.ok_or_else(|| unreadable(format!("state {number} is unknown")))
}

fn on_stale_of(number: i16) -> Result<OnStale, StoreError> {
    match number {
        0 => Ok(OnStale::Unknown),
        1 => Ok(OnStale::Resume),
        2 => Ok(OnStale::Reconcile),
        other => Err(unreadable(format!("on_stale {other} is unknown"))),
    }
}

fn reconciliation_of(number: Option<i16>) -> Result<Reconciliation, StoreError> {
    match number {
        None => Ok(Reconciliation::Open),
        Some(1) => Ok(Reconciliation::MayRetry),
        Some(2) => Ok(Reconciliation::Escalated),
        Some(3) => Ok(Reconciliation::Settled),
        Some(other) => Err(unreadable(format!("reconciliation {other} is unknown"))),
    }
}
