//! Release N and release N+1 on one file at the same time: the later one is this release with one migration more.

mod asking;

use std::path::Path;

use asking::{claim, options, settle};
use onefold_core::{Kept, State};
use onefold_store::{
    Advanced, AtomicStore, Atomically, Claimed, Ended, Entry, Finish, OperationStore, StepPut, StepStore,
};
use onefold_store_sqlite::{Migration, OpenError, Options, SCHEMA_VERSION, SqliteStore, SqliteWork};
use rusqlite::Connection;

const LATER: u32 = SCHEMA_VERSION + 1;
const ADDITIVE: &str = "ALTER TABLE onefold_operations ADD COLUMN region TEXT;
    CREATE TABLE onefold_regions (name TEXT PRIMARY KEY) STRICT;
    CREATE INDEX onefold_operations_region ON onefold_operations (region) WHERE region IS NOT NULL;";

fn later(sql: &'static str, min_reader: u32) -> Options {
    Options { test_migration: Some(Migration { sql, min_reader }), ..options() }
}

fn work() -> SqliteWork {
    SqliteWork::new(|_| Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None })
}

/// Uses the store in each way once.
async fn works(store: &SqliteStore, name: &str) {
    let reserved = claim(&format!("{name} reserved"));
    let id = reserved.id;
    assert!(matches!(store.claim(reserved).await, Ok(Claimed::Won { .. })), "{name}");
    let step = store.put_step(id, 1, "ship".into(), Kept::Nothing).await;
    assert!(matches!(step, Ok(StepPut::Done)), "{name}: {step:?}");
    let settled = store.advance(settle(id, 1, b"done")).await;
    assert!(matches!(settled, Ok(Advanced::Done { .. })), "{name}: {settled:?}");
    let atomic = Entry::New(Box::new(claim(&format!("{name} atomic"))));
    let ended = store.atomically(atomic, &mut work()).await;
    assert!(matches!(ended, Ok(Atomically::Committed { .. })), "{name}: {ended:?}");
    store.sweep(100).await.expect("it sweeps");
}

async fn sees(store: &SqliteStore, name: &str) {
    for key in ["reserved", "atomic"] {
        let id = claim(&format!("{name} {key}")).id;
        let record = store.read(id).await.expect("it reads").record;
        assert_eq!(record.map(|record| record.state), Some(State::Succeeded), "{name} {key}");
    }
}

fn refused(path: &Path, migrate: bool) -> OpenError {
    SqliteStore::open(path, Options { migrate, ..options() }).err().expect("it is to be refused")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_before_and_after_an_additive_migration_share_the_file_and_the_old_one_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    let old = SqliteStore::open(&path, options()).unwrap();
    works(&old, "before").await;
    let new = SqliteStore::open(&path, later(ADDITIVE, SCHEMA_VERSION)).unwrap();

    // The statements of the old one were prepared before the migration.
    works(&old, "old").await;
    works(&new, "new").await;
    drop(old);
    let old = SqliteStore::open(&path, Options { migrate: false, ..options() }).unwrap();
    works(&old, "restarted").await;
    for store in [&old, &new] {
        for name in ["before", "old", "new", "restarted"] {
            sees(store, name).await;
        }
    }
    let findings = old.check().await.unwrap();
    assert!(findings.iter().any(|finding| finding.says.contains(&format!("schema {LATER}"))), "{findings:?}");
    for n in 0..20 {
        let key = format!("both {n}");
        let (one, two) = tokio::join!(old.claim(claim(&key)), new.claim(claim(&key)));
        let won = [one, two].map(|claimed| matches!(claimed.unwrap(), Claimed::Won { .. }));
        assert!(won[0] != won[1], "{key} is won once: {won:?}");
    }
}

#[tokio::test]
async fn a_release_that_a_migration_shuts_out_is_refused_with_what_to_do_and_the_later_one_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    drop(SqliteStore::open(&path, options()).unwrap());
    let renamed = "ALTER TABLE onefold_scopes RENAME COLUMN live TO living";
    let new = SqliteStore::open(&path, later(renamed, LATER)).unwrap();
    for migrate in [true, false] {
        let error = refused(&path, migrate);
        let told = error.to_string();
        assert!(matches!(error, OpenError::Newer { found: LATER, min_reader: LATER, .. }), "{told}");
        assert!(told.contains("onefold.db") && told.contains("start the release that migrated it"), "{told}");
    }
    assert_eq!(new.ready().await, Ok(()));
}

#[test]
fn a_store_that_was_made_before_there_was_a_place_for_it_gets_one_and_tells_nobody_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    let sql = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    drop(SqliteStore::open(&path, options()).unwrap());
    sql("ALTER TABLE onefold_schema DROP COLUMN min_reader");
    drop(SqliteStore::open(&path, options()).unwrap());
    drop(SqliteStore::open(&path, later(ADDITIVE, SCHEMA_VERSION)).unwrap());
    drop(SqliteStore::open(&path, options()).unwrap());
    // A migration of which nobody knows whom it lets work.
    sql("ALTER TABLE onefold_schema DROP COLUMN min_reader");
    assert!(matches!(refused(&path, true), OpenError::Newer { .. }));
}
