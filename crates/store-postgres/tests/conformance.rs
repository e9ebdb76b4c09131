//! The suite on PostgreSQL: at each isolation of transactions, with sealed payloads, and behind PgBouncer in
//! transaction mode. Each test has a database of its own.

use std::sync::Arc;

use onefold_store::clock::ManualClock;
use onefold_store_conformance::{Made, conformance};
use onefold_store_postgres::{Address, Options, PostgresStore};
use onefold_testkit::pgbouncer;
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::skipped::skipped;

async fn open(url: &str, clock: Arc<ManualClock>, seal_keys: Vec<[u8; 32]>) -> PostgresStore {
    let address = Address::parse(url).expect("an address");
    let options = Options { seal_keys, test_clock: Some(clock), ..Options::default() };
    PostgresStore::open(&address, options).await.expect("a new store opens")
}

async fn direct(clock: Arc<ManualClock>, isolation: Isolation, seal_keys: Vec<[u8; 32]>) -> Option<Made> {
    let database = Database::create("the store's conformance on PostgreSQL", isolation).await?;
    let store = open(&database.url(), clock, seal_keys).await;
    Some(Made { store: Arc::new(store), keep: Box::new(database) })
}

mod read_committed {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Made> {
        direct(clock, Isolation::ReadCommitted, Vec::new()).await
    }

    conformance!(server_clock: make);
}

mod repeatable_read {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Made> {
        direct(clock, Isolation::RepeatableRead, Vec::new()).await
    }

    conformance!(server_clock: make);
}

mod serializable {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Made> {
        direct(clock, Isolation::Serializable, vec![[7; 32], [8; 32]]).await
    }

    conformance!(server_clock: make);
}

mod behind_pgbouncer {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Made> {
        let what = "the store's conformance behind PgBouncer";
        let database = Database::create(what, Isolation::ReadCommitted).await?;
        let pooler = pgbouncer::shared().map_err(|why| skipped(what, &why)).ok()?;
        let store = open(&database.url_at(&pooler), clock, Vec::new()).await;
        Some(Made { store: Arc::new(store), keep: Box::new(database) })
    }

    conformance!(server_clock: make);
}
