//! A service, the other system that it asks, and a child.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use onefold::{Call, CallError, Done, Onefold, Operation, Scope, Verdict};
use rusqlite::Connection;

const FOLDER: &str = "ONEFOLD_TEST_FOLDER";
const TASK: &str = "ONEFOLD_TEST_TASK";

#[derive(Clone)]
pub struct World {
    folder: PathBuf,
    _own: Option<Arc<tempfile::TempDir>>,
}

impl World {
    pub fn new() -> World {
        let own = tempfile::tempdir().unwrap();
        let world = World { folder: own.path().to_owned(), _own: Some(Arc::new(own)) };
        drop(world.open());
        let table = "CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT)";
        world.connection().execute_batch(table).unwrap();
        world
    }

    /// What a child was told.
    pub fn of_child() -> Option<(World, String)> {
        let folder = PathBuf::from(std::env::var_os(FOLDER)?);
        Some((World { folder, _own: None }, std::env::var(TASK).ok()?))
    }

    /// Starts a child.
    pub fn child(&self, task: &str) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(FOLDER, &self.folder)
            .env(TASK, task)
            .spawn()
            .unwrap()
    }

    fn file(&self) -> PathBuf {
        self.folder.join("shop.db")
    }

    pub fn open(&self) -> Onefold {
        Onefold::sqlite(self.file()).unwrap()
    }

    pub fn connection(&self) -> Connection {
        let connection = Connection::open(self.file()).unwrap();
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
    }

    pub fn orders(&self) -> i64 {
        self.connection().query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
    }

    /// Notes a line, as another system would.
    pub fn note(&self, what: &str, line: &str) {
        let file = self.folder.join(what);
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub fn noted(&self, what: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.join(what)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A short lease, so that the next process need not wait long for a dead one.
fn operation() -> Operation {
    Operation::new("PlaceOrder", "one order for each key").lease(Duration::from_secs(1))
}

pub fn call(key: &str) -> Call {
    operation().call(Scope::shared(), key, "lamp").unwrap()
}

pub async fn place(onefold: &Onefold, key: &str) -> Result<Done<i64>, CallError> {
    onefold
        .atomic(call(key), |tx| {
            tx.execute("INSERT INTO orders (sku) VALUES ('lamp')", [])?;
            Ok(Verdict::succeeded(tx.last_insert_rowid()))
        })
        .await
}
