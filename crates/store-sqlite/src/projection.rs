//! The versions of projections: which one stands, and what became of the next.
//!
//! The one write lock is held, so what is looked at first is still so when it is written. Which version counts in the
//! round of a permit is judged by [`KnownVersion`].

use onefold_core::{InboxEntry, OperationId, Permit, StoreTime};
use onefold_store::{Again, Applied, KnownVersion};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::closure::About;
use crate::{inbox_row, permits};

/// The message is known where the version is still the one that it brought.
const VERSION: &str = "SELECT version, round, CASE WHEN brought = version THEN message END
    FROM onefold_projections WHERE entity = ?1";
const APPLY: &str = "INSERT INTO onefold_projections (entity, version, at, round, message, brought)
    VALUES (?1, ?2, ?3, ?4, ?5, ?2)
    ON CONFLICT (entity) DO UPDATE SET version = excluded.version, at = excluded.at,
        round = excluded.round, message = excluded.message, brought = excluded.brought";
const SUPERSEDED: &str = "INSERT INTO onefold_superseded (entity, version, operation, at)
    VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[VERSION, APPLY, SUPERSEDED];

/// What brings a version.
pub(crate) struct Brings<'a> {
    /// The operation, or the digest of the message.
    pub(crate) operation: OperationId,
    /// Which of the two.
    pub(crate) about: About<'a>,
    /// When.
    pub(crate) now: StoreTime,
}

impl Brings<'_> {
    /// Says whether the version is to be applied, and notes it.
    pub(crate) fn apply(
        &self,
        entity: &str,
        version: i64,
        connection: &Connection,
    ) -> rusqlite::Result<Applied> {
        let known = connection.prepare_cached(VERSION)?.query_row([entity], known).optional()?;
        let applied = match (known, self.about) {
            (None, _) => Applied::Newer,
            (Some(known), About::Message(mark)) if mark.round > 0 => {
                let (permits, entries) = what_comes_again(&known, &mark.identity.consumer, connection)?;
                let again = Again { round: mark.round, message: mark.id, handler: &mark.handler };
                known.judge_again(version, &again, &permits, &entries)
            }
            (Some(known), _) => known.judge(version),
        };
        let operation = self.operation.as_bytes();
        match applied {
            Applied::Equal => {}
            Applied::Superseded => {
                let row = params![entity, version, operation, self.now.0];
                connection.prepare_cached(SUPERSEDED)?.execute(row)?;
            }
            Applied::Newer => {
                let (round, message) = match self.about {
                    About::Message(mark) => (mark.round, Some(operation)),
                    About::Operation => (0, None),
                };
                let row = params![entity, version, self.now.0, round, message];
                connection.prepare_cached(APPLY)?.execute(row)?;
            }
        }
        Ok(applied)
    }
}

fn known(row: &Row<'_>) -> rusqlite::Result<KnownVersion> {
    let message = row.get::<_, Option<[u8; 32]>>(2)?.map(OperationId::from_bytes);
    Ok(KnownVersion { version: row.get(0)?, round: row.get(1)?, message })
}

/// The permits of the consumer, and what stands of the message that brought the known version.
fn what_comes_again(
    known: &KnownVersion,
    consumer: &str,
    connection: &Connection,
) -> rusqlite::Result<(Vec<Permit>, Vec<InboxEntry>)> {
    let Some(message) = known.message else { return Ok((Vec::new(), Vec::new())) };
    let permits = permits::of(Some(consumer), connection)?;
    Ok((permits, inbox_row::entries(message, connection)?))
}
