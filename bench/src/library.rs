//! `library`: a service's transaction in atomic mode, beside the same transaction without idempotency; replays; and a
//! hot key.
//!
//! The two take turns on one database, over tables that already hold so many records, each after a checkpoint. Both
//! send unnamed statements over connections of this process: the plain one `BEGIN`, one insert, `COMMIT`, one after
//! the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use onefold_core::IdentityKey;
use onefold_engine::{AtomicEngine, Limits};
use onefold_store::OperationStore;
use onefold_store_postgres::{Address, Options, PostgresStore, PostgresWork};
use onefold_store_sqlite::{FileUse, SqliteStore, SqliteWork};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_postgres::types::Type;

use crate::args::{Postgres, Settings};
use crate::figure::{Figure, Goal};
use crate::filled::{drop_all, fresh};
use crate::keys::KeyMaker;
use crate::library_calls::{Order, Orders, Sample, TABLE, measure, perform, perform_again, placed};
use crate::library_sqlx;
use crate::postgres::{checkpoint, connect, log_since, sql};
use crate::report::Report;

const HEADER: [&str; 9] = [
    "store",
    "tasks",
    "plain, orders a second",
    "atomic, orders a second",
    "ratio",
    "p99 ratio",
    "log bytes above plain",
    "replays a second",
    "hot key, rounds a second",
];
/// Tasks at which the goals are set.
const GOAL_TASKS: [u32; 2] = [16, 64];
const RATIO_MIN: f64 = 0.85;
/// Through sqlx, which cannot pipeline.
const RATIO_MIN_SQLX: f64 = 0.65;
const P99_MAX: f64 = 1.5;
const LOG_BYTES_MAX: f64 = 1150.0;
/// Keys that replays choose from.
const USED: usize = 2000;
/// Connections of a pool that closures leave to everybody else.
const LEFT_BY_CLOSURES: usize = 5;
/// Callers of one hot key, and how often a new key is hot.
const HOT_CALLERS: usize = 64;
const HOT_ROUNDS: usize = 50;

const INSERT: &str = "INSERT INTO orders (id, basket) VALUES ($1, $2)";
const INSERT_SQLITE: &str = "INSERT INTO orders (id, basket) VALUES (?1, ?2)";

/// Measures and prints.
pub(crate) fn run(settings: &Settings, postgres: &Postgres) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::new("library", 1, &HEADER);
    report.about(settings.told());
    report.about(format!("{} records stand in PostgreSQL's table before, none in SQLite's", postgres.rows));
    report.about("an order is one inserted row; in atomic mode with a fingerprint and a result of 500 bytes");
    let mut on_postgres: Vec<_> =
        settings.connections.iter().map(|tasks| Measured::new("postgres", *tasks)).collect();
    let mut over_sqlx: Vec<_> =
        settings.connections.iter().map(|tasks| Measured::new("postgres over sqlx", *tasks)).collect();
    let mut on_sqlite: Vec<_> =
        settings.connections.iter().map(|tasks| Measured::new("sqlite", *tasks)).collect();
    for repeat in 1..=settings.repeats {
        eprintln!("library: repeat {repeat} of {}", settings.repeats);
        for measured in &mut on_postgres {
            measured.postgres(&runtime, settings, postgres)?;
        }
        for measured in &mut over_sqlx {
            let url = runtime.block_on(fresh(postgres, settings.keys_kind))?;
            runtime.block_on(sql(&url, TABLE))?;
            let (plain, claimed) = library_sqlx::pair(&runtime, &url, measured.tasks, settings)?;
            measured.pair(&plain, &claimed);
        }
        for measured in &mut on_sqlite {
            measured.sqlite(&runtime, settings)?;
        }
    }
    runtime.block_on(drop_all(postgres))?;
    for measured in on_postgres.iter().chain(&over_sqlx).chain(&on_sqlite) {
        measured.report(&mut report);
    }
    report.print(settings.output);
    Ok(report)
}

/// The samples of one number of tasks on one store.
struct Measured {
    store: &'static str,
    tasks: u32,
    plain: Vec<f64>,
    atomic: Vec<f64>,
    p99: Vec<f64>,
    log_above: Vec<f64>,
    replays: Vec<f64>,
    hot: Vec<f64>,
}

