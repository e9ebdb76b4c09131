//! A service with a database of its own, and any number of processes on it.

use std::sync::Arc;
use std::time::Duration;

use onefold::postgres::{Address, Options, PostgresStore, PostgresTx};
use onefold::{BoxError, Call, CallError, Done, Limits, Onefold, Operation, Scope, Verdict};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::wait;
use tokio_postgres::{Client, NoTls};

const INSERT: &str = "INSERT INTO orders (sku) VALUES ($1) RETURNING number";

pub struct Shop {
    pub onefold: Onefold<PostgresStore>,
    pub database: Database,
}

impl Shop {
    pub async fn open() -> Option<Shop> {
        Shop::open_with(Isolation::ReadCommitted, Options::default()).await
    }

    pub async fn open_with(isolation: Isolation, options: Options) -> Option<Shop> {
        let database = Database::create("the library on PostgreSQL", isolation).await?;
        let table = "CREATE TABLE orders (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sku text)";
        database.execute(table).await;
        let address = Address::parse(&database.url()).unwrap();
        let limits = Limits { live_keys_per_scope: None, ..Limits::default() };
        let onefold = Onefold::open_postgres(&address, options, limits).await.unwrap();
        Some(Shop { onefold, database })
    }

    /// The boundary of another process: its own pool, flights and memory.
    pub async fn another_process(&self) -> Onefold<PostgresStore> {
        Onefold::postgres(&self.database.url()).await.unwrap()
    }

    /// A connection of the service's own.
    pub async fn connection(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    pub async fn count(&self, table: &str) -> i64 {
        self.database.ask(&format!("SELECT count(*) FROM {table}")).await.parse().unwrap()
    }

    /// Business rows and records: what a call that did nothing must leave as it was.
    pub async fn orders_and_records(&self) -> (i64, i64) {
        (self.count("orders").await, self.count("onefold.operations").await)
    }

    pub async fn place(&self, key: &str, sku: &str) -> Result<Done<i64>, CallError> {
        place(&self.onefold, key, sku).await
    }

    /// Waits until so many sessions wait for a lock of another.
    pub async fn waits_for_locks(&self, sessions: i64) {
        let waiting = "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let what = format!("{sessions} sessions wait for a lock");
        wait::until_within(wait::DEADLINE, &what, async || self.count(waiting).await == sessions).await;
    }

    /// Waits until the server has no transaction open.
    pub async fn has_no_open_transaction(&self) {
        let open =
            "pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
        wait::until_within(Duration::from_secs(10), "no transaction is open", async || {
            self.count(open).await == 0
        })
        .await;
    }
}

/// Places an order and gives its number.
pub async fn place(onefold: &Onefold<PostgresStore>, key: &str, sku: &str) -> Result<Done<i64>, CallError> {
    let order = sku.to_owned();
    let work = async move |tx: &mut PostgresTx| Ok(Verdict::succeeded(insert(tx, &order).await?));
    onefold.atomic(call(key, sku), work).await
}

pub async fn insert(tx: &mut PostgresTx, sku: &str) -> Result<i64, BoxError> {
    Ok(tx.query_opt(INSERT, &[&sku]).await?.ok_or("no row")?.get(0))
}

pub fn operation() -> Operation {
    Operation::new("PlaceOrder", "one order row for each key")
}

pub fn call(key: &str, request: &str) -> Call {
    operation().call(Scope::new([("customer", "17")]), key, request).unwrap()
}

/// A count that clones of a closure share.
pub type Runs = Arc<std::sync::atomic::AtomicUsize>;
