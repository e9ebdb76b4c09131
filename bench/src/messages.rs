//! `messages`: what a message costs the business that sends it, the handler that gets it, and the relay in between.
//!
//! Business and handler insert one row each. Everything of one store is over one database, without idempotency and with
//! it in turns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use onefold_engine::{AtomicEngine, Limits};
use onefold_store::{AtomicStore, ConsumeStore, Consumed, IfLost, OutboxStore, Sent, Settlement, Take};
use onefold_store_postgres::{Address, PostgresStore};
use onefold_store_sqlite::{FileUse, SqliteStore};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::runtime::Runtime;
use tokio_postgres::types::Type;

use crate::args::{Messages, Settings};
use crate::figure::{Figure, Goal};
use crate::histogram::Histogram;
use crate::keys::KeyMaker;
use crate::library_calls::{Order, Orders, Sample, TABLE, measure, perform};
use crate::messages_brokers::{to_nats, to_rabbitmq};
use crate::messages_calls::{
    DESTINATION, INSERT_SQLITE, mark, message, postgres_insert, postgres_insert_and_tell, sqlite_insert,
    sqlite_insert_and_tell,
};
use crate::messages_relay::{latency, relayed, through};
use crate::postgres::{DATABASE, connect, database, sql};
use crate::report::Report;

const HEADER: [&str; 6] = ["store", "what", "tasks", "without", "with", "ratio"];
/// Tasks at which the goals are set.
const GOAL_TASKS: [u32; 2] = [16, 64];
const ENQUEUE_MIN: f64 = 0.8;
const INBOX_MIN: f64 = 0.8;
const RELAY_MIN: f64 = 0.5;
const LATENCY_MAX_MS: f64 = 50.0;
const PINNED_MAX: f64 = 2.0;
/// Messages taken at once where the taking is measured.
const TAKEN: u32 = 16;
/// Between two takings at least: a log that a reader keeps from being cut grows by gigabytes in ten minutes otherwise.
const TAKEN_EVERY: Duration = Duration::from_millis(10);

/// The table of a handler without an inbox, so that the two do not meet.
const HANDLED: &str = "INSERT INTO handled (id, basket) VALUES ($1, $2)";
/// What both stores do.
pub(crate) trait MessageStore: AtomicStore + OutboxStore + ConsumeStore {}

impl<S: AtomicStore + OutboxStore + ConsumeStore> MessageStore for S {}

/// A service over one store.
struct Shop<S: AtomicStore> {
    name: &'static str,
    engine: AtomicEngine<S>,
    orders: Orders,
    /// Inserts the order.
    insert: fn(&Order) -> S::Work,
    /// Inserts the order and writes a message about it.
    insert_and_tell: fn(&Order) -> S::Work,
}

/// Measures and prints.
pub(crate) fn run(settings: &Settings, messages: &Messages) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut report = Report::new("messages", 2, &HEADER);
    report.about(settings.told());
    report.about("enqueue: an order in atomic mode without and with a message in it, orders a second");
    report.about("inbox: a handler's insert in a transaction of its own, and with the mark of its message, messages a second");
    report.about("relay: messages a second that were waiting, to a destination that accepts at once; and to NATS, beside publishing in batches");
    report.about(
        "written and relayed: messages a second, as many as go through; delivery: p99 from the commit to the destination at half of that, in milliseconds",
    );
    report.about("taking: median of taking 16 messages, in milliseconds, at first and at the end of a reader's transaction that was open all the while");
    let dir = tempfile::tempdir_in(settings.dir()?).context("make a folder")?;
    let path = dir.path().join("shop.db");
    Connection::open(&path)?.execute_batch(&format!("PRAGMA journal_mode = WAL; {TABLE}"))?;
    let options = onefold_store_sqlite::Options { file_use: FileUse::Shared, ..Default::default() };
    let shop =
        Shop::over("sqlite", SqliteStore::open(&path, options)?, sqlite_insert, sqlite_insert_and_tell);
    let plain = Connection::open(dir.path().join("plain.db"))?;
    plain.execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; {TABLE}"))?;
    let plain = Arc::new(Mutex::new(plain));
    let handled = move |_, order: Order| {
        let connection = plain.clone();
        async move {
            tokio::task::block_in_place(|| {
                let mut connection = connection.lock();
                let transaction =
                    connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
                transaction.prepare_cached(INSERT_SQLITE)?.execute([order.id.as_str(), order.basket])?;
                Ok(transaction.commit()?)
            })
        }
    };
    let reader = Connection::open(&path)?;
    shop.run(&runtime, settings, messages, &mut report, handled, || {
        reader.execute_batch("BEGIN; SELECT count(*) FROM onefold_outbox")?;
        Ok(())
    })?;
    drop(reader);
    match &messages.server {
        Some(server) => over_postgres(&runtime, settings, messages, server, &mut report)?,
        None => report.skip("postgres: no server; name one with --server"),
    }
    report.print(settings.output);
    Ok(report)
}

