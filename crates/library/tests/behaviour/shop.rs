//! A service with a database of its own.

use std::path::PathBuf;
use std::time::Duration;

use onefold::{BoxError, Call, CallError, Done, Onefold, Operation, Scope, SqliteTx, Verdict};
use rusqlite::Connection;

pub struct Shop {
    pub onefold: Onefold,
    pub path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Shop {
    pub fn open() -> Shop {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shop.db");
        let onefold = Onefold::sqlite(&path).unwrap();
        let table = "CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT)";
        Connection::open(&path).unwrap().execute_batch(table).unwrap();
        Shop { onefold, path, _directory: directory }
    }

    pub fn connection(&self) -> Connection {
        let connection = Connection::open(&self.path).unwrap();
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
    }

    pub fn orders(&self) -> i64 {
        self.connection().query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
    }

    /// Places an order and gives its number.
    pub async fn place(&self, key: &str, sku: &str) -> Result<Done<i64>, CallError> {
        let order = sku.to_owned();
        self.onefold.atomic(call(key, sku), move |tx| Ok(Verdict::succeeded(insert(tx, &order)?))).await
    }
}

pub fn insert(tx: &mut SqliteTx<'_>, sku: &str) -> Result<i64, BoxError> {
    tx.execute("INSERT INTO orders (sku) VALUES (?1)", [sku])?;
    Ok(tx.last_insert_rowid())
}

pub fn operation() -> Operation {
    Operation::new("PlaceOrder", "one order row for each key")
}

pub fn call(key: &str, request: &str) -> Call {
    operation().call(Scope::new([("customer", "17")]), key, request).unwrap()
}
