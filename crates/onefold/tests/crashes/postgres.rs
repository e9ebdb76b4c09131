//! The service on PostgreSQL: a database for each case, made from a template.

use std::path::Path;

use onefold::postgres::{Address, Claim, Options, PostgresStore, PostgresTx};
use onefold::{BoxError, Call, Limits, Onefold, Verdict};
use onefold_testkit::postgres::{Database, Isolation};
use tokio_postgres::{Client, NoTls};

use crate::base::{Answer, Base, Business, at};

const TABLES: &str = "
    CREATE TABLE orders (sku text NOT NULL);
    CREATE TABLE stock (sku text PRIMARY KEY, \"left\" bigint NOT NULL);
    CREATE TABLE mails (about text NOT NULL);
    INSERT INTO stock VALUES ('lamp', 100)";
const ORDER: &str = "INSERT INTO orders (sku) VALUES ('lamp')";
const TAKE: &str = "UPDATE stock SET \"left\" = \"left\" - 1 WHERE sku = 'lamp'";
const MAIL: &str = "INSERT INTO mails VALUES ('order 1')";
const ORDERS: &str = "SELECT count(*) FROM orders";

/// The history of a record is looked at by itself.
const ALL_TABLES: &str = "SELECT table_schema || '.' || table_name FROM information_schema.tables
    WHERE table_schema IN ('public', 'onefold') AND table_name <> 'events'";

/// What may differ, as `table.column` or as a column of any table.
const MAY_DIFFER: [&str; 16] = [
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
    "shard",
    "unknown_since",
    "onefold.operations.kept",
    "onefold.operations.reconciliation",
];

pub struct Postgres {
    url: String,
    own: Option<Database>,
}

impl Postgres {
    async fn connection(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
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

impl Base for Postgres {
    type Store = PostgresStore;

    const NAME: &'static str = "postgres";
    const RENEWED: &'static str = "postgres.advance.after";

    async fn create(_: &Path) -> Option<Postgres> {
        let database = Database::create("crash points on PostgreSQL", Isolation::ReadCommitted).await?;
        database.execute(TABLES).await;
        let base = Postgres { url: database.url(), own: Some(database) };
        drop(base.open().await);
        Some(base)
    }

    async fn copy(&self, _: &Path) -> Postgres {
        let database = self.own.as_ref().expect("a child copies nothing").copy().await;
        Postgres { url: database.url(), own: Some(database) }
    }

    fn address(&self) -> String {
        self.url.clone()
    }

    fn at(address: &str) -> Postgres {
        Postgres { url: address.to_owned(), own: None }
    }

    async fn open(&self) -> Onefold<PostgresStore> {
        let address = Address::parse(&self.url).unwrap();
        // With a quota, so that scopes are counted in every mode.
        Onefold::open_postgres(&address, Options::default(), Limits::default()).await.unwrap()
    }

    async fn atomic(onefold: &Onefold<PostgresStore>, call: Call, business: Business) -> Answer {
        let work = async move |tx: &mut PostgresTx| {
            let number = place(tx).await?;
            Ok(match business {
                Business::Rejects => Verdict::rejected(0),
                _ => Verdict::succeeded(number),
            })
        };
        onefold.atomic(call, work).await
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

    async fn content(&self) -> Vec<String> {
        let connection = self.connection().await;
        let mut content = Vec::new();
        for table in connection.query(ALL_TABLES, &[]).await.unwrap() {
            let table: String = table.get(0);
            let own = format!("{table}.");
            let out: Vec<&str> =
                MAY_DIFFER.iter().map(|name| name.strip_prefix(&own).unwrap_or(name)).collect();
            let rows = format!("SELECT (to_jsonb(t) - $1::text[])::text FROM {table} t");
            for row in connection.query(&rows, &[&out]).await.unwrap() {
                content.push(format!("{table} {}", row.get::<_, String>(0)));
            }
        }
        content.sort();
        content
    }
}