impl Measured {
    fn new(store: &'static str, tasks: u32) -> Measured {
        let (plain, atomic, p99) = (Vec::new(), Vec::new(), Vec::new());
        Measured { store, tasks, plain, atomic, p99, log_above: vec![], replays: vec![], hot: vec![] }
    }

    fn pair(&mut self, plain: &Sample, atomic: &Sample) {
        self.plain.push(plain.per_s);
        self.atomic.push(atomic.per_s);
        self.p99.push(atomic.p99_ms / plain.p99_ms);
    }

    fn postgres(&mut self, runtime: &Runtime, settings: &Settings, postgres: &Postgres) -> Result<()> {
        let url = runtime.block_on(fresh(postgres, settings.keys_kind))?;
        runtime.block_on(sql(&url, TABLE))?;
        let before = runtime.block_on(checkpoint(&url))?;
        let mut clients = Vec::new();
        for _ in 0..self.tasks {
            clients.push(runtime.block_on(connect(&url))?);
        }
        let clients = Arc::new(clients);
        let none = Orders::new(IdentityKey::none());
        let plain = measure(runtime, self.tasks, settings, &none, move |task, order| {
            let clients = clients.clone();
            async move {
                let client = &clients[task];
                client.batch_execute("BEGIN").await?;
                let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
                    [(&order.id, Type::TEXT), (&order.basket, Type::TEXT)];
                client.execute_typed(INSERT, &params).await?;
                Ok(client.batch_execute("COMMIT").await?)
            }
        })?;
        let plain_log = runtime.block_on(log_since(&url, &before, "SELECT count(*) FROM orders"))?;
        runtime.block_on(sql(&url, "TRUNCATE orders"))?;
        let before = runtime.block_on(checkpoint(&url))?;
        let connections_max = self.tasks as usize + LEFT_BY_CLOSURES;
        let options = Options { connections_max, ..Options::default() };
        let store = runtime.block_on(PostgresStore::open(&Address::parse(&url)?, options))?;
        let engine = AtomicEngine::new(Arc::new(store), "bench", limits());
        let orders = Orders::new(engine.store().identity_key().clone());
        let own = engine.clone();
        let atomic = measure(runtime, self.tasks, settings, &orders, move |_, order| {
            let engine = own.clone();
            async move { perform(&engine, &order, postgres_work(&order)).await }
        })?;
        self.pair(&plain, &atomic);
        let log = runtime.block_on(log_since(&url, &before, "SELECT count(*) FROM orders"))?;
        self.log_above.push(log - plain_log);
        self.again(runtime, settings, &engine, &orders, postgres_work)
    }

    fn sqlite(&mut self, runtime: &Runtime, settings: &Settings) -> Result<()> {
        let dir = tempfile::tempdir_in(settings.dir()?).context("make a folder")?;
        let path = dir.path().join("plain.db");
        let connection = Connection::open(&path)?;
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
        connection.execute_batch(TABLE)?;
        let connection = Arc::new(Mutex::new(connection));
        let none = Orders::new(IdentityKey::none());
        let plain = measure(runtime, self.tasks, settings, &none, move |_, order| {
            let connection = connection.clone();
            async move {
                tokio::task::block_in_place(|| {
                    let mut connection = connection.lock();
                    let transaction =
                        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
                    transaction.prepare_cached(INSERT_SQLITE)?.execute([order.id.as_str(), order.basket])?;
                    Ok(transaction.commit()?)
                })
            }
        })?;
        let path = dir.path().join("atomic.db");
        Connection::open(&path)?.execute_batch(&format!("PRAGMA journal_mode = WAL; {TABLE}"))?;
        let options = onefold_store_sqlite::Options { file_use: FileUse::Shared, ..Default::default() };
        let engine = AtomicEngine::new(Arc::new(SqliteStore::open(&path, options)?), "bench", limits());
        let orders = Orders::new(engine.store().identity_key().clone());
        let own = engine.clone();
        let atomic = measure(runtime, self.tasks, settings, &orders, move |_, order| {
            let engine = own.clone();
            async move { perform(&engine, &order, sqlite_work(&order)).await }
        })?;
        self.pair(&plain, &atomic);
        self.again(runtime, settings, &engine, &orders, sqlite_work)
    }

