//! The schema, as the sum of its migrations.
//!
//! Each migration is one file and one transaction that also moves `user_version`; a crash leaves the schema before
//! it or after it. Two processes that migrate at once wait for each other, and the second finds nothing to do.
//! Migrations only go forward.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::OpenError;
use crate::header::APPLICATION_ID;

/// The migrations, in order; the first makes schema 1.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_operations.sql")];

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

/// Brings the schema to the latest.
pub(crate) fn run(connection: &mut Connection, path: &Path, migrate: Migrate) -> Result<(), OpenError> {
    let sqlite = |error: rusqlite::Error| OpenError::sqlite(path, &error);
    while schema_of(connection, path)? < LATEST {
        if migrate == Migrate::No {
            return Err(needs_migration(schema_of(connection, path)?));
        }
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sqlite)?;
        let found = schema_of(&transaction, path)?;
        if let Some(sql) = MIGRATIONS.get(found as usize) {
            transaction.execute_batch(sql).map_err(sqlite)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(sqlite)?;
            transaction.pragma_update(None, "user_version", found + 1).map_err(sqlite)?;
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
pub(crate) fn check_known(found: u32) -> Result<(), OpenError> {
    if found > LATEST { Err(OpenError::Newer { found, known: LATEST }) } else { Ok(()) }
}

/// The schema that the connection sees: 0 for an empty database, an error for one that is not ours.
fn schema_of(connection: &Connection, path: &Path) -> Result<u32, OpenError> {
    let number = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .map_err(|error| OpenError::sqlite(path, &error))
    };
    if number("PRAGMA application_id")? != i64::from(APPLICATION_ID) {
        return match number("SELECT count(*) FROM sqlite_schema")? {
            0 => Ok(0),
            _ => Err(OpenError::Foreign(path.to_owned())),
        };
    }
    let found = u32::try_from(number("PRAGMA user_version")?).unwrap_or(u32::MAX);
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
        run(&mut connection, path, Migrate::Yes).unwrap();
        assert_eq!(schema_of(&connection, path).unwrap(), LATEST);
        run(&mut connection, path, Migrate::No).unwrap();
    }

    #[test]
    fn an_empty_database_is_left_empty_when_migrating_is_off() {
        let mut connection = Connection::open_in_memory().unwrap();
        let error = run(&mut connection, Path::new("memory"), Migrate::No).unwrap_err();
        assert!(error.to_string().contains("onefold store migrate"), "{error}");
        assert!(matches!(error, OpenError::NeedsMigration { found: 0, .. }));
    }
}
