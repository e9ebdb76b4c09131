//! What is known of the versions of entities, as far as it is forgotten again.
//!
//! The latest version of an entity that webhooks are about goes with the mark of the message that brought it; a note
//! that a version came too late goes with the mark, or the record, of what brought it. Neither has an index for that,
//! which each write would pay for: some are looked at on a reader, from a place that moves on, and only what is over
//! is looked at again and deleted by the writer. The versions of projections stay (decision 0022).

use parking_lot::Mutex;
use rusqlite::{Connection, params};

use crate::batch::Batch;
use crate::errand::Work;
use crate::error::JobError;

/// Some entities from a place on, and whether the mark of the message that brought each stands.
const ENTITIES: &str =
    "SELECT e.entity, e.message, EXISTS (SELECT 1 FROM onefold_inbox i WHERE i.id = e.message)
    FROM onefold_entities e WHERE e.entity >= ?1 ORDER BY e.entity LIMIT ?2";
const FORGET_ENTITY: &str = "DELETE FROM onefold_entities WHERE entity = ?1 AND message = ?2
    AND NOT EXISTS (SELECT 1 FROM onefold_inbox i WHERE i.id = ?2)";
/// Some notes behind a place, and whether the mark or the record of what brought each stands.
const NOTES: &str = "SELECT s.entity, s.version, s.operation,
        EXISTS (SELECT 1 FROM onefold_inbox i WHERE i.id = s.operation)
        OR EXISTS (SELECT 1 FROM onefold_operations r WHERE r.id = s.operation)
    FROM onefold_superseded s WHERE (s.entity, s.version, s.operation) > (?1, ?2, ?3)
    ORDER BY s.entity, s.version, s.operation LIMIT ?4";
const FORGET_NOTE: &str =
    "DELETE FROM onefold_superseded WHERE entity = ?1 AND version = ?2 AND operation = ?3
    AND NOT EXISTS (SELECT 1 FROM onefold_inbox i WHERE i.id = ?3)
    AND NOT EXISTS (SELECT 1 FROM onefold_operations r WHERE r.id = ?3)";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[ENTITIES, FORGET_ENTITY, NOTES, FORGET_NOTE];

type Entity = ([u8; 32], [u8; 32]);
type Note = (String, i64, [u8; 32]);

/// Up to where notes were looked at; behind the last one it begins anew.
#[derive(Default)]
pub(crate) struct Place(Mutex<Option<Note>>);

/// What seemed to be over on a reader.
#[derive(Default)]
pub(crate) struct Forget {
    entities: Vec<Entity>,
    notes: Vec<Note>,
}

impl Forget {
    /// In parts of at most `most` of each kind, so that none holds up the writer for long.
    pub(crate) fn parts(mut self, most: u32) -> Vec<Forget> {
        let mut parts = Vec::new();
        while !self.entities.is_empty() || !self.notes.is_empty() {
            let entities = self.entities.split_off(self.entities.len().saturating_sub(most as usize));
            let notes = self.notes.split_off(self.notes.len().saturating_sub(most as usize));
            parts.push(Forget { entities, notes });
        }
        parts
    }

    /// Looks at `limit` of each kind at most. Digests lie anywhere, so a place among them is as good as any other.
    pub(crate) fn find(limit: u32, place: &Place, connection: &Connection) -> rusqlite::Result<Forget> {
        let start: [u8; 32] = rand::random();
        let mut found = Forget::default();
        let looked = found.entities(&start, limit, connection)?;
        found.entities(&[0; 32], limit - looked, connection)?;
        found.entities.sort_unstable();
        found.entities.dedup();
        found.notes(limit, place, connection)?;
        Ok(found)
    }

    fn entities(&mut self, from: &[u8; 32], limit: u32, connection: &Connection) -> rusqlite::Result<u32> {
        let mut statement = connection.prepare_cached(ENTITIES)?;
        let mut rows = statement.query(params![from, limit])?;
        let mut looked = 0;
        while let Some(row) = rows.next()? {
            looked += 1;
            if !row.get::<_, bool>(2)? {
                self.entities.push((row.get(0)?, row.get(1)?));
            }
        }
        Ok(looked)
    }

    fn notes(&mut self, limit: u32, place: &Place, connection: &Connection) -> rusqlite::Result<()> {
        let (entity, version, operation) =
            place.0.lock().clone().unwrap_or((String::new(), i64::MIN, [0; 32]));
        let mut statement = connection.prepare_cached(NOTES)?;
        let mut rows = statement.query(params![entity, version, operation, limit])?;
        let (mut looked, mut last) = (0, None);
        while let Some(row) = rows.next()? {
            let note: Note = (row.get(0)?, row.get(1)?, row.get(2)?);
            looked += 1;
            if !row.get::<_, bool>(3)? {
                self.notes.push(note.clone());
            }
            last = Some(note);
        }
        *place.0.lock() = last.filter(|_| looked == limit);
        Ok(())
    }
}

impl Work for Forget {
    type Answer = u64;

    fn run(&self, batch: &mut Batch<'_>) -> Result<u64, JobError> {
        batch.in_savepoint(|batch| {
            let mut forgotten = 0;
            for entity in &self.entities {
                forgotten +=
                    batch.connection.prepare_cached(FORGET_ENTITY)?.execute(params![entity.0, entity.1])?;
            }
            for (entity, version, operation) in &self.notes {
                let note = params![entity, version, operation];
                forgotten += batch.connection.prepare_cached(FORGET_NOTE)?.execute(note)?;
            }
            if forgotten > 0 {
                batch.wrote();
            }
            Ok(forgotten as u64)
        })
    }
}
