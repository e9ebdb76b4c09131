//! The schema, as the sum of its migrations.
//!
//! Each migration is one file and one transaction that also moves the version in `onefold_schema`, a table of our own,
//! because a file that is shared with a service has a `user_version` of its own; a crash leaves the schema before it or
//! after it. Two processes that migrate at once wait for each other, and the second finds nothing to do.
//! Migrations only go forward.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::header::APPLICATION_ID;
use crate::{FileUse, OpenError};

/// The migrations, in order; the first makes schema 1.
const MIGRATIONS: [&str; 2] =
    [include_str!("../migrations/0001_operations.sql"), include_str!("../migrations/0002_messages.sql")];

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

const SCHEMA: &str = "SELECT version FROM onefold_schema WHERE one = 1";
const SET_SCHEMA: &str = "UPDATE onefold_schema SET version = ?1 WHERE one = 1";
const TABLES: &str = "SELECT count(*), sum(name = 'onefold_schema') FROM sqlite_schema";

#[cfg(test)]
pub(crate) const SQL: &[&str] = &[SCHEMA, SET_SCHEMA, TABLES];

/// Brings the schema to the latest.
pub(crate) fn run(
    connection: &mut Connection,
    path: &Path,
    migrate: Migrate,
    file_use: FileUse,
) -> Result<(), OpenError> {
    let sqlite = |error: rusqlite::Error| OpenError::sqlite(path, &error);
    while schema_of(connection, path, file_use)? < LATEST {
        if migrate == Migrate::No {
            return Err(needs_migration(schema_of(connection, path, file_use)?));
        }
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
        let found = schema_of(&transaction, path, file_use)?;
        if let Some(sql) = MIGRATIONS.get(found as usize) {
            transaction.execute_batch(sql).map_err(sqlite)?;
            transaction.execute(SET_SCHEMA, [found + 1]).map_err(sqlite)?;
            if file_use == FileUse::Own {
                transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sqlite)?;
            }
            transaction.commit().map_err(sqlite)?;
            tracing::info!(schema = found + 1, "the store was migrated");
        }
    }
    Ok(())
}

/// The error for a schema that is not the latest.
pub(crate) fn needs_migration(found: u32) -> OpenError {
    OpenError::NeedsMigration { found, needed: LATEST }
}

/// The error for a schema of a later release.
fn check_known(found: u32) -> Result<(), OpenError> {
    if found > LATEST { Err(OpenError::Newer { found, known: LATEST }) } else { Ok(()) }
}

/// The schema that the connection sees: 0 where there is none yet, an error for a database that is not ours to use.
fn schema_of(connection: &Connection, path: &Path, file_use: FileUse) -> Result<u32, OpenError> {
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
    let found: i64 = connection.query_row(SCHEMA, [], |row| row.get(0)).map_err(sqlite)?;
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    check_known(found)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_run_once_and_end_at_the_latest_schema() {
        let mut connection = Connection::open_in_memory().unwrap();
        let path = Path::new("memory");
        run(&mut connection, path, Migrate::Yes, FileUse::Own).unwrap();
        assert_eq!(schema_of(&connection, path, FileUse::Own).unwrap(), LATEST);
        run(&mut connection, path, Migrate::No, FileUse::Own).unwrap();
    }

    #[test]
    fn an_empty_database_is_left_empty_when_migrating_is_off() {
        let mut connection = Connection::open_in_memory().unwrap();
        let error = run(&mut connection, Path::new("memory"), Migrate::No, FileUse::Own).unwrap_err();
        assert!(error.to_string().contains("onefold store migrate"), "{error}");
        assert!(matches!(error, OpenError::NeedsMigration { found: 0, .. }));
    }
}
