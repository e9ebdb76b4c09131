//! Written permissions to handle messages again: granted and revoked, never deleted.

use onefold_core::{Key, Permit, Revoked, StoreTime};
use onefold_store::{NewPermit, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::outbox_row::words;
use crate::row::{attempt, clock, get, text, unreadable};
use crate::server::{Server, Unanswered};

pub(crate) const GRANT: &str =
    "SELECT given, at FROM onefold.permit_grant($1, $2, $3, $4, $5, $6, $7, $8, $9)";
pub(crate) const OF: &str =
    "SELECT number, consumer, source, damaged, handler, message, who, reason, granted_at,
        revoked_at, revoked_by, revoked_reason
    FROM onefold.permits WHERE $1::bytea IS NULL OR consumer = $1 ORDER BY number";
pub(crate) const REVOKE: &str = concat!(
    "UPDATE onefold.permits p SET revoked_at = c.now, revoked_by = $3, revoked_reason = $4 FROM (",
    clock!(),
    ") c WHERE p.number = $2 AND p.revoked_at IS NULL RETURNING p.number"
);
/// The lock of whoever grants; any number that nobody else uses.
const GRANT_LOCK: i64 = 0x4F6E_6566_0000_0002;

/// Writes a permit.
pub(crate) async fn grant(permit: NewPermit, server: &Server) -> Result<Permit, StoreError> {
    let bytes = |text: &Option<String>| text.as_ref().map(|text| text.as_bytes().to_vec());
    let params: [(&(dyn ToSql + Sync), Type); 9] = [
        (&server.now(), Type::INT8),
        (&GRANT_LOCK, Type::INT8),
        (&permit.consumer.as_bytes(), Type::BYTEA),
        (&bytes(&permit.source), Type::BYTEA),
        (&bytes(&permit.damaged), Type::BYTEA),
        (&bytes(&permit.handler), Type::BYTEA),
        (&permit.message.as_ref().map(Key::as_str).map(str::as_bytes), Type::BYTEA),
        (&permit.who.as_bytes(), Type::BYTEA),
        (&permit.reason.as_bytes(), Type::BYTEA),
    ];
    let rows = server.ask_committed(GRANT, &params).await?;
    let row = rows.first().ok_or_else(|| unreadable("no answer"))?;
    let (number, granted_at) = (attempt(row, 0)?, StoreTime(get(row, 1)?));
    let NewPermit { consumer, source, damaged, handler, message, who, reason } = permit;
    Ok(Permit { number, consumer, source, damaged, handler, message, who, reason, granted_at, revoked: None })
}

/// The permits of a consumer, or of all, by number.
pub(crate) async fn of(consumer: Option<&str>, server: &Server) -> Result<Vec<Permit>, StoreError> {
    let params: [(&(dyn ToSql + Sync), Type); 1] = [(&consumer.map(str::as_bytes), Type::BYTEA)];
    server.ask(OF, &params, Unanswered::AskAgain).await?.iter().map(permit).collect()
}

/// Ends a permit; false: there is none that is alive.
pub(crate) async fn revoke(
    number: u32,
    who: &str,
    reason: &str,
    server: &Server,
) -> Result<bool, StoreError> {
    let params: [(&(dyn ToSql + Sync), Type); 4] = [
        (&server.now(), Type::INT8),
        (&i32::try_from(number).unwrap_or(-1), Type::INT4),
        (&who.as_bytes(), Type::BYTEA),
        (&reason.as_bytes(), Type::BYTEA),
    ];
    Ok(!server.ask(REVOKE, &params, Unanswered::GiveUp).await?.is_empty())
}

pub(crate) fn permit(row: &Row) -> Result<Permit, StoreError> {
    let message = words(row, 5)?.map(Key::new).transpose().map_err(unreadable)?;
    let revoked = match get::<Option<i64>>(row, 9)? {
        Some(at) => {
            Some(Revoked { at: StoreTime(at), who: text(get(row, 10)?)?, reason: text(get(row, 11)?)? })
        }
        None => None,
    };
    Ok(Permit {
        number: attempt(row, 0)?,
        consumer: text(get(row, 1)?)?,
        source: words(row, 2)?,
        damaged: words(row, 3)?,
        handler: words(row, 4)?,
        message,
        who: text(get(row, 6)?)?,
        reason: text(get(row, 7)?)?,
        granted_at: StoreTime(get(row, 8)?),
        revoked,
    })
}
