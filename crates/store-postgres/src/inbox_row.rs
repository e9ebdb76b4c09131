//! Rows of the inbox as entries, and lists of them; a kept message is opened on the caller's side.

use onefold_core::{Fingerprint, InboxEntry, InboxState, Key, MessageIdentity, OperationId, StoreTime};
use onefold_store::codec::decode_message;
use onefold_store::{InboxPage, InboxQuery, InboxSurvey, KeptMessage, Sealer, StoreError};
use tokio_postgres::types::Type;

use crate::driver::Columns;
use crate::outbox_row::{key, now, words};
use crate::row::{attempt, clock, count, get, id, text, unreadable};
use crate::server::{Server, Unanswered};

macro_rules! entries {
    ($from:literal, $rest:literal) => {
        concat!(
            "SELECT c.now, i.id, i.round, i.state, i.failures, i.duplicates, i.conflicts, i.received_at, i.ended_at,
                i.expires_at, i.consumer, i.source, i.message, i.handler, i.fingerprint_version, i.fingerprint,
                i.reason, i.kept IS NOT NULL, i.place, i.nonce FROM (",
            clock!(),
            ") c ",
            $from,
            $rest
        )
    };
}

/// Every entry, and a row with the time where there is none.
pub(crate) const OF: &str = entries!("LEFT JOIN onefold.inbox i ON i.id = $2", " ORDER BY i.round");
pub(crate) const ALL: &str = entries!(
    "CROSS JOIN onefold.inbox i",
    " WHERE i.place > $2 AND ($3::smallint IS NULL OR i.state = $3)
        AND ($4::bytea IS NULL OR i.consumer = $4) AND ($5::bytea IS NULL OR i.source = $5)
        AND ($6::bytea IS NULL OR i.handler = $6) AND ($7::bytea IS NULL OR i.message = $7)
        AND (NOT $8::boolean OR i.conflicts > 0) ORDER BY i.place LIMIT $9"
);
/// The same, over those that are not done alone: they are few.
pub(crate) const NOT_DONE: &str = entries!(
    "CROSS JOIN onefold.inbox i",
    " WHERE i.state IN (0, 4) AND i.place > $2 AND i.state = $3::smallint
        AND ($4::bytea IS NULL OR i.consumer = $4) AND ($5::bytea IS NULL OR i.source = $5)
        AND ($6::bytea IS NULL OR i.handler = $6) AND ($7::bytea IS NULL OR i.message = $7)
        AND (NOT $8::boolean OR i.conflicts > 0) ORDER BY i.place LIMIT $9"
);
pub(crate) const KEPT: &str =
    "SELECT kept FROM onefold.inbox WHERE id = $1 AND round = $2 AND kept IS NOT NULL";
/// A row for each state, or one without; the last column: since when a mark waits for the sweeper. One whose messages
/// are not done is not due.
pub(crate) const SURVEY: &str = concat!(
    "SELECT c.now, s.state, s.counted, s.since, (
        SELECT i.expires_at FROM onefold.inbox i WHERE i.expires_at <= c.now
            AND NOT EXISTS (SELECT FROM onefold.outbox_open o WHERE o.cause = i.id)
        ORDER BY i.expires_at LIMIT 1
    ) FROM (",
    clock!(),
    ") c LEFT JOIN (
        SELECT i.state, count(*) AS counted, min(i.ended_at) AS since FROM onefold.inbox i WHERE i.state IN (0, 4)
        GROUP BY i.state
    ) s ON true"
);

/// The stored number of a state.
pub(crate) const fn state_number(state: InboxState) -> i16 {
    match state {
        InboxState::Failing => 0,
        InboxState::Processed => 1,
        InboxState::Rejected => 2,
        InboxState::Superseded => 3,
        InboxState::Parked => 4,
    }
}

fn state_of(number: i16) -> Result<InboxState, StoreError> {
    let state = InboxState::ALL.into_iter().find(|state| state_number(*state) == number);
    state.ok_or_else(|| unreadable(format!("the state {number} of a message is unknown")))
}

fn entry(row: &impl Columns) -> Result<InboxEntry, StoreError> {
    let counted = |column: usize| Ok::<_, StoreError>(count(get(row, column)?));
    Ok(InboxEntry {
        id: id(row, 1)?,
        round: attempt(row, 2)?,
        state: state_of(get(row, 3)?)?,
        failures: attempt(row, 4)?,
        duplicates: counted(5)?,
        conflicts: counted(6)?,
        received_at: StoreTime(get(row, 7)?),
        ended_at: StoreTime(get(row, 8)?),
        expires_at: get::<Option<i64>>(row, 9)?.map(StoreTime),
        identity: MessageIdentity {
            consumer: text(get(row, 10)?)?,
            source: text(get(row, 11)?)?,
            message: key(row, 12)?,
        },
        handler: text(get(row, 13)?)?,
        fingerprint: Fingerprint {
            version: get::<i16>(row, 14)?.try_into().map_err(unreadable)?,
            digest: get::<&[u8]>(row, 15)?.try_into().map_err(unreadable)?,
        },
        reason: words(row, 16)?,
        kept: get(row, 17)?,
    })
}

