//! The library's suite on PostgreSQL: at each isolation of transactions, with sealed payloads, and behind PgBouncer in
//! transaction mode. Each test has a database of its own, with a table of a business in it.

use std::sync::Arc;

use onefold_store::clock::ManualClock;
use onefold_store_conformance::{Business, Script, library_conformance};
use onefold_store_postgres::{Address, Options, PostgresStore, PostgresWork};
use onefold_testkit::pgbouncer;
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::skipped::skipped;
use tokio_postgres::NoTls;

const WHAT: &str = "atomic mode and steps on PostgreSQL";

fn work(script: Script) -> PostgresWork {
    PostgresWork::new(move |tx| {
        let script = script.clone();
        Box::pin(async move {
            let row = tx.execute("INSERT INTO business VALUES ($1)", &[&script.row]).await;
            row.expect("the row is new");
            script.end()
        })
    })
}

async fn business(
    database: Database,
    url: String,
    clock: Arc<ManualClock>,
    seal_keys: Vec<[u8; 32]>,
) -> Option<Business<PostgresStore>> {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE business (name text PRIMARY KEY)").await.expect("a table");
    let client = Arc::new(client);
    let address = Address::parse(&url).expect("an address");
    let options = Options { seal_keys, test_clock: Some(clock), ..Options::default() };
    let store = PostgresStore::open(&address, options).await.expect("a new store opens");
    Some(Business {
        store: Arc::new(store),
        work: Box::new(work),
        rows: Box::new(move || {
            let client = client.clone();
            Box::pin(async move {
                let rows = client.query("SELECT name FROM business ORDER BY name", &[]).await;
                rows.expect("a table").iter().map(|row| row.get(0)).collect()
            })
        }),
        keep: Box::new(database),
    })
}

async fn direct(
    clock: Arc<ManualClock>,
    isolation: Isolation,
    seal_keys: Vec<[u8; 32]>,
) -> Option<Business<PostgresStore>> {
    let database = Database::create(WHAT, isolation).await?;
    let url = database.url();
    business(database, url, clock, seal_keys).await
}

mod read_committed {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Business<PostgresStore>> {
        direct(clock, Isolation::ReadCommitted, Vec::new()).await
    }

    library_conformance!(make);
}

mod repeatable_read {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Business<PostgresStore>> {
        direct(clock, Isolation::RepeatableRead, Vec::new()).await
    }

    library_conformance!(make);
}

mod serializable {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Business<PostgresStore>> {
        direct(clock, Isolation::Serializable, vec![[7; 32]]).await
    }

    library_conformance!(make);
}

mod behind_pgbouncer {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Business<PostgresStore>> {
        let database = Database::create(WHAT, Isolation::ReadCommitted).await?;
        let pooler = pgbouncer::shared().map_err(|why| skipped(WHAT, &why)).ok()?;
        let url = database.url_at(&pooler);
        business(database, url, clock, Vec::new()).await
    }

    library_conformance!(make);
}
