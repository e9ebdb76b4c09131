//! The service on PostgreSQL: a database for each case that runs. Making one takes longer than a case, so a case that
//! has ended leaves its own to the next, which gives it the content that it needs.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use onefold::companion::Settled;
use onefold::inbox::{Handled, Handling, Inbound, Incoming};
use onefold::postgres::{Address, Claim, Options, PostgresStore, PostgresTx};
use onefold::{BoxError, Call, Limits, Onefold, Operation, Verdict};
use onefold_testkit::postgres::{Database, Isolation};
use parking_lot::Mutex;
use tokio_postgres::{Client, NoTls};

use crate::base::{Answer, Base, Business, at, consumer, mails};

const TABLES: &str = "
    CREATE TABLE orders (sku text NOT NULL);
    CREATE TABLE stock (sku text PRIMARY KEY, \"left\" bigint NOT NULL);
    CREATE TABLE mails (about text NOT NULL);
    INSERT INTO stock VALUES ('lamp', 100)";
const ORDER: &str = "INSERT INTO orders (sku) VALUES ('lamp')";
const TAKE: &str = "UPDATE stock SET \"left\" = \"left\" - 1 WHERE sku = 'lamp'";
const MAIL: &str = "INSERT INTO mails VALUES ('order 1')";
const ORDERS: &str = "SELECT count(*) FROM orders";

const ALL_TABLES: &str = "SELECT table_schema || '.' || table_name FROM information_schema.tables
    WHERE table_schema IN ('public', 'onefold') AND table_type = 'BASE TABLE'";

/// What may differ, as `table.column` or as a column of any table.
const MAY_DIFFER: [&str; 18] = [
    "at",
    "attempt",
    "created_at",
    "due_at",
    "ended_at",
    "expires_at",
    "lease_until",
    "n",
    "nonce",
    "owner",
    "place",
    "probe_at",
    "received_at",
    "shard",
    "unknown_since",
    "onefold.inbox.duplicates",
    "onefold.operations.kept",
    "onefold.operations.reconciliation",
];

/// Ends what a dead process has left running: nothing of it may reach into the next case.
const OTHERS: &str = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()";

pub struct Postgres {
    url: String,
    /// A child has none.
    own: Option<Database>,
    free: Arc<Mutex<Vec<Database>>>,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.free.lock().extend(self.own.take());
    }
}

