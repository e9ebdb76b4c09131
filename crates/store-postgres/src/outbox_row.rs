//! Rows of the outbox as entries; their content is opened on the caller's side.

use std::time::Duration;

use onefold_core::{IdentityKey, Key, Message, OutboxEntry, OutboxState, StoreTime, outgoing_id};
use onefold_store::codec::decode_message;
use onefold_store::{KeptMessage, OutboxPage, OutboxQuery, OutboxSurvey, Sealer, StoreError, Taken};
use tokio_postgres::types::Type;

use crate::driver::Columns;
use crate::row::{attempt, clock, count, duration_ms, get, text, unreadable};
use crate::server::{Server, Unanswered};

/// Entries behind the place $2. The content of a page that is long ends it early, so that it is not fetched in vain.
macro_rules! entries {
    ($from:literal, $where:literal, $limit:literal) => {
        concat!(
            "SELECT s.* FROM (SELECT c.now, m.place, m.id, m.destination, m.address, m.ordering_key, m.created_at, m.form,
                coalesce(o.state, d.state), coalesce(o.attempt, d.attempt), coalesce(o.failures, d.failures),
                CASE o.state WHEN 0 THEN o.due_at END, coalesce(o.ended_at, d.at), coalesce(o.reason, d.reason),
                sum(octet_length(m.form)) OVER (ORDER BY m.place) - octet_length(m.form)::bigint AS before,
                count(*) OVER () AS found
            FROM (",
            clock!(),
            ") c CROSS JOIN LATERAL (",
            $from,
            $where,
            $limit,
            ") p JOIN onefold.outbox m ON m.place = p.place
            LEFT JOIN onefold.outbox_open o ON o.place = m.place LEFT JOIN onefold.outbox_done d ON d.place = m.place) s
            WHERE s.before <= 8388608::bigint ORDER BY s.place"
        )
    };
}

pub(crate) const ONE: &str = entries!("SELECT n.place FROM onefold.outbox n", " WHERE n.id = $2", "");
pub(crate) const ALL: &str = entries!(
    "SELECT n.place FROM onefold.outbox n LEFT JOIN onefold.outbox_open e ON e.place = n.place
        LEFT JOIN onefold.outbox_done f ON f.place = n.place",
    " WHERE n.place > $2 AND ($3::smallint IS NULL OR coalesce(e.state, f.state) = $3)
        AND ($4::bytea IS NULL OR n.destination = $4) AND ($5::bytea IS NULL OR n.ordering_key = $5)
        AND ($6::bigint IS NULL OR n.created_at <= c.now - $6)",
    " ORDER BY n.place LIMIT $7"
);
/// By those that are not done, which are few.
pub(crate) const NOT_DONE: &str = entries!(
    "SELECT n.place FROM onefold.outbox_open n",
    " WHERE n.place > $2 AND n.state = $3
        AND ($4::bytea IS NULL OR n.destination = $4) AND ($5::bytea IS NULL OR n.ordering_key = $5)
        AND ($6::bigint IS NULL OR n.created_at <= c.now - $6)",
    " ORDER BY n.place LIMIT $7"
);
pub(crate) const NOW: &str = clock!();
pub(crate) const SURVEY: &str = concat!(
    "SELECT c.now, o.destination, o.state, count(*), min(o.created_at) FROM onefold.outbox_open o CROSS JOIN (",
    clock!(),
    ") c GROUP BY c.now, o.destination, o.state ORDER BY o.destination"
);

/// The stored number of a state.
pub(crate) const fn state_number(state: OutboxState) -> i16 {
    match state {
        OutboxState::Waiting => 0,
        OutboxState::Sending => 1,
        OutboxState::Delivered => 2,
        OutboxState::Dead => 3,
        OutboxState::Unknown => 4,
        OutboxState::Discarded => 5,
    }
}

fn state_of(number: i16) -> Result<OutboxState, StoreError> {
    let state = OutboxState::ALL.into_iter().find(|state| state_number(*state) == number);
    state.ok_or_else(|| unreadable(format!("the state {number} of an outgoing message is unknown")))
}

/// A column that is an id that somebody gave.
pub(crate) fn key(row: &impl Columns, column: usize) -> Result<Key, StoreError> {
    Key::new(text(get(row, column)?)?).map_err(unreadable)
}

/// A column that is words, or nothing.
pub(crate) fn words(row: &impl Columns, column: usize) -> Result<Option<String>, StoreError> {
    get::<Option<&[u8]>>(row, column)?.map(text).transpose()
}

fn content(id: &Key, form: &[u8], secret: &IdentityKey, sealer: &Sealer) -> Result<KeptMessage, StoreError> {
    let refused = |why: String| StoreError::Refused(format!("the content of an outgoing message: {why}"));
    let plain =
        sealer.open_as(|| outgoing_id(id, secret), form).map_err(|error| refused(error.to_string()))?;
    decode_message(&plain).map_err(|error| refused(error.to_string()))
}

/// A message that is given to a relay, still sealed.
pub(crate) struct RawTaken {
    taken: Taken,
    form: Vec<u8>,
}

impl RawTaken {
    /// The length of its content.
    pub(crate) fn bytes(&self) -> u64 {
        self.form.len() as u64
    }

