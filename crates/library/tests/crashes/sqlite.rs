//! The service on SQLite: the tables of the layer in a file of its own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use onefold::companion::Settled;
use onefold::inbox::{Handled, Handling, Inbound};
use onefold::{Call, Claim, Onefold, Operation, SqliteStore, SqliteTx, Verdict};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, TransactionBehavior};

use crate::base::{Answer, Base, Business, at, consumer, mails};

const TABLES: &str = "
    CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT NOT NULL);
    CREATE TABLE stock (sku TEXT PRIMARY KEY, left INTEGER NOT NULL);
    CREATE TABLE mails (about TEXT NOT NULL);
    INSERT INTO stock VALUES ('lamp', 100)";
const ORDER: &str = "INSERT INTO orders (sku) VALUES ('lamp')";
const TAKE: &str = "UPDATE stock SET left = left - 1 WHERE sku = 'lamp'";
const MAIL: &str = "INSERT INTO mails VALUES ('order 1')";
const ORDERS: &str = "SELECT count(*) FROM orders";

/// The history of a record is looked at by itself.
const ALL_TABLES: &str = "SELECT name FROM sqlite_schema
    WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'onefold_events'";

/// What may differ, as `table.column` or as a column of any table.
const MAY_DIFFER: [&str; 14] = [
    "at",
    "attempt",
    "created_at",
    "due_at",
    "ended_at",
    "expires_at",
    "granted_at",
    "owner",
    "received_at",
    "until",
    "seq",
    "onefold_inbox.duplicates",
    "onefold_outcomes.kept",
    "onefold_steps.operation",
];

pub struct Sqlite {
    file: PathBuf,
}

impl Sqlite {
    fn connection(&self) -> Connection {
        let connection = Connection::open(&self.file).unwrap();
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
    }
}

fn place(tx: &mut SqliteTx<'_>) -> rusqlite::Result<i64> {
    at("business.order.before");
    tx.execute(ORDER, [])?;
    at("business.order.after");
    tx.execute(TAKE, [])?;
    at("business.stock.after");
    if tx.effect("order 1/ORDER_CONFIRMED")? {
        at("business.effect.after");
        tx.execute(MAIL, [])?;
    }
    tx.apply_if_newer("order 1", 7)?;
    at("business.projection.after");
    tx.query_row(ORDERS, [], |row| row.get(0))
}

fn send(tx: &mut SqliteTx<'_>) -> rusqlite::Result<()> {
    for mail in mails() {
        tx.enqueue(&mail)?;
        at("business.message.after");
    }
    Ok(())
}

impl Base for Sqlite {
    type Store = SqliteStore;

    const NAME: &'static str = "sqlite";
    const RENEWED: &'static str = "sqlite.renew.after";

    async fn create(folder: &Path) -> Option<Sqlite> {
        let base = Sqlite { file: folder.join("shop.db") };
        drop(base.open().await);
        base.connection().execute_batch(TABLES).unwrap();
        Some(base)
    }

    async fn copy(&self, folder: &Path) -> Sqlite {
        let base = Sqlite { file: folder.join("shop.db") };
        std::fs::copy(&self.file, &base.file).unwrap();
        let log = |file: &Path| file.with_extension("db-wal");
        if log(&self.file).exists() {
            std::fs::copy(log(&self.file), log(&base.file)).unwrap();
        }
        base
    }

    fn address(&self) -> String {
        self.file.to_str().unwrap().to_owned()
    }

    fn at(address: &str) -> Sqlite {
        Sqlite { file: address.into() }
    }

    async fn open(&self) -> Onefold {
        Onefold::sqlite(&self.file).unwrap()
    }

    async fn uncounted(&self) -> Onefold {
        self.open().await
    }

    async fn atomic(onefold: &Onefold, call: Call, business: Business) -> Answer {
        onefold
            .atomic(call, move |tx| {
                let number = place(tx)?;
                if business == Business::Sends {
                    send(tx)?;
                }
                Ok(match business {
                    Business::Rejects => Verdict::rejected(0),
                    _ => Verdict::succeeded(number),
                })
            })
            .await
    }

    async fn accompany(onefold: &Onefold, operation: &Operation) {
        let write = |tx: &mut SqliteTx<'_>, settled: &Settled<i64>| {
            if !settled.rejected() {
                place(tx)?;
            }
            Ok(())
        };
        onefold.companion(operation, write).await.unwrap();
    }

    async fn borrowed(&self, onefold: &Onefold, call: Call) -> Answer {
        let mut connection = self.connection();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        at("caller.begin.after");
        let claimed = match onefold.claim(&transaction, &call)? {
            Claim::Known(done) => return Ok(done),
            Claim::Yours(claimed) => claimed,
        };
        transaction.execute(ORDER, []).unwrap();
        at("caller.order.after");
        transaction.execute(TAKE, []).unwrap();
        at("caller.stock.after");
        let number: i64 = transaction.query_row(ORDERS, [], |row| row.get(0)).unwrap();
        let done = claimed.finish(onefold, &transaction, Verdict::succeeded(number))?;
        at("caller.commit.before");
        transaction.commit().unwrap();
        at("caller.commit.after");
        Ok(done)
    }

    async fn consume(onefold: &Onefold, inbound: Inbound, business: Business) -> Handling {
        let inbox = onefold.inbox(consumer());
        let handling = inbox.handle(inbound, move |tx, _| {
            place(tx)?;
            send(tx)?;
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
        let connection = self.connection();
        let mut tables = connection.prepare(ALL_TABLES).unwrap();
        let tables = tables.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let mut content: Vec<String> = tables.flat_map(|table| rows(&connection, &table.unwrap())).collect();
        content.sort();
        content
    }
}

fn rows(connection: &Connection, table: &str) -> Vec<String> {
    let mut all = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let columns: Vec<String> = all.column_names().map(str::to_owned).collect();
    let text = |value: ValueRef<'_>| match value {
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("{bytes:02x?}"),
        other => format!("{other:?}"),
    };
    let rows = all.query_map([], |row| {
        let mut said = vec![table.to_owned()];
        for (n, column) in columns.iter().enumerate() {
            if ![column.as_str(), &format!("{table}.{column}")].iter().any(|name| MAY_DIFFER.contains(name)) {
                said.push(format!("{column}={}", text(row.get_ref(n)?)));
            }
        }
        Ok(said.join(" "))
    });
    rows.unwrap().map(Result::unwrap).collect()
}
