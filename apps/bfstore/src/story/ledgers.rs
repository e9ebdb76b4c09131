//! Reading the services' databases beside them, whatever these are: the rows of a query as lines of text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::ground;
use crate::services::NAMES;
use crate::stage::Stage;

/// How long a query waits for a database that is being written.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);

/// Every service's database.
pub struct Ledgers(BTreeMap<&'static str, Ledger>);

enum Ledger {
    Sqlite(PathBuf),
    Postgres(Client),
}

/// A query, where the databases need it in words of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query {
    pub(super) sqlite: &'static str,
    pub(super) postgres: &'static str,
}

impl Query {
    /// One that both understand.
    pub(super) const fn both(sql: &'static str) -> Query {
        Query { sqlite: sql, postgres: sql }
    }
}

impl Ledgers {
    /// Those of a stage that runs.
    pub async fn of(stage: &Stage) -> anyhow::Result<Ledgers> {
        let mut ledgers = BTreeMap::new();
        for name in NAMES {
            let url = stage.ground().database(name, stage.folder())?;
            let ledger = match url.strip_prefix("sqlite:") {
                Some(path) => Ledger::Sqlite(path.into()),
                None => Ledger::Postgres(ground::client(&url).await?),
            };
            ledgers.insert(name, ledger);
        }
        Ok(Ledgers(ledgers))
    }

    /// The rows of a query at a service's database, each as one line.
    pub async fn lines(&self, service: &str, sql: &'static str) -> anyhow::Result<Vec<String>> {
        self.ask(service, Query::both(sql)).await
    }

    /// The number that a query has as its first row.
    pub async fn count(&self, service: &str, sql: &'static str) -> anyhow::Result<u64> {
        self.counted(service, Query::both(sql)).await
    }

    pub(super) async fn counted(&self, service: &str, query: Query) -> anyhow::Result<u64> {
        let lines = self.ask(service, query).await?;
        Ok(lines.first().context("nothing was counted")?.parse()?)
    }

    pub(super) async fn ask(&self, service: &str, query: Query) -> anyhow::Result<Vec<String>> {
        match self.0.get(service).with_context(|| format!("{service} has no database"))? {
            Ledger::Sqlite(path) => rows(&opened(path)?, query.sqlite),
            Ledger::Postgres(client) => {
                let answers = client.simple_query(query.postgres).await?;
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
}

/// A service's file in a stage's folder, to read from.
pub(crate) fn open(folder: &Path, service: &str) -> anyhow::Result<Connection> {
    opened(&folder.join(format!("{service}.db")))
}

fn opened(path: &Path) -> anyhow::Result<Connection> {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    database.busy_timeout(LOCK_WAIT_MAX)?;
    Ok(database)
}

/// The rows of a query at a file, each as one line.
pub(crate) fn rows(database: &Connection, sql: &str) -> anyhow::Result<Vec<String>> {
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
