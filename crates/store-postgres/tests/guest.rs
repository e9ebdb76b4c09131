//! Records in a transaction that the caller owns: they come and go with it, and losing does not harm it.

mod asking;

use asking::{claim, open, settle};
use onefold_core::State;
use onefold_store::{Advanced, Claimed, OperationStore};
use onefold_testkit::postgres::{Database, Isolation};
use tokio_postgres::{Client, NoTls};

const WHAT: &str = "a caller's own transaction on PostgreSQL";

async fn connect(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn record_comes_with_the_commit_and_goes_with_the_rollback() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let store = open(&database.url()).await;
    database.execute("CREATE TABLE orders (n int)").await;
    let mut client = connect(&database).await;
    let id = claim(&store, "k").id;
    for commits in [false, true] {
        let transaction = client.transaction().await.expect("it begins");
        let claimed = store.claim_in(&transaction, claim(&store, "k")).await.expect("it is claimed");
        assert!(matches!(claimed, Claimed::Won { .. }), "{claimed:?}");
        transaction.execute("INSERT INTO orders VALUES (1)", &[]).await.expect("the business writes");
        let done = store.advance_in(&transaction, settle(id, b"done", None)).await.expect("it is settled");
        assert!(matches!(done, Advanced::Done { .. }), "{done:?}");
        let ended = if commits { transaction.commit().await } else { transaction.rollback().await };
        ended.expect("it ends");
        let record = store.read(id).await.expect("the store works").record;
        assert_eq!(record.map(|record| record.state), commits.then_some(State::Succeeded));
        assert_eq!(database.ask("SELECT count(*) FROM orders").await, i32::from(commits).to_string());
    }
}

#[tokio::test]
async fn losing_the_claim_leaves_the_transaction_usable() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        let Some(database) = Database::create(WHAT, isolation).await else { return };
        let store = open(&database.url()).await;
        database.execute("CREATE TABLE orders (n int)").await;
        store.claim(claim(&store, "k")).await.expect("the store works");
        let mut client = connect(&database).await;
        let transaction = client.transaction().await.expect("it begins");
        let lost = store.claim_in(&transaction, claim(&store, "k")).await.expect("it is told");
        assert!(matches!(lost, Claimed::Exists(_)), "{lost:?}");
        let wrote = transaction.execute("INSERT INTO orders VALUES (1)", &[]).await;
        assert_eq!(wrote.expect("the transaction is not poisoned"), 1, "{isolation:?}");
        transaction.commit().await.expect("it commits");
        assert_eq!(database.ask("SELECT count(*) FROM orders").await, "1");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicate_waits_for_the_owners_end_and_keeps_a_usable_transaction() {
    for commits in [false, true] {
        let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
        let store = std::sync::Arc::new(open(&database.url()).await);
        let (mut first, mut second) = (connect(&database).await, connect(&database).await);
        let owner = first.transaction().await.expect("it begins");
        store.claim_in(&owner, claim(&store, "k")).await.expect("it is claimed");
        let other = store.clone();
        let waiting = tokio::spawn(async move {
            let transaction = second.transaction().await.expect("it begins");
            let claimed = other.claim_in(&transaction, claim(&other, "k")).await;
            (claimed, transaction.query_one("SELECT 1", &[]).await.is_ok())
        });
        let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
            AND datname = current_database()";
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
        while database.ask(blocked).await == "0" {
            assert!(tokio::time::Instant::now() < deadline, "the duplicate waits for the owner");
            tokio::task::yield_now().await;
        }
        let ended = if commits { owner.commit().await } else { owner.rollback().await };
        ended.expect("it ends");
        let (claimed, usable) = waiting.await.expect("it ends");
        assert!(usable, "the transaction is not poisoned");
        let claimed = claimed.expect("the store works");
        assert_eq!(matches!(claimed, Claimed::Exists(_)), commits, "{claimed:?}");
        assert_eq!(matches!(claimed, Claimed::Won { .. }), !commits, "{claimed:?}");
    }
}
