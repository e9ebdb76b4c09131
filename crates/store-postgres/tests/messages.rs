//! The suite of messages on PostgreSQL: at each isolation of transactions, with sealed content, and behind PgBouncer in
//! transaction mode. Each test has a database of its own, with a table of a business in it.

mod handlers;

use std::sync::Arc;

use handlers::work;
use onefold_store::clock::ManualClock;
use onefold_store_conformance::{Shop, messages_conformance};
use onefold_store_postgres::{Address, Options, PostgresStore};
use onefold_testkit::pgbouncer;
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::skipped::skipped;
use tokio_postgres::NoTls;

const WHAT: &str = "messages on PostgreSQL";

async fn shop(
    database: Database,
    url: String,
    clock: Arc<ManualClock>,
    seal_keys: Vec<[u8; 32]>,
) -> Option<Shop<PostgresStore>> {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE business (name text PRIMARY KEY)").await.expect("a table");
    let client = Arc::new(client);
    let address = Address::parse(&url).expect("an address");
    let options = Options { seal_keys, test_clock: Some(clock), ..Options::default() };
    let store = PostgresStore::open(&address, options).await.expect("a new store opens");
    Some(Shop {
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
) -> Option<Shop<PostgresStore>> {
    let database = Database::create(WHAT, isolation).await?;
    let url = database.url();
    shop(database, url, clock, seal_keys).await
}

mod read_committed {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Shop<PostgresStore>> {
        direct(clock, Isolation::ReadCommitted, Vec::new()).await
    }

    messages_conformance!(make);
}

mod repeatable_read {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Shop<PostgresStore>> {
        direct(clock, Isolation::RepeatableRead, Vec::new()).await
    }

    messages_conformance!(make);
}

mod serializable {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Shop<PostgresStore>> {
        direct(clock, Isolation::Serializable, vec![[7; 32]]).await
    }

    messages_conformance!(make);
}

mod behind_pgbouncer {
    use super::*;

    async fn make(clock: Arc<ManualClock>) -> Option<Shop<PostgresStore>> {
        let database = Database::create(WHAT, Isolation::ReadCommitted).await?;
        let pooler = pgbouncer::shared().map_err(|why| skipped(WHAT, &why)).ok()?;
        let url = database.url_at(&pooler);
        shop(database, url, clock, Vec::new()).await
    }

    messages_conformance!(make);
}
