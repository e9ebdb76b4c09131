//! `postgres`: claim and settle in the PostgreSQL store, beside a plain insert of equal bytes on connections of their
//! own; and what each writes to the server's log.
//!
//! The two take turns on one database of their own, over a table that already holds so many records, and each begins
//! after a checkpoint: the first touch of a page writes all of it to the log, which is what random keys cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use onefold_store::OperationStore;
use onefold_store_postgres::{Address, Options, PostgresStore};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::args::{Postgres, Settings};
use crate::figure::Figure;
use crate::filled::{drop_all, fresh, id};
use crate::report::Report;
use crate::store::rate;

pub(crate) const DATABASE: &str = "onefold_bench";
const HEADER: [&str; 8] = [
    "tasks",
    "store, operations a second",
    "jobs a statement",
    "store, log bytes an operation",
    "plain insert, operations a second",
    "plain, log bytes",
    "ratio",
    "log bytes above plain",
];

/// Measures and prints.
pub(crate) fn run(settings: &Settings, postgres: &Postgres) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::new("postgres", 1, &HEADER);
    report.about(settings.told());
    report.about(format!(
        "{} records stand in the table before; a checkpoint before each measurement",
        postgres.rows
    ));
    report.about("an operation of the store is a claim, committed, then a result, committed; a plain one is one row of as many bytes, committed, by a prepared statement on each task's own connection");
    let mut measured: Vec<_> = settings.connections.iter().map(|tasks| Measured::new(*tasks)).collect();
    for repeat in 1..=settings.repeats {
        eprintln!("postgres: repeat {repeat} of {}", settings.repeats);
        for measured in &mut measured {
            measured.measure(&runtime, settings, postgres)?;
        }
    }
    runtime.block_on(drop_all(postgres))?;
    for measured in &measured {
        measured.report(&mut report);
    }
    report.print(settings.output);
    Ok(report)
}

/// The samples of one number of tasks.
struct Measured {
    tasks: u32,
    store: Vec<f64>,
    jobs: Vec<f64>,
    store_log: Vec<f64>,
    plain: Vec<f64>,
    plain_log: Vec<f64>,
}

impl Measured {
    fn new(tasks: u32) -> Measured {
        Measured { tasks, store: vec![], jobs: vec![], store_log: vec![], plain: vec![], plain_log: vec![] }
    }

    fn measure(&mut self, runtime: &Runtime, settings: &Settings, postgres: &Postgres) -> Result<()> {
        let url = runtime.block_on(fresh(postgres, settings.keys_kind))?;
        let (id, rows) = (id(settings.keys_kind), postgres.rows);
        let plain = format!(
            "CREATE TABLE plain (id bytea PRIMARY KEY, rest bytea NOT NULL);
            INSERT INTO plain SELECT {id}, decode(repeat('72', 700), 'hex') FROM generate_series(1, {rows}) n;"
        );
        runtime.block_on(sql(&url, &plain))?;
        let before = runtime.block_on(checkpoint(&url))?;
        let mut clients = Vec::new();
        for _ in 0..self.tasks {
            clients.push(Arc::new(runtime.block_on(connect(&url))?));
        }
        let statement = "INSERT INTO plain (id, rest) VALUES ($1, $2)";
        let prepared: Vec<_> = clients
            .iter()
            .map(|client| Ok((client.clone(), runtime.block_on(client.prepare(statement))?)))
            .collect::<Result<_>>()?;
        let (prepared, next) = (Arc::new(prepared), Arc::new(AtomicUsize::new(0)));
        self.plain.push(rate(runtime, self.tasks, settings, move |pair| {
            let (client, statement) = prepared[next.fetch_add(1, Ordering::Relaxed) % prepared.len()].clone();
            async move {
                let (id, rest) = pair.row();
                client.execute(&statement, &[&id.as_slice(), &rest]).await?;
                Ok(())
            }
        })?);
        let made = "SELECT count(*) - (SELECT count(*) FROM onefold.operations) FROM plain";
        let per = runtime.block_on(log_since(&url, &before, made))?;
        self.plain_log.push(per);
        let before = runtime.block_on(checkpoint(&url))?;
        let store = runtime.block_on(PostgresStore::open(&Address::parse(&url)?, Options::default()))?;
        let store = Arc::new(store);
        let own = store.clone();
        self.store.push(rate(runtime, self.tasks, settings, move |pair| {
            let store = own.clone();
            async move { pair.perform(&*store as &dyn OperationStore).await }
        })?);
        let made = format!("SELECT count(*) - {} FROM onefold.operations", postgres.rows);
        self.store_log.push(runtime.block_on(log_since(&url, &before, &made))?);
        let stats = store.stats();
        self.jobs.push(stats.jobs as f64 / stats.batches.max(1) as f64);
        Ok(())
    }

    fn report(&self, report: &mut Report) {
        let pairs = |one: &[f64], other: &[f64], of: fn(f64, f64) -> f64| -> Vec<f64> {
            one.iter().zip(other).map(|(one, other)| of(*one, *other)).collect()
        };
        let figure = |of: &str, repeats: &[f64]| Figure::of(format!("{}/{of}", self.tasks), repeats);
        let figures = [
            figure("store/per_s", &self.store),
            figure("store/jobs_a_statement", &self.jobs),
            figure("store/log_bytes", &self.store_log),
            figure("plain/per_s", &self.plain),
            figure("plain/log_bytes", &self.plain_log),
            figure("ratio", &pairs(&self.store, &self.plain, |store, plain| store / plain)),
            figure("log_bytes_above", &pairs(&self.store_log, &self.plain_log, |store, plain| store - plain)),
        ];
        let mut cells = vec![self.tasks.to_string()];
        cells.extend(figures.iter().map(Figure::shown));
        report.row(cells, figures);
    }
}

/// A new, empty database.
pub(crate) async fn database(server: &str) -> Result<String> {
    sql(server, &format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")).await?;
    sql(server, &format!("CREATE DATABASE {DATABASE}")).await?;
    Ok(format!("{}/{DATABASE}", server.trim_end_matches('/')))
}

/// Where the log stands after a checkpoint.
pub(crate) async fn checkpoint(url: &str) -> Result<String> {
    sql(url, "CHECKPOINT").await?;
    sql(url, "SELECT pg_current_wal_insert_lsn()").await
}

/// Bytes of the log for each operation since.
pub(crate) async fn log_since(url: &str, before: &str, operations: &str) -> Result<f64> {
    let bytes = sql(url, &format!("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{before}')")).await?;
    let operations: f64 = sql(url, operations).await?.parse()?;
    Ok(bytes.parse::<f64>()? / operations.max(1.0))
}

pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("connect")?;
    tokio::spawn(connection);
    Ok(client)
}

/// Carries out SQL; the first column of the first row, if there is one.
pub(crate) async fn sql(url: &str, sql: &str) -> Result<String> {
    let client = connect(url).await?;
    let done = client.simple_query(sql).await.with_context(|| sql.to_owned())?;
    let first = done.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
        _ => None,
    });
    Ok(first.unwrap_or_default())
}