/// What stands of a message.
pub(crate) struct Standing {
    pub(crate) now: StoreTime,
    /// In the order of the rounds.
    pub(crate) entries: Vec<InboxEntry>,
    /// Of each, the transaction that wrote it.
    pub(crate) nonces: Vec<i64>,
}

impl Standing {
    /// From the rows of [`OF`].
    pub(crate) fn of(rows: &[impl Columns]) -> Result<Standing, StoreError> {
        let first = rows.first().ok_or_else(|| unreadable("no answer"))?;
        let mut standing =
            Standing { now: StoreTime(get(first, 0)?), entries: Vec::new(), nonces: Vec::new() };
        for row in rows {
            if get::<Option<&[u8]>>(row, 1)?.is_some() {
                standing.entries.push(entry(row)?);
                standing.nonces.push(get(row, 19)?);
            }
        }
        Ok(standing)
    }
}

/// Reads what stands of a message.
pub(crate) async fn standing(id: OperationId, server: &Server) -> Result<Standing, StoreError> {
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&server.now(), Type::INT8), (&id.as_bytes().as_slice(), Type::BYTEA)];
    Standing::of(&server.ask(OF, &params, Unanswered::AskAgain).await?)
}

/// Lists one page. It does not end between entries of one place, unless all of them are of one.
pub(crate) async fn list(query: &InboxQuery, server: &Server) -> Result<InboxPage, StoreError> {
    let waits = matches!(query.state, Some(InboxState::Failing | InboxState::Parked));
    let limit = query.limit.clamp(1, 1000) as usize;
    let bytes = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 9] = [
        (&server.now(), Type::INT8),
        (&query.cursor.unwrap_or(0), Type::INT8),
        (&query.state.map(state_number), Type::INT2),
        (&bytes(&query.consumer), Type::BYTEA),
        (&bytes(&query.source), Type::BYTEA),
        (&bytes(&query.handler), Type::BYTEA),
        (&query.message.as_ref().map(Key::as_str).map(str::as_bytes), Type::BYTEA),
        (&query.conflicts, Type::BOOL),
        (&(limit as i64 + 1), Type::INT8),
    ];
    let rows = server.ask(if waits { NOT_DONE } else { ALL }, &params, Unanswered::AskAgain).await?;
    let places = rows.iter().map(|row| get::<i64>(row, 18)).collect::<Result<Vec<_>, _>>()?;
    let mut fits = places.len().min(limit);
    if places.len() > limit {
        let whole = places[..limit].iter().rposition(|place| *place != places[limit]);
        fits = whole.map_or(limit, |last| last + 1);
    }
    let now = match rows.first() {
        Some(row) => get(row, 0)?,
        None => now(server).await?,
    };
    Ok(InboxPage {
        now: StoreTime(now),
        entries: rows[..fits].iter().map(entry).collect::<Result<_, _>>()?,
        next_cursor: (fits < places.len()).then(|| places[fits - 1]),
    })
}

/// The message that an entry keeps.
pub(crate) async fn kept(
    id: OperationId,
    round: u32,
    server: &Server,
    sealer: &Sealer,
) -> Result<Option<KeptMessage>, StoreError> {
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&id.as_bytes().as_slice(), Type::BYTEA), (&round_number(round), Type::INT4)];
    let rows = server.ask(KEPT, &params, Unanswered::AskAgain).await?;
    let refused = |why: String| StoreError::Refused(format!("the content of a message: {why}"));
    let open = |row| {
        let plain = sealer.open(&id, get(row, 0)?).map_err(|error| refused(error.to_string()))?;
        decode_message(&plain).map_err(|error| refused(error.to_string()))
    };
    rows.first().map(open).transpose()
}

/// A round as it is stored; a number that no permit has stays one.
pub(crate) fn round_number(round: u32) -> i32 {
    i32::try_from(round).unwrap_or(-1)
}

/// Counts what stands.
pub(crate) async fn survey(server: &Server) -> Result<InboxSurvey, StoreError> {
    let rows = server.ask(SURVEY, &[(&server.now(), Type::INT8)], Unanswered::AskAgain).await?;
    let mut survey = InboxSurvey::default();
    for row in &rows {
        let now = StoreTime(get(row, 0)?);
        if let Some(due) = get::<Option<i64>>(row, 4)? {
            survey.sweep_lag = StoreTime(due).until(now);
        }
        let Some(state) = get::<Option<i16>>(row, 1)? else { continue };
        let (counted, since) = (count(get(row, 2)?), StoreTime(get(row, 3)?));
        if state_of(state)? == InboxState::Parked {
            survey.parked = counted;
            survey.parked_oldest = Some(since.until(now));
        } else {
            survey.failing = counted;
        }
    }
    Ok(survey)
}
