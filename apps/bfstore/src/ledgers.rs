//! Reading the services' databases beside them, whatever these are: the rows of a query as lines of text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::ground::{self, Ground};
use crate::services::NAMES;

/// How long a query waits for a database that is being written.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);

/// What stands in the layer's tables, under names and in words that both databases have: `{operations}` in a query, and so
/// on.
const LAYER: [(&str, Query<'static>); 4] = [
    (
        "{operations}",
        Query {
            sqlite: "(SELECT operation, key, correlation_id, state FROM onefold_operations
                JOIN onefold_outcomes USING (seq)) AS operations",
            postgres: "(SELECT convert_from(operation, 'UTF8') AS operation, convert_from(key, 'UTF8') AS key,
                convert_from(correlation_id, 'UTF8') AS correlation_id, state FROM onefold.operations) AS operations",
        },
    ),
    (
        "{inbox}",
        Query {
            sqlite: "(SELECT consumer, source, message, handler, state, round, duplicates FROM onefold_inbox) AS inbox",
            postgres: "(SELECT convert_from(consumer, 'UTF8') AS consumer, convert_from(source, 'UTF8') AS source,
                convert_from(message, 'UTF8') AS message, convert_from(handler, 'UTF8') AS handler, state, round,
                duplicates FROM onefold.inbox) AS inbox",
        },
    ),
    (
        "{effects}",
        Query {
            sqlite: "(SELECT key FROM onefold_effects) AS effects",
            postgres: "(SELECT convert_from(key, 'UTF8') AS key FROM onefold.effects) AS effects",
        },
    ),
    (
        "{projections}",
        Query {
            sqlite: "(SELECT entity, version FROM onefold_projections) AS projections",
            postgres: "(SELECT convert_from(entity, 'UTF8') AS entity, version FROM onefold.projections) AS projections",
        },
    ),
];

/// Every service's database.
pub struct Ledgers(BTreeMap<&'static str, Ledger>);

enum Ledger {
    Sqlite(PathBuf),
    Postgres(Client),
}

/// A query or a change, in the words of either database.
#[derive(Clone, Copy, Debug)]
pub struct Query<'q> {
    pub(crate) sqlite: &'q str,
    pub(crate) postgres: &'q str,
}

impl<'q> From<&'q str> for Query<'q> {
    /// In words that both understand.
    fn from(sql: &'q str) -> Query<'q> {
        Query { sqlite: sql, postgres: sql }
    }
}

impl Ledgers {
    /// Those on this ground, with files in this folder.
    pub async fn at(ground: &Ground, folder: &Path) -> anyhow::Result<Ledgers> {
        let mut ledgers = BTreeMap::new();
        for name in NAMES {
            let url = ground.database(name, folder)?;
            let ledger = match url.strip_prefix("sqlite:") {
                Some(path) => Ledger::Sqlite(path.into()),
                None => Ledger::Postgres(ground::client(&url).await?),
            };
            ledgers.insert(name, ledger);
        }
        Ok(Ledgers(ledgers))
    }

    /// The rows of a query at a service's database, each as one line.
    pub async fn ask(&self, service: &str, query: impl Into<Query<'_>>) -> anyhow::Result<Vec<String>> {
        let query = query.into();
        match self.of_service(service)? {
            Ledger::Sqlite(path) => rows(path, &told(query.sqlite, |layer| layer.sqlite)),
            Ledger::Postgres(client) => {
                let answers = client.simple_query(&told(query.postgres, |layer| layer.postgres)).await?;
                let lines = answers.iter().filter_map(|answer| match answer {
                    SimpleQueryMessage::Row(row) => {
                        let cells: Vec<&str> =
                            (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect();
                        Some(cells.join(" "))
                    }
                    _ => None,
                });
                Ok(lines.collect())
            }
        }
    }

    /// The number that a query has as its first row.
    pub async fn count(&self, service: &str, query: impl Into<Query<'_>>) -> anyhow::Result<u64> {
        let lines = self.ask(service, query).await?;
        Ok(lines.first().context("nothing was counted")?.parse()?)
    }

    /// Changes a database behind its service's back.
    pub(crate) async fn change(&self, service: &str, change: impl Into<Query<'_>>) -> anyhow::Result<()> {
        let change = change.into();
        match self.of_service(service)? {
            Ledger::Sqlite(path) => {
                let database = Connection::open(path)?;
                database.busy_timeout(LOCK_WAIT_MAX)?;
                database.execute_batch(change.sqlite)?;
            }
            Ledger::Postgres(client) => client.batch_execute(change.postgres).await?,
        }
        Ok(())
    }

    fn of_service(&self, service: &str) -> anyhow::Result<&Ledger> {
        self.0.get(service).with_context(|| format!("{service} has no database"))
    }
}

/// The query with the layer's tables as one database has them.
fn told(sql: &str, of: fn(&Query<'static>) -> &'static str) -> String {
    LAYER.iter().fold(sql.to_owned(), |sql, (name, layer)| sql.replace(name, of(layer)))
}

/// The rows of a query at a file, each as one line.
fn rows(path: &Path, sql: &str) -> anyhow::Result<Vec<String>> {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    database.busy_timeout(LOCK_WAIT_MAX)?;
    let mut statement = database.prepare(sql)?;
    let columns = statement.column_count();
    let line = |row: &Row<'_>| {
        let cells: rusqlite::Result<Vec<String>> =
            (0..columns).map(|at| Ok(cell(row.get_ref(at)?))).collect();
        Ok(cells?.join(" "))
    };
    Ok(statement.query_map([], line)?.collect::<Result<_, _>>()?)
}

fn cell(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Null => "NULL".into(),
        other => format!("{other:?}"),
    }
}
