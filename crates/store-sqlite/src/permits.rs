//! Written permissions to handle messages again: granted and revoked, never deleted.

use onefold_core::{Key, Permit, Revoked, StoreTime};
use onefold_store::NewPermit;
use rusqlite::{Connection, Row, params};

use crate::batch::Batch;
use crate::errand::Work;
use crate::error::JobError;
use crate::inbox_row::key;
use crate::row::unknown;

const GRANT: &str =
    "INSERT INTO onefold_permits (consumer, source, damaged, handler, message, who, reason, granted_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
const OF: &str =
    "SELECT number, consumer, source, damaged, handler, message, who, reason, granted_at, revoked_at,
        revoked_by, revoked_reason FROM onefold_permits WHERE ?1 IS NULL OR consumer = ?1 ORDER BY number";
const REVOKE: &str = "UPDATE onefold_permits SET revoked_at = ?2, revoked_by = ?3, revoked_reason = ?4
    WHERE number = ?1 AND revoked_at IS NULL";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[GRANT, OF, REVOKE];

impl Work for NewPermit {
    type Answer = Permit;

    fn run(&self, batch: &mut Batch<'_>) -> Result<Permit, JobError> {
        let number = batch.connection.prepare_cached(GRANT)?.insert(params![
            self.consumer,
            self.source,
            self.damaged,
            self.handler,
            self.message.as_ref().map(Key::as_str),
            self.who,
            self.reason,
            batch.now_ms()
        ])?;
        batch.wrote();
        let NewPermit { consumer, source, damaged, handler, message, who, reason } = self.clone();
        Ok(Permit {
            number: u32::try_from(number).map_err(|_| unknown("the number of a permit", number))?,
            consumer,
            source,
            damaged,
            handler,
            message,
            who,
            reason,
            granted_at: batch.moment.time,
            revoked: None,
        })
    }
}

/// The end of a permit.
pub(crate) struct Revoke {
    pub(crate) number: u32,
    pub(crate) who: String,
    pub(crate) reason: String,
}

impl Work for Revoke {
    type Answer = bool;

    fn run(&self, batch: &mut Batch<'_>) -> Result<bool, JobError> {
        let row = params![self.number, batch.now_ms(), self.who, self.reason];
        let revoked = batch.connection.prepare_cached(REVOKE)?.execute(row)? > 0;
        if revoked {
            batch.wrote();
        }
        Ok(revoked)
    }
}

/// The permits of a consumer, or of all, by number.
pub(crate) fn of(consumer: Option<&str>, connection: &Connection) -> rusqlite::Result<Vec<Permit>> {
    connection.prepare_cached(OF)?.query_map([consumer], permit)?.collect()
}

fn permit(row: &Row<'_>) -> rusqlite::Result<Permit> {
    let message = match row.get_ref(5)? {
        rusqlite::types::ValueRef::Null => None,
        _ => Some(key(row, 5)?),
    };
    let revoked = match row.get::<_, Option<i64>>(9)? {
        Some(at) => Some(Revoked { at: StoreTime(at), who: row.get(10)?, reason: row.get(11)? }),
        None => None,
    };
    Ok(Permit {
        number: row.get(0)?,
        consumer: row.get(1)?,
        source: row.get(2)?,
        damaged: row.get(3)?,
        handler: row.get(4)?,
        message,
        who: row.get(6)?,
        reason: row.get(7)?,
        granted_at: StoreTime(row.get(8)?),
        revoked,
    })
}
