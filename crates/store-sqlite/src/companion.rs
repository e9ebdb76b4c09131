//! The note that an operation is settled together with rows of its service. Kept for good.

use onefold_store::companion_note;
use rusqlite::{Connection, OptionalExtension};

use crate::batch::Batch;
use crate::errand::Work;
use crate::error::JobError;

const NOTE: &str = "INSERT INTO onefold_meta (name, value) VALUES (?1, x'') ON CONFLICT (name) DO NOTHING";
const STANDS: &str = "SELECT true FROM onefold_meta WHERE name = ?1";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[NOTE, STANDS];

/// The note of one operation.
pub(crate) struct Note(String);

impl Note {
    pub(crate) fn of(operation: &str) -> Note {
        Note(companion_note(operation))
    }

    /// Whether it was made, beside the writer.
    pub(crate) fn stands(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let stands = connection.prepare_cached(STANDS)?.query_row([&self.0], |row| row.get(0)).optional()?;
        Ok(stands.unwrap_or(false))
    }
}

impl Work for Note {
    type Answer = ();

    fn run(&self, batch: &mut Batch<'_>) -> Result<(), JobError> {
        if batch.connection.prepare_cached(NOTE)?.execute([&self.0])? == 1 {
            batch.wrote();
        }
        Ok(())
    }
}
