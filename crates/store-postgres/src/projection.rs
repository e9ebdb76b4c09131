//! The versions of projections: which one stands, and what became of the next.
//!
//! Outside of permits one conditional statement judges and writes. In the round of a permit the row is locked, what
//! brought the version that stands is looked up, and [`KnownVersion`] judges: that is rare, so not in one statement.

use onefold_core::{InboxEntry, OperationId, Permit, StoreTime};
use onefold_store::{Again, Applied, KnownVersion, StoreError};

use crate::about::{About, Handling};
use crate::inbox_row::{self, Standing, round_number};
use crate::permits;
use crate::row::{attempt, get};
use crate::tx::{PostgresTx, TxError};

/// $6: whatever stands, which is locked.
pub(crate) const APPLY: &str =
    "INSERT INTO onefold.projections AS p (entity, version, at, message, brought, round)
    VALUES ($1, $2, $3, $4, $2, $5)
    ON CONFLICT (entity) DO UPDATE SET version = excluded.version, at = excluded.at, message = excluded.message,
        brought = excluded.brought, round = excluded.round
    WHERE p.version < excluded.version OR $6";
/// The message is known where the version is still the one that it brought.
pub(crate) const VERSION: &str =
    "SELECT version, round, CASE WHEN brought = version THEN message END FROM onefold.projections
    WHERE entity = $1 FOR UPDATE";
pub(crate) const SUPERSEDED: &str = "INSERT INTO onefold.superseded (entity, version, operation, at)
    VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";

/// What brings a version.
pub(crate) struct Brings {
    /// The operation, or the digest of the message.
    pub(crate) operation: OperationId,
    /// Which of the two.
    pub(crate) about: About,
    /// When.
    pub(crate) now: StoreTime,
}

impl Brings {
    /// Says whether the version is to be applied, and notes it.
    pub(crate) async fn apply(
        &self,
        entity: &str,
        version: i64,
        tx: &mut PostgresTx,
    ) -> Result<Applied, TxError> {
        let entity = entity.as_bytes();
        let again = match &self.about {
            About::Message(handling) if handling.round > 0 => Some(handling),
            _ => None,
        };
        let applied = match again {
            Some(handling) => self.apply_again(entity, version, handling, tx).await?,
            None if self.put(entity, version, false, tx).await? => Applied::Newer,
            None => known(entity, tx).await?.map_or(Applied::Superseded, |known| known.judge(version)),
        };
        if applied == Applied::Superseded {
            let operation = self.operation.as_bytes().as_slice();
            tx.execute(SUPERSEDED, &[&entity, &version, &operation, &self.now.0]).await?;
        }
        Ok(applied)
    }

    /// The same in the round of a permit.
    async fn apply_again(
        &self,
        entity: &[u8],
        version: i64,
        handling: &Handling,
        tx: &mut PostgresTx,
    ) -> Result<Applied, TxError> {
        loop {
            let known = known(entity, tx).await?;
            let applied = match &known {
                None => Applied::Newer,
                Some(known) => {
                    let (permits, entries) = what_comes_again(known, &handling.consumer, tx).await?;
                    let Handling { round, handler, .. } = handling;
                    let again = Again { round: *round, message: self.operation, handler };
                    known.judge_again(version, &again, &permits, &entries)
                }
            };
            // Where nothing stood, another transaction may have been faster: it is looked at again.
            if applied != Applied::Newer || self.put(entity, version, known.is_some(), tx).await? {
                return Ok(applied);
            }
        }
    }

    /// Writes the version where it is newer, or in any case; says whether it did.
    async fn put(
        &self,
        entity: &[u8],
        version: i64,
        anyway: bool,
        tx: &mut PostgresTx,
    ) -> Result<bool, TxError> {
        let (round, message) = match &self.about {
            About::Message(handling) => {
                (round_number(handling.round), Some(self.operation.as_bytes().as_slice()))
            }
            About::Operation => (0, None),
        };
        let put = tx.execute(APPLY, &[&entity, &version, &self.now.0, &message, &round, &anyway]).await?;
        Ok(put == 1)
    }
}

/// What stands of an entity, locked.
async fn known(entity: &[u8], tx: &mut PostgresTx) -> Result<Option<KnownVersion>, TxError> {
    let Some(row) = tx.query_opt(VERSION, &[&entity]).await? else { return Ok(None) };
    let read = || {
        let message = get::<Option<&[u8]>>(&row, 2)?.map(<[u8; 32]>::try_from).transpose();
        let message = message.map_err(crate::row::unreadable)?.map(OperationId::from_bytes);
        Ok::<_, StoreError>(KnownVersion { version: get(&row, 0)?, round: attempt(&row, 1)?, message })
    };
    read().map(Some).map_err(TxError::Unreadable)
}

/// The permits of the consumer, and what stands of the message that brought the known version.
async fn what_comes_again(
    known: &KnownVersion,
    consumer: &str,
    tx: &mut PostgresTx,
) -> Result<(Vec<Permit>, Vec<InboxEntry>), TxError> {
    let Some(message) = known.message else { return Ok((Vec::new(), Vec::new())) };
    let rows = tx.query(permits::OF, &[&consumer.as_bytes()]).await?;
    let permits = rows.iter().map(permits::permit).collect::<Result<Vec<_>, _>>();
    let permits = permits.map_err(TxError::Unreadable)?;
    let id = message.as_bytes().as_slice();
    let rows = tx.query(inbox_row::OF, &[&None::<i64>, &id]).await?;
    Ok((permits, Standing::of(&rows).map_err(TxError::Unreadable)?.entries))
}