fn over_postgres(
    runtime: &Runtime,
    settings: &Settings,
    messages: &Messages,
    server: &str,
    report: &mut Report,
) -> Result<()> {
    let url = runtime.block_on(database(server))?;
    let tasks = settings.connections.iter().max().copied().unwrap_or(1);
    let options =
        onefold_store_postgres::Options { connections_max: tasks as usize + 1, ..Default::default() };
    let store = runtime.block_on(PostgresStore::open(&Address::parse(&url)?, options))?;
    runtime.block_on(sql(
        &url,
        &format!("{TABLE}; CREATE TABLE handled (id text PRIMARY KEY, basket text NOT NULL)"),
    ))?;
    let shop = Shop::over("postgres", store, postgres_insert, postgres_insert_and_tell);
    let mut clients = Vec::new();
    for _ in 0..tasks {
        clients.push(runtime.block_on(connect(&url))?);
    }
    let clients = Arc::new(clients);
    let handled = move |task: usize, order: Order| {
        let clients = clients.clone();
        async move {
            let client = &clients[task];
            client.batch_execute("BEGIN").await?;
            let params: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
                [(&order.id, Type::TEXT), (&order.basket, Type::TEXT)];
            client.execute_typed(HANDLED, &params).await?;
            Ok(client.batch_execute("COMMIT").await?)
        }
    };
    let reader = runtime.block_on(connect(&url))?;
    shop.run(runtime, settings, messages, report, handled, || {
        let pin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM onefold.outbox";
        Ok(runtime.block_on(reader.batch_execute(pin))?)
    })?;
    drop((reader, shop));
    runtime.block_on(sql(server, &format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")))?;
    Ok(())
}

impl<S: MessageStore + 'static> Shop<S> {
    fn over(
        name: &'static str,
        store: S,
        insert: fn(&Order) -> S::Work,
        insert_and_tell: fn(&Order) -> S::Work,
    ) -> Shop<S> {
        let limits = Limits { live_keys_per_scope: None, ..Limits::default() };
        let engine = AtomicEngine::new(Arc::new(store), "bench", limits);
        let orders = Orders::new(engine.store().identity_key().clone());
        Shop { name, engine, orders, insert, insert_and_tell }
    }

    fn run<F>(
        &self,
        runtime: &Runtime,
        settings: &Settings,
        messages: &Messages,
        report: &mut Report,
        handled: impl Fn(usize, Order) -> F + Clone + Send + 'static,
        pin: impl FnOnce() -> Result<()>,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>> + Send,
    {
        for tasks in &settings.connections {
            let (mut enqueue, mut inbox) = (Pairs::default(), Pairs::default());
            for _ in 0..settings.repeats {
                let bare = self.performed(runtime, *tasks, settings, self.insert)?;
                enqueue.add(&bare, &self.performed(runtime, *tasks, settings, self.insert_and_tell)?);
                runtime.block_on(self.empty())?;
                let handled = handled.clone();
                let bare = measure(runtime, *tasks, settings, &self.orders, handled)?;
                inbox.add(&bare, &self.consumed(runtime, *tasks, settings)?);
            }
            let goal = |min| GOAL_TASKS.contains(tasks).then_some(Goal::AtLeast(min));
            enqueue.report(report, [self.name, "enqueue"], *tasks, goal(ENQUEUE_MIN));
            inbox.report(report, [self.name, "inbox"], *tasks, goal(INBOX_MIN));
        }
        self.relay(runtime, settings, messages, report)?;
        self.pinned(runtime, messages, report, pin)
    }

    fn performed(
        &self,
        runtime: &Runtime,
        tasks: u32,
        settings: &Settings,
        work: fn(&Order) -> S::Work,
    ) -> Result<Sample> {
        let engine = self.engine.clone();
        measure(runtime, tasks, settings, &self.orders, move |_, order| {
            let engine = engine.clone();
            async move { perform(&engine, &order, work(&order)).await }
        })
    }

    fn consumed(&self, runtime: &Runtime, tasks: u32, settings: &Settings) -> Result<Sample> {
        let (store, work) = (self.engine.store().clone(), self.insert);
        measure(runtime, tasks, settings, &self.orders, move |_, order| {
            let store = store.clone();
            async move {
                let mark = mark(&order, &*store)?;
                match store.consume(mark, &mut work(&order)).await? {
                    Consumed::Done { .. } => Ok(()),
                    other => bail!("a new message was not handled: {other:?}"),
                }
            }
        })
    }

    /// Takes and settles whatever waits, so that nothing is left for the next measurement.
    async fn empty(&self) -> Result<()> {
        while !self.take_and_settle(1000).await?.is_zero() {}
        Ok(())
    }

    /// How long a taking took; zero when nothing waited.
    async fn take_and_settle(&self, limit: u32) -> Result<Duration> {
        let store = self.engine.store();
        let (destination, lease) = (DESTINATION.to_owned(), Duration::from_secs(60));
        let begun = Instant::now();
        let taken = store
            .take(Take { destination, limit, bytes: u64::MAX, lease, if_lost: IfLost::SendAgain })
            .await?;
        let took = begun.elapsed();
        if taken.is_empty() {
            return Ok(Duration::ZERO);
        }
        let done = |taken: onefold_store::Taken| Settlement {
            id: taken.message.id,
            attempt: taken.attempt,
            sent: Sent::Delivered,
        };
        store.settle_sent(taken.into_iter().map(done).collect()).await?;
        Ok(took)
    }

    fn relay(
        &self,
        runtime: &Runtime,
        settings: &Settings,
        messages: &Messages,
        report: &mut Report,
    ) -> Result<()> {
        let store = self.engine.store().clone();
        let (mut alone, mut full, mut p99) = (Vec::new(), Vec::new(), Vec::new());
        let (mut over_nats, mut over_rabbitmq) = (Pairs::default(), Pairs::default());
        for _ in 0..settings.repeats {
            alone.push(runtime.block_on(relayed(store.clone(), messages.messages, settings.keys_kind))?);
            let full_load = runtime.block_on(through(store.clone(), settings))?;
            full.push(full_load);
            p99.push(runtime.block_on(latency(store.clone(), full_load / 2.0, settings))?);
            if let Some(url) = &messages.nats {
                over_nats.push(runtime.block_on(to_nats(store.clone(), messages.messages, url))?);
            }
            if let Some(url) = &messages.rabbitmq {
                over_rabbitmq.push(runtime.block_on(to_rabbitmq(store.clone(), messages.messages, url))?);
            }
        }
        let goal = Some(Goal::AtMost(LATENCY_MAX_MS));
        let named = |what: &str, samples: &[f64]| Figure::of(format!("{}/{what}", self.name), samples);
        for (what, figure) in [
            ("relay", named("relay/per_s", &alone)),
            ("written and relayed", named("through/per_s", &full)),
            ("delivery", named("delivery/p99_ms", &p99).with(goal)),
        ] {
            let empty = String::new;
            report.row(
                vec![self.name.into(), what.into(), empty(), empty(), figure.shown(), empty()],
                [figure],
            );
        }
        for (what, url, pairs) in [
            ("relay to NATS", &messages.nats, over_nats),
            ("relay to RabbitMQ", &messages.rabbitmq, over_rabbitmq),
        ] {
            match url {
                Some(_) => pairs.report(report, [self.name, what], 0, Some(Goal::AtLeast(RELAY_MIN))),
                None => report.skip(format!("{}: {what}: no server; name one (--help)", self.name)),
            }
        }
        Ok(())
    }

    /// Messages come and go while a reader's transaction is open.
    fn pinned(
        &self,
        runtime: &Runtime,
        messages: &Messages,
        report: &mut Report,
        pin: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let first = runtime.block_on(self.taking(Duration::from_secs(messages.pinned.min(10))))?;
        pin()?;
        let middle = Duration::from_secs(messages.pinned.saturating_sub(10));
        runtime.block_on(self.taking(middle))?;
        let last = runtime.block_on(self.taking(Duration::from_secs(messages.pinned.min(10))))?;
        let named = |of: &str| format!("{}/taking/{of}", self.name);
        let figures = [
            Figure::of(named("first_ms"), &[first]),
            Figure::of(named("pinned_ms"), &[last]),
            Figure::of(named("ratio"), &[last / first]).with(Some(Goal::AtMost(PINNED_MAX))),
        ];
        let mut cells = vec![self.name.to_owned(), "taking".to_owned(), String::new()];
        cells.extend(figures.iter().map(Figure::shown));
        report.row(cells, figures);
        Ok(())
    }

    /// The median of taking, in milliseconds, while messages come at a steady rate and are taken at once.
    async fn taking(&self, window: Duration) -> Result<f64> {
        let (store, mut maker) = (self.engine.store(), KeyMaker::new(crate::args::KeysKind::V4));
        let mut histogram = Histogram::new();
        let mut ticks = tokio::time::interval(TAKEN_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let until = Instant::now() + window;
        while Instant::now() < until {
            ticks.tick().await;
            let some = (0..TAKEN).map(|_| message(&maker.uuid().to_string())).collect::<Result<_>>()?;
            store.enqueue(some).await?;
            histogram.add(self.take_and_settle(TAKEN).await?);
        }
        Ok(histogram.quantile_ms(0.5))
    }
}

/// What two measurements in turn found.
#[derive(Default)]
struct Pairs {
    without: Vec<f64>,
    with: Vec<f64>,
}

impl Pairs {
    fn add(&mut self, without: &Sample, with: &Sample) {
        self.push((without.per_s, with.per_s));
    }

    fn push(&mut self, (without, with): (f64, f64)) {
        self.without.push(without);
        self.with.push(with);
    }

    fn report(&self, report: &mut Report, what: [&str; 2], tasks: u32, goal: Option<Goal>) {
        let tasks = if tasks == 0 { String::new() } else { tasks.to_string() };
        let named = |of: &str| [what[0], what[1], &tasks, of].join("/").replace(' ', "-").replace("//", "/");
        let ratios: Vec<f64> = self.with.iter().zip(&self.without).map(|(one, other)| one / other).collect();
        let figures = [
            Figure::of(named("without/per_s"), &self.without),
            Figure::of(named("with/per_s"), &self.with),
            Figure::of(named("ratio"), &ratios).with(goal),
        ];
        let mut cells = vec![what[0].to_owned(), what[1].to_owned(), tasks.clone()];
        cells.extend(figures.iter().map(Figure::shown));
        report.row(cells, figures);
    }
}
