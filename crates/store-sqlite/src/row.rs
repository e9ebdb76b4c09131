//! Rows into records: the stored numbers and their meaning.
//!
//! A row is taken as it is on the thread that reads it; opening and decoding its payload is left to the caller's
//! thread, so that a big answer holds up nobody. A number that no release has written is an error, never a guess.

use onefold_core::contract::{OnStale, Retention};
use onefold_core::{
    Counters, Fingerprint, Kept, Key, Lease, OperationId, Reconciliation, Record, Resource, Scope, State,
    StoreTime,
};
use onefold_store::codec::{decode_kept, decode_scope, decode_texts};
use onefold_store::{Judge, Moment, Promise, Read, Sealer, StoreError, StoredLease};
use rusqlite::Row;
use rusqlite::types::Type;

/// The columns of a record, in the order in which [`raw`] takes them, with [`beside!`].
macro_rules! columns {
    () => {
        "o.seq, o.id, l.granted_at, l.until, u.state, o.attempt, o.on_stale, o.created_at, u.at, u.expires_at,
        o.duplicates, o.conflicts, o.replays, o.fingerprint_version, o.fingerprint, o.operation, o.key, s.scope,
        o.owner, o.correlation_id, o.ignored, u.resource_kind, u.resource_id, u.kept,
        u.reconciliation"
    };
}
/// What stands beside the row of an operation.
macro_rules! beside {
    () => {
        " LEFT JOIN onefold_leases l ON l.id = o.id LEFT JOIN onefold_outcomes u ON u.seq = o.seq
        LEFT JOIN onefold_scopes s ON s.number = o.scope "
    };
}
pub(crate) use beside;
pub(crate) use columns;

/// A record whose payload is still to be opened.
#[derive(Debug)]
pub(crate) struct RawRecord {
    pub(crate) seq: i64,
    pub(crate) record: Record,
    kept: Option<Vec<u8>>,
}

impl RawRecord {
    /// How long its payload is in stored form.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, Vec::len)
    }

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

/// What a reader found, with the time of reading.
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
pub(crate) fn state_number(state: State) -> i64 {
    match state {
        State::Received => 0,
        State::Processing => 1,
        State::Succeeded => 2,
        State::Rejected => 3,
        State::Failed => 4,
        State::OutcomeUnknown => 5,
    }
}

/// The state of a stored number.
pub(crate) fn state_of(number: i64) -> rusqlite::Result<State> {
    State::ALL
        .into_iter()
        .find(|state| state_number(*state) == number)
        .ok_or_else(|| unknown("state", number))
}

/// The stored number of what follows a lease that ends.
pub(crate) fn on_stale_number(on_stale: OnStale) -> i64 {
    match on_stale {
        OnStale::Unknown => 0,
        OnStale::Resume => 1,
        OnStale::Reconcile => 2,
    }
}

/// The stored number of how far reconciliation has come; `None` is open.
pub(crate) fn reconciliation_number(reconciliation: Reconciliation) -> Option<i64> {
    match reconciliation {
        Reconciliation::Open => None,
        Reconciliation::MayRetry => Some(1),
        Reconciliation::Escalated => Some(2),
        Reconciliation::Settled => Some(3),
    }
}

/// How far reconciliation has come by a stored number.
pub(crate) fn reconciliation_of(number: Option<i64>) -> rusqlite::Result<Reconciliation> {
    match number {
        None => Ok(Reconciliation::Open),
        Some(1) => Ok(Reconciliation::MayRetry),
        Some(2) => Ok(Reconciliation::Escalated),
        Some(3) => Ok(Reconciliation::Settled),
        Some(other) => Err(unknown("reconciliation", other)),
    }
}

/// Promised durations are kept below this, so that no sum of times overflows: 36 million years.
const PROMISED_MS_MAX: i64 = 1 << 60;

/// The stored retention; `None` is for good.
pub(crate) fn retention_ms(promise: &Promise) -> Option<i64> {
    kept_ms(&promise.retention)
}

/// A retention in milliseconds; `None` is for good.
pub(crate) fn kept_ms(retention: &Retention) -> Option<i64> {
    match retention {
        Retention::For(retention) => Some(StoreTime(0).plus(*retention).0.min(PROMISED_MS_MAX)),
        Retention::Forever => None,
    }
}

/// The stored life of the tombstone.
pub(crate) fn tombstone_ms(promise: &Promise) -> i64 {
    StoreTime(0).plus(promise.tombstone).0.min(PROMISED_MS_MAX)
}

/// The error for a stored number that no release has written.
pub(crate) fn unknown(what: &'static str, number: i64) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Integer, format!("{what} {number} is unknown").into())
}

/// Takes a record from a row whose columns begin at `at`.
pub(crate) fn raw(row: &Row<'_>, at: usize, judge: &Judge, moment: Moment) -> rusqlite::Result<RawRecord> {
    let time =
        |column: usize| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(at + column)?.map(StoreTime));
    let count =
        |column: usize| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at + column)?.max(0).unsigned_abs());
    let id = OperationId::from_bytes(row.get(at + 1)?);
    let attempt = row.get(at + 5)?;
    let (state, lease) = match (row.get(at + 2)?, row.get(at + 3)?) {
        (Some(granted), Some(until)) => {
            let lease = StoredLease { id, attempt, granted: StoreTime(granted), until: StoreTime(until) };
            (State::Processing, judge.judge(&lease, moment))
        }
        _ => (state_of(row.get(at + 4)?)?, Lease::None),
    };
    let on_stale = match row.get(at + 6)? {
        0 => OnStale::Unknown,
        1 => OnStale::Resume,
        2 => OnStale::Reconcile,
        other => return Err(unknown("on_stale", other)),
    };
    let created_at = StoreTime(row.get(at + 7)?);
    let fingerprint = match (row.get(at + 13)?, row.get(at + 14)?) {
        (Some(version), Some(digest)) => Some(Fingerprint { version, digest }),
        _ => None,
    };
    let resource = match (row.get(at + 21)?, row.get(at + 22)?) {
        (Some(kind), Some(id)) => Some(Resource { kind, id }),
        _ => None,
    };
    let key: Option<String> = row.get(at + 16)?;
    let scope: Option<Vec<u8>> = row.get(at + 17)?;
    let ignored: Option<Vec<u8>> = row.get(at + 20)?;
    let record = Record {
        id,
        scope: match scope {
            Some(form) => decode_scope(&form).map_err(|error| unreadable(at + 17, error))?,
            None => Scope::shared(),
        },
        operation: row.get(at + 15)?,
        key: key.map(Key::new).transpose().map_err(|error| unreadable(at + 16, error))?,
        correlation_id: row.get(at + 19)?,
        fingerprint,
        ignored: match ignored {
            Some(form) => decode_texts(&form).map_err(|error| unreadable(at + 20, error))?,
            None => Vec::new(),
        },
        state,
        attempt,
        owner: row.get::<_, Option<String>>(at + 18)?.unwrap_or_default(),
        lease,
        on_stale,
        reconciliation: reconciliation_of(row.get(at + 24)?)?,
        resource,
        kept: Kept::Nothing,
        created_at,
        begun_at: Some(created_at),
        completed_at: if state.is_terminal() { time(8)? } else { None },
        expires_at: time(9)?,
        counters: Counters { duplicates: count(10)?, conflicts: count(11)?, replays: count(12)? },
    };
    Ok(RawRecord { seq: row.get(at)?, record, kept: row.get(at + 23)? })
}

fn unreadable(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, Box::new(error))
}
