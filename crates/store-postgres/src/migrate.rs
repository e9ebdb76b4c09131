//! The schema `onefold`, as the sum of its migrations.
//!
//! Each migration is one file and one transaction that also notes its number; a crash leaves the schema before it or
//! after it. Gateways that migrate at once wait for each other by a lock that ends with the transaction, and the
//! second finds nothing to do. Migrations only go forward.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient, IsolationLevel, Transaction};

use crate::OpenError;
use crate::error::Failed;
use crate::server::Server;

/// The migrations, in order; the first makes schema 1.
const MIGRATIONS: [&str; 3] = [
    include_str!("../migrations/0001_operations.sql"),
    include_str!("../migrations/0002_library.sql"),
    include_str!("../migrations/0003_messages.sql"),
];

/// The schema of this release.
pub(crate) const LATEST: u32 = MIGRATIONS.len() as u32;

/// The lock of whoever changes the schema or the secret; any number that nobody else uses.
const ALONE_LOCK: i64 = 0x4F6E_6566_0000_0000;

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
/// NULL: there is no such table. The last: another's schema of the same name.
const FOUND: &str =
    "SELECT to_regclass('onefold.migrations') IS NOT NULL, to_regnamespace('onefold') IS NOT NULL
    AND to_regclass('onefold.migrations') IS NULL AND EXISTS (
        SELECT FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace('onefold'))";
const SCHEMA: &str = "SELECT max(version) FROM onefold.migrations";
const FIRST: &str = "CREATE SCHEMA IF NOT EXISTS onefold;
    CREATE TABLE onefold.migrations (
        version integer PRIMARY KEY,
        at      timestamptz NOT NULL DEFAULT clock_timestamp()
    );";
const NOTE: &str = "INSERT INTO onefold.migrations (version) VALUES ($1)";

/// Whether an old or absent schema is brought to the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Migrate {
    /// It is.
    Yes,
    /// It is an error.
    No,
}

/// Brings the schema to the latest.
pub(crate) async fn run(server: &Server, migrate: Migrate) -> Result<(), OpenError> {
    let mut connection = server.connection().await?;
    loop {
        let found = schema_of(&**connection).await?;
        if found == LATEST {
            return Ok(());
        }
        if migrate == Migrate::No {
            return Err(OpenError::NeedsMigration { found, needed: LATEST });
        }
        let transaction = alone(&mut connection).await?;
        // Somebody else may have been here.
        let found = schema_of(&transaction).await?;
        let Some(sql) = MIGRATIONS.get(found as usize) else { continue };
        if found == 0 {
            transaction.batch_execute(FIRST).await.map_err(said)?;
        }
        transaction.batch_execute(sql).await.map_err(said)?;
        let version = i32::try_from(found + 1).expect("migrations are few");
        transaction.query_typed(NOTE, &[(&version, Type::INT4)]).await.map_err(said)?;
        commit(transaction).await?;
        tracing::info!(schema = found + 1, "the store was migrated");
    }
}

/// A transaction that nobody else of this kind runs at the same time, in this database.
pub(crate) async fn alone(connection: &mut Client) -> Result<Transaction<'_>, OpenError> {
    // Each statement must see what the one before in line has committed.
    let transaction = connection
        .build_transaction()
        .isolation_level(IsolationLevel::ReadCommitted)
        .start()
        .await
        .map_err(said)?;
    transaction.query_typed(LOCK, &[(&ALONE_LOCK, Type::INT8)]).await.map_err(said)?;
    Ok(transaction)
}

/// Commits. A server answers the commit of a transaction in which a statement had failed with "rolled back" and no
/// error; so every statement before it must have been believed, and none may be sent after an error.
pub(crate) async fn commit(transaction: Transaction<'_>) -> Result<(), OpenError> {
    // An aborted transaction takes no further statement, and says so.
    transaction.query_typed("SELECT 1", &[]).await.map_err(said)?;
    transaction.commit().await.map_err(said)
}

/// The schema that the connection sees: 0 for none, an error for one that is not ours.
pub(crate) async fn schema_of(client: &impl GenericClient) -> Result<u32, OpenError> {
    let rows = client.query_typed(FOUND, &[]).await.map_err(said)?;
    let (ours, foreign): (bool, bool) = rows.first().map_or((false, false), |row| (row.get(0), row.get(1)));
    if foreign {
        return Err(OpenError::Foreign);
    }
    if !ours {
        return Ok(0);
    }
    let rows = client.query_typed(SCHEMA, &[]).await.map_err(said)?;
    let found: Option<i32> = rows.first().and_then(|row| row.get(0));
    let found = found.map_or(0, |found| u32::try_from(found).unwrap_or(u32::MAX));
    if found > LATEST { Err(OpenError::Newer { found, known: LATEST }) } else { Ok(found) }
}

fn said(error: tokio_postgres::Error) -> OpenError {
    Failed::of(&error).into()
}