    /// From a row of a claim.
    pub(crate) fn of(row: &impl Columns, destination: &str) -> Result<RawTaken, StoreError> {
        let message = Message {
            id: key(row, 4)?,
            destination: destination.to_owned(),
            address: text(get(row, 5)?)?,
            ordering_key: words(row, 6)?,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let taken = Taken {
            message,
            attempt: attempt(row, 1)?,
            failures: attempt(row, 2)?,
            created_at: StoreTime(get(row, 3)?),
            now: StoreTime(get(row, 0)?),
        };
        Ok(RawTaken { taken, form: get::<&[u8]>(row, 7)?.to_vec() })
    }

    /// The message with its content.
    pub(crate) fn open(self, secret: &IdentityKey, sealer: &Sealer) -> Result<Taken, StoreError> {
        let RawTaken { mut taken, form } = self;
        let KeptMessage { headers, body } = content(&taken.message.id, &form, secret, sealer)?;
        (taken.message.headers, taken.message.body) = (headers, body);
        Ok(taken)
    }
}

fn entry(row: &impl Columns, secret: &IdentityKey, sealer: &Sealer) -> Result<OutboxEntry, StoreError> {
    let id = key(row, 2)?;
    let KeptMessage { headers, body } = content(&id, get(row, 7)?, secret, sealer)?;
    Ok(OutboxEntry {
        message: Message {
            id,
            destination: text(get(row, 3)?)?,
            address: text(get(row, 4)?)?,
            ordering_key: words(row, 5)?,
            headers,
            body,
        },
        created_at: StoreTime(get(row, 6)?),
        state: state_of(get(row, 8)?)?,
        attempt: attempt(row, 9)?,
        failures: attempt(row, 10)?,
        due_at: get::<Option<i64>>(row, 11)?.map(StoreTime),
        ended_at: get::<Option<i64>>(row, 12)?.map(StoreTime),
        reason: words(row, 13)?,
    })
}

/// What opens content.
pub(crate) struct Opener<'s> {
    pub(crate) secret: &'s IdentityKey,
    pub(crate) sealer: &'s Sealer,
}

/// One message.
pub(crate) async fn one(
    id: &Key,
    server: &Server,
    opener: &Opener<'_>,
) -> Result<Option<OutboxEntry>, StoreError> {
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&server.now(), Type::INT8), (&id.as_str().as_bytes(), Type::BYTEA)];
    let rows = server.ask(ONE, &params, Unanswered::AskAgain).await?;
    rows.first().map(|row| entry(row, opener.secret, opener.sealer)).transpose()
}

/// Lists one page.
pub(crate) async fn list(
    query: &OutboxQuery,
    server: &Server,
    opener: &Opener<'_>,
) -> Result<OutboxPage, StoreError> {
    let sql = if query.state.is_some_and(|state| !state.is_done()) { NOT_DONE } else { ALL };
    let limit = query.limit.clamp(1, 1000) as usize;
    let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 7] = [
        (&server.now(), Type::INT8),
        (&query.cursor.unwrap_or(0), Type::INT8),
        (&query.state.map(state_number), Type::INT2),
        (&query.destination.as_deref().map(str::as_bytes), Type::BYTEA),
        (&query.ordering_key.as_deref().map(str::as_bytes), Type::BYTEA),
        (&query.older_than.map(duration_ms), Type::INT8),
        (&(limit as i64 + 1), Type::INT8),
    ];
    let rows = server.ask(sql, &params, Unanswered::AskAgain).await?;
    let now = match rows.first() {
        Some(row) => get(row, 0)?,
        None => now(server).await?,
    };
    let mut page = OutboxPage { now: StoreTime(now), ..OutboxPage::default() };
    for row in rows.iter().take(limit) {
        page.entries.push(entry(row, opener.secret, opener.sealer)?);
        page.next_cursor = Some(get(row, 1)?);
    }
    let found = rows.first().map_or(Ok(0), |row| get::<i64>(row, 15))?;
    if count(found) <= page.entries.len() as u64 {
        page.next_cursor = None;
    }
    Ok(page)
}

/// The store's time, where no row says it.
pub(crate) async fn now(server: &Server) -> Result<i64, StoreError> {
    let rows = server.ask(NOW, &[(&server.now(), Type::INT8)], Unanswered::AskAgain).await?;
    rows.first().map_or_else(|| Err(unreadable("no answer")), |row| get(row, 0))
}

/// Counts what stands.
pub(crate) async fn survey(server: &Server) -> Result<Vec<OutboxSurvey>, StoreError> {
    let rows = server.ask(SURVEY, &[(&server.now(), Type::INT8)], Unanswered::AskAgain).await?;
    let mut surveys: Vec<OutboxSurvey> = Vec::new();
    for row in &rows {
        let destination = text(get(row, 1)?)?;
        let (now, counted, since) = (StoreTime(get(row, 0)?), count(get(row, 3)?), StoreTime(get(row, 4)?));
        if surveys.last().is_none_or(|last| last.destination != destination) {
            surveys.push(OutboxSurvey { destination, ..OutboxSurvey::default() });
        }
        let Some(survey) = surveys.last_mut() else { continue };
        match state_of(get(row, 2)?)? {
            OutboxState::Dead => survey.dead += counted,
            OutboxState::Unknown => survey.unknown += counted,
            _ => {
                survey.depth += counted;
                survey.oldest = survey.oldest.max(Some(since.until(now))).or(Some(Duration::ZERO));
            }
        }
    }
    Ok(surveys)
}
