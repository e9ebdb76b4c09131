//! The suite on SQLite, with and without sealed payloads.

mod handlers;

use std::sync::Arc;

use onefold_store::clock::ManualClock;
use onefold_store_conformance::{
    Business, Made, Shop, conformance, library_conformance, messages_conformance,
};
use onefold_store_sqlite::{FileUse, Options, SqliteStore, SqliteWork};
use rusqlite::Connection;

fn make(clock: Arc<ManualClock>, seal_keys: Vec<[u8; 32]>) -> Made {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let options = Options { seal_keys, clock, ..Options::default() };
    let store = SqliteStore::open(directory.path().join("onefold.db"), options).expect("a new store opens");
    Made { store: Arc::new(store), keep: Box::new(directory) }
}

mod plain {
    use super::*;

    async fn make_plain(clock: Arc<ManualClock>) -> Option<Made> {
        Some(make(clock, Vec::new()))
    }

    conformance!(make_plain);
}

mod sealed {
    use super::*;

    async fn make_sealed(clock: Arc<ManualClock>) -> Option<Made> {
        Some(make(clock, vec![[7; 32], [8; 32]]))
    }

    conformance!(make_sealed);
}

mod library {
    use super::*;

    async fn business(clock: Arc<ManualClock>) -> Option<Business<SqliteStore>> {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join("shop.db");
        let options =
            Options { clock, seal_keys: vec![[7; 32]], file_use: FileUse::Shared, ..Options::default() };
        let store = Arc::new(SqliteStore::open(&path, options).expect("a new store opens"));
        let table = "CREATE TABLE business (name TEXT PRIMARY KEY)";
        Connection::open(&path)
            .and_then(|file| file.execute_batch(table))
            .expect("the service has its table");
        Some(Business {
            store,
            work: Box::new(|script| {
                SqliteWork::new(move |tx| {
                    tx.execute("INSERT INTO business VALUES (?1)", [&script.row]).expect("the row is new");
                    script.end()
                })
            }),
            rows: Box::new(move || {
                let connection = Connection::open(&path).expect("the file is there");
                let mut statement = connection.prepare("SELECT name FROM business ORDER BY name").unwrap();
                let rows = statement.query_map([], |row| row.get(0)).unwrap();
                let rows = rows.collect::<Result<_, _>>().unwrap();
                Box::pin(async move { rows })
            }),
            keep: Box::new(directory),
        })
    }

    library_conformance!(business);
}

mod messages {
    use super::*;

    async fn shop(clock: Arc<ManualClock>) -> Option<Shop<SqliteStore>> {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join("shop.db");
        let options =
            Options { clock, seal_keys: vec![[7; 32]], file_use: FileUse::Shared, ..Options::default() };
        let store = Arc::new(SqliteStore::open(&path, options).expect("a new store opens"));
        let table = "CREATE TABLE business (name TEXT PRIMARY KEY)";
        Connection::open(&path)
            .and_then(|file| file.execute_batch(table))
            .expect("the service has its table");
        Some(Shop {
            store,
            work: Box::new(handlers::work),
            rows: Box::new(move || {
                let connection = Connection::open(&path).expect("the file is there");
                let mut statement = connection.prepare("SELECT name FROM business ORDER BY name").unwrap();
                let rows = statement.query_map([], |row| row.get(0)).unwrap();
                let rows = rows.collect::<Result<_, _>>().unwrap();
                Box::pin(async move { rows })
            }),
            keep: Box::new(directory),
        })
    }

    messages_conformance!(shop);
}
