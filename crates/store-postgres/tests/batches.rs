//! What waits at one moment shares a commit, and nobody pays for his neighbour.

mod asking;

use std::sync::Arc;

use asking::{claim, open, settle};
use onefold_store::{Advanced, Claimed, OperationStore, StoreError};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::wait;
use tokio::task::JoinSet;

const JOBS: u64 = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_and_outcomes_that_wait_together_share_statements() {
    let what = "batches on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let store = Arc::new(open(&database.url()).await);
    let mut jobs = JoinSet::new();
    for n in 0..JOBS {
        let store = store.clone();
        jobs.spawn(async move {
            let new = claim(&store, &format!("k-{n}"));
            let id = new.id;
            assert!(matches!(store.claim(new).await, Ok(Claimed::Won { .. })));
            assert!(matches!(store.advance(settle(id, b"x", None)).await, Ok(Advanced::Done { .. })));
        });
    }
    jobs.join_all().await;
    let stats = store.stats();
    assert_eq!((stats.jobs, stats.failures), (2 * JOBS, 0));
    assert!(stats.batches < stats.jobs / 4, "{stats:?}");
    let hot = "SELECT n_tup_hot_upd >= n_tup_upd * 0.8 FROM pg_stat_user_tables WHERE relname = 'operations'";
    database.ask("SELECT pg_stat_force_next_flush()").await;
    onefold_testkit::wait::until_within(
        onefold_testkit::wait::DEADLINE,
        "outcomes touch no index",
        async || database.ask(hot).await == "t",
    )
    .await;
}

/// Gateways that claim the same keys in other orders would wait for each other crosswise, if each took them as they
/// come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_that_claim_the_same_keys_in_other_orders_do_not_deadlock() {
    let what = "two stores on one PostgreSQL database";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let stores = [Arc::new(open(&database.url()).await), Arc::new(open(&database.url()).await)];
    // Batches overlap for sure.
    database
        .execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
                AS 'BEGIN PERFORM pg_sleep(0.002); RETURN NEW; END';
            CREATE TRIGGER slow AFTER INSERT ON onefold.operations FOR EACH ROW EXECUTE FUNCTION slow();
            CREATE TRIGGER slow_too BEFORE INSERT ON onefold.operations FOR EACH ROW EXECUTE FUNCTION slow();",
        )
        .await;
    let mut jobs = JoinSet::new();
    for n in 0..JOBS {
        for (store, n) in [(stores[0].clone(), n), (stores[1].clone(), JOBS - 1 - n)] {
            jobs.spawn(async move {
                let claimed = store.claim(claim(&store, &format!("k-{n}"))).await.expect("the store works");
                u64::from(matches!(claimed, Claimed::Won { .. }))
            });
        }
    }
    assert_eq!(jobs.join_all().await.into_iter().sum::<u64>(), JOBS, "each was won once");
    // A session tells the server what it has seen when it ends, at the latest.
    drop(stores);
    let others = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    wait::until_within(wait::DEADLINE, "the sessions have ended", async || database.ask(others).await == "0")
        .await;
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(database.ask(deadlocks).await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_the_server_refuses_fails_alone() {
    let what = "a bad job among good ones";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    let store = Arc::new(open(&database.url()).await);
    database.execute("ALTER TABLE onefold.operations ADD CHECK (key <> 'bad'::bytea)").await;
    let mut jobs = JoinSet::new();
    for n in 0..50 {
        let (store, key) = (store.clone(), if n == 17 { "bad".into() } else { format!("k-{n}") });
        jobs.spawn(async move { (key.clone(), store.claim(claim(&store, &key)).await) });
    }
    for (key, claimed) in jobs.join_all().await {
        match key.as_str() {
            "bad" => assert!(matches!(claimed, Err(StoreError::Refused(_))), "{claimed:?}"),
            _ => assert!(matches!(claimed, Ok(Claimed::Won { .. })), "{key}: {claimed:?}"),
        }
    }
}