    /// Replays of orders that were placed, and new keys that many ask for at once.
    fn again<S: onefold_store::AtomicStore>(
        &mut self,
        runtime: &Runtime,
        settings: &Settings,
        engine: &AtomicEngine<S>,
        orders: &Orders,
        work: fn(&Order) -> S::Work,
    ) -> Result<()> {
        let mut maker = KeyMaker::new(settings.keys_kind);
        let used: Arc<[Order]> = (0..USED).map(|_| orders.order(&mut maker)).collect();
        runtime.block_on(async {
            for order in used.iter() {
                perform(engine, order, work(order)).await?;
            }
            anyhow::Ok(())
        })?;
        let (next, own) = (Arc::new(AtomicUsize::new(0)), engine.clone());
        let replays = measure(runtime, self.tasks, settings, orders, move |_, _| {
            let order = used[next.fetch_add(1, Ordering::Relaxed) % used.len()].clone();
            let engine = own.clone();
            async move {
                ensure!(
                    !perform_again(&engine, &order, work(&order)).await?,
                    "a known order was performed again"
                );
                Ok(())
            }
        })?;
        self.replays.push(replays.per_s);
        let begun = Instant::now();
        for _ in 0..HOT_ROUNDS {
            let order = orders.order(&mut maker);
            let new = runtime.block_on(async {
                let mut callers = JoinSet::new();
                for _ in 0..HOT_CALLERS {
                    let (engine, order) = (engine.clone(), order.clone());
                    callers.spawn(async move { perform_again(&engine, &order, work(&order)).await });
                }
                let mut new = 0;
                while let Some(caller) = callers.join_next().await {
                    new += usize::from(caller??);
                }
                anyhow::Ok(new)
            })?;
            ensure!(new == 1, "{new} callers of one key performed it");
        }
        self.hot.push(HOT_ROUNDS as f64 / begun.elapsed().as_secs_f64());
        Ok(())
    }

    fn report(&self, report: &mut Report) {
        let store = self.store.replace(' ', "-");
        let named = |of: &str| format!("{store}/{}/{of}", self.tasks);
        let goal = |goal| (self.store == "postgres" && GOAL_TASKS.contains(&self.tasks)).then_some(goal);
        let ratio_min = match self.store {
            "postgres over sqlx" => GOAL_TASKS.contains(&self.tasks).then_some(Goal::AtLeast(RATIO_MIN_SQLX)),
            _ => goal(Goal::AtLeast(RATIO_MIN)),
        };
        let ratios: Vec<f64> = self.atomic.iter().zip(&self.plain).map(|(one, other)| one / other).collect();
        let mut figures = vec![
            Figure::of(named("plain/per_s"), &self.plain),
            Figure::of(named("atomic/per_s"), &self.atomic),
            Figure::of(named("ratio"), &ratios).with(ratio_min),
            Figure::of(named("p99_ratio"), &self.p99).with(goal(Goal::AtMost(P99_MAX))),
        ];
        let mut cells = vec![self.store.to_owned(), self.tasks.to_string()];
        cells.extend(figures.iter().map(Figure::shown));
        if self.log_above.is_empty() {
            cells.push(String::new());
        } else {
            let above = Figure::of(named("log_bytes_above"), &self.log_above);
            figures.push(above.with(goal(Goal::AtMost(LOG_BYTES_MAX))));
            cells.push(figures[4].shown());
        }
        for (of, repeats) in [("replays/per_s", &self.replays), ("hot/rounds_per_s", &self.hot)] {
            if repeats.is_empty() {
                cells.push(String::new());
                continue;
            }
            let figure = Figure::of(named(of), repeats);
            cells.push(figure.shown());
            figures.push(figure);
        }
        report.row(cells, figures);
    }
}

fn limits() -> Limits {
    Limits { live_keys_per_scope: None, ..Limits::default() }
}

fn postgres_work(order: &Order) -> PostgresWork {
    let order = order.clone();
    PostgresWork::new(move |tx| {
        let order = order.clone();
        Box::pin(async move {
            match tx.execute(INSERT, &[&order.id, &order.basket]).await {
                Ok(_) => placed(),
                Err(_) => onefold_store::Ended::NotDone,
            }
        })
    })
}

fn sqlite_work(order: &Order) -> SqliteWork {
    let order = order.clone();
    SqliteWork::new(move |tx| match tx.execute(INSERT_SQLITE, [order.id.as_str(), order.basket]) {
        Ok(_) => placed(),
        Err(_) => onefold_store::Ended::NotDone,
    })
}