impl Postgres {
    async fn connection(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn make(free: Arc<Mutex<Vec<Database>>>) -> Option<Postgres> {
        let database = Database::create("crash points on PostgreSQL", Isolation::ReadCommitted).await?;
        database.execute(TABLES).await;
        let base = Postgres { url: database.url(), own: Some(database), free };
        drop(base.open().await);
        Some(base)
    }

    /// Every row of every table, with its table, less these columns.
    async fn rows(&self, less: &[&str]) -> Vec<(String, String)> {
        let connection = self.connection().await;
        let tables = connection.query(ALL_TABLES, &[]).await.unwrap();
        let each = tables.iter().map(|table| {
            let table: &str = table.get(0);
            let own = format!("{table}.");
            let less: Vec<&str> =
                less.iter().map(|column| column.strip_prefix(&own).unwrap_or(column)).collect();
            format!("SELECT '{table}', (to_jsonb(t) - '{{{}}}'::text[])::text FROM {table} t", less.join(","))
        });
        let rows = connection.query(&each.collect::<Vec<_>>().join(" UNION ALL "), &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }
}

async fn place(tx: &mut PostgresTx) -> Result<i64, BoxError> {
    at("business.order.before");
    tx.execute(ORDER, &[]).await?;
    at("business.order.after");
    tx.execute(TAKE, &[]).await?;
    at("business.stock.after");
    if tx.effect("order 1/ORDER_CONFIRMED").await? {
        at("business.effect.after");
        tx.execute(MAIL, &[]).await?;
    }
    tx.apply_if_newer("order 1", 7).await?;
    at("business.projection.after");
    Ok(tx.query_opt(ORDERS, &[]).await?.ok_or("no row")?.get(0))
}

async fn send(tx: &mut PostgresTx) -> Result<(), BoxError> {
    for mail in mails() {
        tx.enqueue(&mail).await?;
        at("business.message.after");
    }
    Ok(())
}

impl Base for Postgres {
    type Store = PostgresStore;

    const NAME: &'static str = "postgres";
    const RENEWED: &'static str = "postgres.advance.after";

    async fn create(_: &Path) -> Option<Postgres> {
        Postgres::make(Arc::default()).await
    }

    async fn copy(&self, _: &Path) -> Postgres {
        let free = self.free.lock().pop();
        let base = match free {
            Some(database) => Postgres { url: database.url(), own: Some(database), free: self.free.clone() },
            None => Postgres::make(self.free.clone()).await.expect("the server is there"),
        };
        let connection = base.connection().await;
        connection.query(OTHERS, &[]).await.unwrap();
        let tables = connection.query(ALL_TABLES, &[]).await.unwrap();
        let delete = tables.iter().map(|table| format!("DELETE FROM {};", table.get::<_, &str>(0)));
        let rows = self.rows(&[]).await.into_iter();
        let insert = rows.map(|(table, row)| {
            let row = row.replace('\'', "''");
            format!(
                "INSERT INTO {table} OVERRIDING SYSTEM VALUE
                    SELECT * FROM jsonb_populate_record(NULL::{table}, '{row}');"
            )
        });
        // Beyond every number that stands in a row of an earlier copy.
        static COPIES: AtomicI64 = AtomicI64::new(1);
        let from = COPIES.fetch_add(1, Ordering::Relaxed) * 1000;
        let numbers = format!("SELECT setval(seqrelid::regclass, {from}) FROM pg_sequence");
        let all: String = delete.chain(insert).chain([numbers]).collect();
        connection.batch_execute(&all).await.unwrap();
        base
    }

    fn address(&self) -> String {
        self.url.clone()
    }

    fn at(address: &str) -> Postgres {
        Postgres { url: address.to_owned(), own: None, free: Arc::default() }
    }

    async fn open(&self) -> Onefold<PostgresStore> {
        let address = Address::parse(&self.url).unwrap();
        // With a quota, so that scopes are counted in every mode.
        Onefold::open_postgres(&address, Options::default(), Limits::default()).await.unwrap()
    }

    async fn uncounted(&self) -> Onefold<PostgresStore> {
        Onefold::postgres(&self.url).await.unwrap()
    }

    async fn atomic(onefold: &Onefold<PostgresStore>, call: Call, business: Business) -> Answer {
        let work = async move |tx: &mut PostgresTx| {
            let number = place(tx).await?;
            if business == Business::Sends {
                send(tx).await?;
            }
            Ok(match business {
                Business::Rejects => Verdict::rejected(0),
                _ => Verdict::succeeded(number),
            })
        };
        onefold.atomic(call, work).await
    }

    async fn accompany(onefold: &Onefold<PostgresStore>, operation: &Operation) {
        let write = async |tx: &mut PostgresTx, settled: Arc<Settled<i64>>| {
            if !settled.rejected() {
                place(tx).await?;
            }
            Ok(())
        };
        onefold.companion(operation, write).await.unwrap();
    }

    async fn borrowed(&self, onefold: &Onefold<PostgresStore>, call: Call) -> Answer {
        let mut connection = self.connection().await;
        let transaction = connection.transaction().await.unwrap();
        at("caller.begin.after");
        let claimed = match onefold.claim(&transaction, &call).await? {
            Claim::Known(done) => return Ok(done),
            Claim::Yours(claimed) => claimed,
        };
        transaction.execute(ORDER, &[]).await.unwrap();
        at("caller.order.after");
        transaction.execute(TAKE, &[]).await.unwrap();
        at("caller.stock.after");
        let number: i64 = transaction.query_one(ORDERS, &[]).await.unwrap().get(0);
        let done = claimed.finish(onefold, &transaction, Verdict::succeeded(number)).await?;
        at("caller.commit.before");
        transaction.commit().await.unwrap();
        at("caller.commit.after");
        Ok(done)
    }

    async fn consume(onefold: &Onefold<PostgresStore>, inbound: Inbound, business: Business) -> Handling {
        let inbox = onefold.inbox(consumer());
        let handling = inbox.handle(inbound, async move |tx: &mut PostgresTx, _: Arc<Incoming>| {
            place(tx).await?;
            send(tx).await?;
            match business {
                Business::NotDone => Err("out of stock".into()),
                Business::Rejects => Ok(Handled::rejected("no such article")),
                _ => Ok(Handled::Done),
            }
        });
        let handling = handling.await;
        inbox.flush().await;
        handling
    }

    async fn content(&self) -> Vec<String> {
        let rows = self.rows(&MAY_DIFFER).await.into_iter();
        let mut content: Vec<String> = rows
            .filter(|(table, _)| table != "onefold.events")
            .map(|(table, row)| format!("{table} {row}"))
            .collect();
        content.sort();
        content
    }
}
