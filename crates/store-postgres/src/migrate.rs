//! The schema `onefold`, as the sum of its migrations.
//!
//! Each migration is one file and one transaction that also notes its number; a crash leaves the schema before it or
//! after it. Gateways that migrate at once wait for each other by a lock that ends with the transaction, and the
//! second finds nothing to do. Migrations only go forward.
//!
//! Whoever comes to a table later waits behind a migration that waits for it. So a migration waits for a moment, lets the
//! others pass, and comes back, until its time is over; then it says who held the tables.
//!
//! Each migration also says, and leaves in the database, which older releases may go on working on the store once it
//! has run (decision 0016). A release opens a later schema where that says so, and refuses it otherwise.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient, IsolationLevel, Transaction};

use crate::OpenError;
use crate::error::Failed;
use crate::server::Server;

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
const MIGRATIONS: [Migration; 7] = [
    Migration { sql: include_str!("../migrations/0001_operations.sql"), min_reader: 1 },
    // Not 1: a process of schema 1 that begins a failed operation again leaves the steps of its earlier life.
    Migration { sql: include_str!("../migrations/0002_library.sql"), min_reader: 2 },
    // Tables and functions of their own.
    Migration { sql: include_str!("../migrations/0003_messages.sql"), min_reader: 2 },
    // A function beside the one that earlier releases call.
    Migration { sql: include_str!("../migrations/0004_outbox_bytes.sql"), min_reader: 2 },
    // Takes a check away that all releases keep to, and lets a function hand more cases to the look behind it.
    Migration { sql: include_str!("../migrations/0005_hot_paths.sql"), min_reader: 2 },
    // Columns; what an older release writes beside them is recognised by the version that they belong to.
    Migration { sql: include_str!("../migrations/0006_rounds.sql"), min_reader: 2 },
    // Functions that keep their meaning.
    Migration { sql: include_str!("../migrations/0007_outbox_rows.sql"), min_reader: 2 },
];

/// The schema of this release.
pub(crate) const LATEST: u32 = MIGRATIONS.len() as u32;

/// The lock of whoever changes the schema or the secret; any number that nobody else uses.
const ALONE_LOCK: i64 = 0x4F6E_6566_0000_0000;

const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
/// Whoever comes later to a table waits behind a migration that waits for it: no longer than a slow commit.
const WAIT: &str = "SET LOCAL lock_timeout = '300ms'";
/// The pause until it waits again: long enough that whoever waited behind it is done, and short enough to find the gaps
/// between the transactions of a dump.
const PAUSE: Duration = Duration::from_millis(700);
/// Who has held tables of the schema for longer than a migration waits. Nobody's statements, which may hold anything.
/// Since when, others' sessions tell only a member of `pg_read_all_stats`.
const HOLDERS: &str = "SELECT string_agg(DISTINCT CASE WHEN l.pid IS NULL THEN 'a prepared transaction' ELSE
        format('%s of user %s, process %s%s', coalesce(nullif(a.application_name, ''), 'a session'),
            coalesce(a.usename::text, '?'), l.pid, coalesce(', for '
            || floor(extract(epoch FROM clock_timestamp() - a.xact_start))::bigint::text || ' s', '')) END, '; ')
    FROM pg_locks l JOIN pg_class c ON c.oid = l.relation AND c.relnamespace = to_regnamespace('onefold')
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
    AND coalesce(a.xact_start < clock_timestamp() - interval '300 ms', true)
    AND l.database = (
        SELECT oid FROM pg_database WHERE datname = current_database())";
/// NULL: there is no such table. The last: another's schema of the same name.
const FOUND: &str =
    "SELECT to_regclass('onefold.migrations') IS NOT NULL, to_regnamespace('onefold') IS NOT NULL
    AND to_regclass('onefold.migrations') IS NULL AND EXISTS (
        SELECT FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace('onefold'))";
/// The schema, the oldest whose release may work on it, and where it is. A migration that says nothing of older
/// releases, because it was run before there was a place for that, is not for them. Read as JSON, since the column
/// may be missing.
const SCHEMA: &str = "SELECT max(m.version),
    max(coalesce((to_jsonb(m) ->> 'min_reader'::text)::integer, m.version)), current_database()::text
    FROM onefold.migrations m";
