//! What is committed between the snapshot of a statement and the lock that it takes.

mod asking;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use asking::{claim, open};
use onefold_core::Kept;
use onefold_store::{AtomicStore, Atomically, ConsumeStore, Consumed, Ended, Entry, Finish, Mark};
use onefold_store_conformance::mark_under;
use onefold_store_postgres::{PostgresStore, PostgresWork};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::wait::{self, DEADLINE};
use tokio_postgres::{Client, NoTls};

fn done() -> Ended {
    Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None }
}

fn new(store: &PostgresStore, key: &str) -> Entry {
    Entry::New(Box::new(claim(store, key)))
}

/// The lock that whoever comes under the name `late` waits for before it tries the lock of a key: between a statement's
/// snapshot and that lock, as long as the test says.
async fn late_lock(database: &Database) -> Client {
    let sql = "CREATE SCHEMA late;
        CREATE FUNCTION late.pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
            IF current_setting('application_name') = 'late' THEN
                PERFORM pg_advisory_xact_lock(42);
            END IF;
            RETURN pg_catalog.pg_try_advisory_xact_lock($1);
        END $$;
        DO $$ BEGIN
            EXECUTE format('ALTER DATABASE %I SET search_path = late, pg_catalog', current_database());
        END $$";
    database.execute(sql).await;
    let (gate, connection) = tokio_postgres::connect(&database.url(), NoTls).await.expect("it connects");
    tokio::spawn(connection);
    gate.execute("SELECT pg_advisory_lock(42)", &[]).await.expect("it is held");
    gate
}

/// Waits until the late one waits for the lock.
async fn has_its_snapshot(database: &Database) {
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let waiting = async || database.ask(waits).await == "1";
    wait::until_within(DEADLINE, "the late one has its snapshot", waiting).await;
}

async fn go_on(gate: Client) {
    gate.execute("SELECT pg_advisory_unlock(42)", &[]).await.expect("it is free");
}

/// Its look did not see the record.
#[tokio::test]
async fn duplicate_that_looked_too_early_gets_the_record_whatever_its_closure_says() {
    let what = "looks that are too early on PostgreSQL";
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        for says_done in [false, true] {
            let Some(database) = Database::create(what, isolation).await else { return };
            let quick = open(&database.url()).await;
            let gate = late_lock(&database).await;
            let late = open(&format!("{}?application_name=late", database.url())).await;
            let mut work = PostgresWork::new(move |_| {
                Box::pin(async move { if says_done { done() } else { Ended::NotDone } })
            });
            let performing = late.atomically(new(&late, "k"), &mut work);
            let meanwhile = async {
                has_its_snapshot(&database).await;
                let mut first = PostgresWork::new(|_| Box::pin(async { done() }));
                let ended = quick.atomically(new(&quick, "k"), &mut first).await;
                assert!(matches!(ended, Ok(Atomically::Committed { .. })), "{ended:?}");
                go_on(gate).await;
            };
            let (ended, ()) = tokio::join!(performing, meanwhile);
            assert!(matches!(ended, Ok(Atomically::Found(_))), "{isolation:?}: {ended:?}");
        }
    }
}

/// Above READ COMMITTED a transaction has its snapshot before it has the message's lock.
#[tokio::test]
async fn message_that_was_handled_between_snapshot_and_lock_is_not_handled_in_another_round() {
    let what = "rounds of messages on PostgreSQL";
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        let Some(database) = Database::create(what, isolation).await else { return };
        let quick = open(&database.url()).await;
        let gate = late_lock(&database).await;
        let late = open(&format!("{}?application_name=late", database.url())).await;
        let runs = Arc::new(AtomicI64::new(0));
        let ran = runs.clone();
        let mut work = PostgresWork::new(move |_| {
            ran.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { done() })
        });
        let consuming = late.consume(mark_under(&late, "evt-1", 0, "41"), &mut work);
        let meanwhile = async {
            has_its_snapshot(&database).await;
            let again = Mark { round: 1, ..mark_under(&quick, "evt-1", 0, "41") };
            let mut first = PostgresWork::new(|_| Box::pin(async { done() }));
            let consumed = quick.consume(again, &mut first).await;
            assert!(matches!(consumed, Ok(Consumed::Done { .. })), "{consumed:?}");
            go_on(gate).await;
        };
        let (consumed, ()) = tokio::join!(consuming, meanwhile);
        assert!(matches!(consumed, Ok(Consumed::Found { .. })), "{consumed:?}");
        assert_eq!(runs.load(Ordering::Relaxed), 0);
    }
}
