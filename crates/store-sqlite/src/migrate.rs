//! The schema, as the sum of its migrations.
//!
//! Each migration is one file and one transaction that also moves the version in `onefold_schema`, a table of our own,
//! because a file that is shared with a service has a `user_version` of its own; a crash leaves the schema before it or
//! after it. Two processes that migrate at once wait for each other, and the second finds nothing to do.
//! Migrations only go forward.
//!
//! Each migration also says, and leaves in the file, which older releases may go on working on the store once it has
//! run (decision 0016). A release opens a later schema where that says so, and refuses it otherwise.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::header::APPLICATION_ID;
use crate::{FileUse, OpenError};

/// One step of the schema.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    /// What it does.
    pub sql: &'static str,
    /// The oldest schema whose release may go on reading and writing once this has run. Its own number: none may.
    pub min_reader: u32,
}

/// The migrations, in order; the first makes schema 1.
const MIGRATIONS: [Migration; 3] = [
    Migration { sql: include_str!("../migrations/0001_operations.sql"), min_reader: 1 },
    // It only adds tables, and nothing in them needs to be done by whoever writes the older ones.
    Migration { sql: include_str!("../migrations/0002_messages.sql"), min_reader: 1 },
    // It adds columns; what an older release writes beside them is recognised by the version that they belong to.
    Migration { sql: include_str!("../migrations/0003_rounds.sql"), min_reader: 1 },
];

/// The schema of this release.
pub(crate) const LATEST: u32 = MIGRATIONS.len() as u32;

/// Whether an old or absent schema is brought to the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Migrate {
    /// It is.
    Yes,
    /// It is an error.
    No,
}

/// All columns: `min_reader` may be missing.
const SCHEMA: &str = "SELECT * FROM onefold_schema WHERE one = 1";
const HAS_PLACE: &str = "SELECT count(*) FROM pragma_table_info('onefold_schema') WHERE name = 'min_reader'";
/// The oldest schema whose release may work on this one.
const PLACE: &str = "ALTER TABLE onefold_schema ADD COLUMN min_reader INTEGER";
/// A schema that was made before there was a place for it is not for older releases.
const SET_SCHEMA: &str =
    "UPDATE onefold_schema SET version = ?1, min_reader = max(coalesce(min_reader, version), ?2)
    WHERE one = 1";
const TABLES: &str = "SELECT count(*), sum(name = 'onefold_schema') FROM sqlite_schema";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[SCHEMA, HAS_PLACE, SET_SCHEMA, TABLES];

/// The migrations of this release, and the one of a later release that a test makes up.
pub(crate) fn known(test: Option<Migration>) -> Vec<Migration> {
    MIGRATIONS.into_iter().chain(test).collect()
}

/// Brings the schema to the latest that is known. One of a later release that lets this one work on it is left as it
/// is.
pub(crate) fn run(
    connection: &mut Connection,
    path: &Path,
    migrate: Migrate,
    file_use: FileUse,
    known: &[Migration],
) -> Result<(), OpenError> {
    let sqlite = |error: rusqlite::Error| OpenError::sqlite(path, &error);
    let latest = u32::try_from(known.len()).expect("migrations are few");
    loop {
        let found = schema_of(connection, path, file_use, latest)?;
        if found > latest {
            tracing::info!(
                schema = found,
                known = latest,
                "a later release has migrated the store; this one may go on working on it"
            );
        }
        if found >= latest {
            return Ok(());
        }
        if migrate == Migrate::No {
            return Err(OpenError::NeedsMigration { found, needed: latest });
        }
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
        // Somebody else may have been here.
        let found = schema_of(&transaction, path, file_use, latest)?;
        let Some(migration) = known.get(found as usize) else { continue };
        transaction.execute_batch(migration.sql).map_err(sqlite)?;
        if transaction.query_row(HAS_PLACE, [], |row| row.get::<_, i64>(0)).map_err(sqlite)? == 0 {
            transaction.execute_batch(PLACE).map_err(sqlite)?;
        }
        transaction.execute(SET_SCHEMA, [found + 1, migration.min_reader]).map_err(sqlite)?;
        if file_use == FileUse::Own {
            transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sqlite)?;
        }
        transaction.commit().map_err(sqlite)?;
        tracing::info!(schema = found + 1, "the store was migrated");
    }
}

/// The schema that the connection sees: 0 where there is none yet; an error for a database that is not ours to use, or
/// of a later release that lets no release of schema `latest` work on it.
fn schema_of(connection: &Connection, path: &Path, file_use: FileUse, latest: u32) -> Result<u32, OpenError> {
    let sqlite = |error: rusqlite::Error| OpenError::sqlite(path, &error);
    let (tables, ours): (i64, Option<i64>) =
        connection.query_row(TABLES, [], |row| Ok((row.get(0)?, row.get(1)?))).map_err(sqlite)?;
    if ours.unwrap_or(0) == 0 {
        return if tables == 0 || file_use == FileUse::Shared {
            Ok(0)
        } else {
            Err(OpenError::Foreign(path.to_owned()))
        };
    }
    let (found, min_reader) = versions(connection).map_err(sqlite)?;
    if found > latest && min_reader > latest {
        return Err(OpenError::Newer { path: path.to_owned(), found, min_reader, known: latest });
    }
    Ok(found)
}

/// The schema of a store, and the oldest whose release may work on it.
pub(crate) fn versions(connection: &Connection) -> rusqlite::Result<(u32, u32)> {
    let mut statement = connection.prepare(SCHEMA)?;
    let place = statement.column_index("min_reader").ok();
    let number = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    statement.query_row([], |row| {
        let found = number(row.get("version")?);
        let min_reader = place.map(|place| row.get::<_, Option<i64>>(place)).transpose()?.flatten();
        Ok((found, min_reader.map_or(found, number)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_run_once_and_end_at_the_latest_schema() {
        let mut connection = Connection::open_in_memory().unwrap();
        let path = Path::new("memory");
        run(&mut connection, path, Migrate::Yes, FileUse::Own, &MIGRATIONS).unwrap();
        assert_eq!(versions(&connection).unwrap(), (LATEST, 1));
        run(&mut connection, path, Migrate::No, FileUse::Own, &MIGRATIONS).unwrap();
    }

    #[test]
    fn an_empty_database_is_left_empty_when_migrating_is_off() {
        let mut connection = Connection::open_in_memory().unwrap();
        let error =
            run(&mut connection, Path::new("memory"), Migrate::No, FileUse::Own, &MIGRATIONS).unwrap_err();
        assert!(error.to_string().contains("onefold store migrate"), "{error}");
        assert!(matches!(error, OpenError::NeedsMigration { found: 0, .. }));
    }
}