const FIRST: &str = "CREATE SCHEMA IF NOT EXISTS onefold;
    CREATE TABLE onefold.migrations (
        version integer PRIMARY KEY,
        at      timestamptz NOT NULL DEFAULT clock_timestamp()
    );";
const PLACE: &str = "ALTER TABLE onefold.migrations ADD COLUMN IF NOT EXISTS min_reader integer";
const NOTE: &str = "INSERT INTO onefold.migrations (version, min_reader) VALUES ($1, $2)";

/// Whether an old or absent schema is brought to the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Migrate {
    /// It is.
    Yes,
    /// It is an error.
    No,
}

/// The migrations of this release, and the one of a later release that a test makes up.
pub(crate) fn known(test: Option<Migration>) -> Vec<Migration> {
    MIGRATIONS.into_iter().chain(test).collect()
}

/// Brings the schema to the latest that is known. One of a later release that lets this one work on it is left as it
/// is. Tables that somebody else holds are waited for as long as `wait_max`.
pub(crate) async fn run(
    server: &Server,
    migrate: Migrate,
    known: &[Migration],
    wait_max: Duration,
) -> Result<(), OpenError> {
    let mut waits_since = None;
    let mut connection = server.connection().await?;
    let latest = u32::try_from(known.len()).expect("migrations are few");
    loop {
        let found = schema_of(&**connection, latest).await?;
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
        let transaction = alone(&mut connection).await?;
        // Somebody else may have been here.
        let found = schema_of(&transaction, latest).await?;
        let Some(migration) = known.get(found as usize) else { continue };
        match change(&transaction, found, *migration).await {
            Ok(()) => {
                commit(transaction).await?;
                tracing::info!(schema = found + 1, "the store was migrated");
            }
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                transaction.rollback().await.map_err(said)?;
                let by = holders(&**connection).await?;
                let waited = waits_since.get_or_insert_with(Instant::now).elapsed();
                if waited >= wait_max {
                    return Err(OpenError::Held { waited_s: waited.as_secs(), by });
                }
                tracing::info!(%by, "a migration waits for tables that are held");
                sleep(PAUSE).await;
            }
            Err(error) => return Err(said(error)),
        }
    }
}

/// Carries out the migration of this schema, and notes it.
async fn change(
    transaction: &Transaction<'_>,
    found: u32,
    migration: Migration,
) -> Result<(), tokio_postgres::Error> {
    transaction.batch_execute(WAIT).await?;
    if found == 0 {
        transaction.batch_execute(FIRST).await?;
    }
    transaction.batch_execute(PLACE).await?;
    transaction.batch_execute(migration.sql).await?;
    let number = |number: u32| i32::try_from(number).expect("migrations are few");
    let (version, min_reader) = (number(found + 1), number(migration.min_reader));
    transaction.query_typed(NOTE, &[(&version, Type::INT4), (&min_reader, Type::INT4)]).await?;
    Ok(())
}

/// Who holds tables of the schema now, in words.
async fn holders(client: &impl GenericClient) -> Result<String, OpenError> {
    let rows = client.query_typed(HOLDERS, &[]).await.map_err(said)?;
    let named = rows.first().and_then(|row| row.get::<_, Option<String>>(0));
    Ok(named.unwrap_or_else(|| "somebody who has just let go".to_owned()))
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

/// The schema that the connection sees: 0 for none; an error for one that is not ours, or of a later release that
/// lets no release of schema `latest` work on it.
pub(crate) async fn schema_of(client: &impl GenericClient, latest: u32) -> Result<u32, OpenError> {
    let rows = client.query_typed(FOUND, &[]).await.map_err(said)?;
    let (ours, foreign): (bool, bool) = rows.first().map_or((false, false), |row| (row.get(0), row.get(1)));
    if foreign {
        return Err(OpenError::Foreign);
    }
    if !ours {
        return Ok(0);
    }
    let rows = client.query_typed(SCHEMA, &[]).await.map_err(said)?;
    let Some(row) = rows.first() else { return Ok(0) };
    let number =
        |column| row.get::<_, Option<i32>>(column).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let (found, min_reader) = (number(0).unwrap_or(0), number(1).unwrap_or(0));
    if found > latest && min_reader > latest {
        return Err(OpenError::Newer { database: row.get(2), found, min_reader, known: latest });
    }
    Ok(found)
}

fn said(error: tokio_postgres::Error) -> OpenError {
    Failed::of(&error).into()
}
