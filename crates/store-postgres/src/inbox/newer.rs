//! Whether a message brings a newer version of what it is about. That is noted in the commit of its mark: after a crash
//! before it, it is as new as it was.

use onefold_store::crash;
use tokio_postgres::types::{ToSql, Type};

use super::MarkWork;
use crate::error::Failed;
use crate::held::Held;
use crate::store::PostgresStore;

/// Whether this version is newer than the entity's; it is noted then. $4: its own version counts as newer.
pub(crate) const NEWER: &str = "INSERT INTO onefold.entities AS e (entity, version, message) VALUES ($1, $2, $3)
    ON CONFLICT (entity) DO UPDATE SET version = excluded.version, message = excluded.message
    WHERE e.version < excluded.version OR ($4 AND e.message = excluded.message AND e.version = excluded.version)
    RETURNING e.version";

impl MarkWork {
    /// Whether it brings something newer, as far as versions are compared; notes that.
    pub(crate) async fn is_newer(&self, held: &Held, store: &PostgresStore) -> Result<bool, Failed> {
        let mark = &self.mark;
        let Some(versioned) = &mark.versioned else { return Ok(true) };
        let entity = versioned.digest(&mark.identity, store.secret());
        let params: [(&(dyn ToSql + Sync), Type); 4] = [
            (&entity.as_slice(), Type::BYTEA),
            (&versioned.version, Type::INT8),
            (&mark.id.as_bytes().as_slice(), Type::BYTEA),
            (&(mark.round > 0), Type::BOOL),
        ];
        let rows = held.query_typed(NEWER, &params).await.map_err(|error| Failed::of(&error))?;
        crash::point("postgres.newer.after");
        Ok(!rows.is_empty())
    }
}
