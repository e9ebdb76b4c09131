//! Release N and release N+1 on one file at the same time: the later one is this release with one migration more.

mod asking;
mod handlers;

use std::path::Path;

use asking::{claim, options, settle};
use onefold_core::{Kept, State};
use onefold_store::{
    Advanced, AtomicStore, Atomically, Claimed, Ended, Entry, Finish, OperationStore, StepPut, StepStore,
};
use onefold_store_conformance::releases;
use onefold_store_sqlite::{Migration, OpenError, Options, SCHEMA_VERSION, SqliteStore, SqliteWork};
use rusqlite::Connection;

const LATER: u32 = SCHEMA_VERSION + 1;
const ADDITIVE: &str = "ALTER TABLE onefold_operations ADD COLUMN region TEXT;
    CREATE TABLE onefold_regions (name TEXT PRIMARY KEY) STRICT;
    CREATE INDEX onefold_operations_region ON onefold_operations (region) WHERE region IS NOT NULL;";

/// Under which the releases work, in this order.
const NAMES: [&str; 4] = ["before", "old", "new", "restarted"];

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
    let nth = NAMES.iter().position(|known| *known == name).expect("a known name");
    releases::works(store, nth as i64, name, handlers::work).await;
}

/// Finds everything that was done under this name.
async fn sees(store: &SqliteStore, name: &str, reader: &str) {
    for key in ["reserved", "atomic"] {
        let id = claim(&format!("{name} {key}")).id;
        let record = store.read(id).await.expect("it reads").record;
        assert_eq!(record.map(|record| record.state), Some(State::Succeeded), "{name} {key}");
    }
    releases::finds(store, name, reader, handlers::work).await;
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
    for (reader, store) in [("old", &old), ("new", &new)] {
        for name in NAMES {
            sees(store, name, reader).await;
        }
    }
    releases::sends_what_waits(&new, &NAMES[..2]).await;
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

/// As an earlier release left it: the tables of the first schema alone, with what stands in them.
fn back_to_the_first_schema(path: &Path) {
    const FIRST: &str = include_str!("../migrations/0001_operations.sql");
    let file = Connection::open(path).unwrap();
    let names = |sql: &str| -> Vec<String> {
        let mut names = file.prepare(sql).unwrap();
        let names = names.query_map([], |row| row.get(0)).unwrap();
        names.collect::<Result<_, _>>().unwrap()
    };
    let tables = names("SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'onefold_%'");
    let indexes = names("SELECT name FROM sqlite_schema WHERE type = 'index' AND name LIKE 'onefold_%'");
    for index in indexes {
        file.execute_batch(&format!("DROP INDEX {index}")).unwrap();
    }
    for table in &tables {
        file.execute_batch(&format!("ALTER TABLE {table} RENAME TO latest_{table}")).unwrap();
    }
    file.execute_batch(FIRST).unwrap();
    for table in &tables {
        let columns = names(&format!("SELECT name FROM pragma_table_info('{table}')")).join(", ");
        if !columns.is_empty() && table != "onefold_schema" {
            let rows = format!(
                "DELETE FROM {table}; INSERT INTO {table} ({columns}) SELECT {columns} FROM latest_{table}"
            );
            file.execute_batch(&rows).unwrap();
        }
        file.execute_batch(&format!("DROP TABLE latest_{table}")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_the_first_schema_is_migrated_with_its_records_and_does_all_that_this_release_can() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    let store = SqliteStore::open(&path, options()).unwrap();
    for key in ["replayed", "running"] {
        assert!(matches!(store.claim(claim(key)).await, Ok(Claimed::Won { .. })));
    }
    let settled = store.advance(settle(claim("replayed").id, 1, b"kept")).await;
    assert!(matches!(settled, Ok(Advanced::Done { .. })), "{settled:?}");
    let records = async |store: &SqliteStore| {
        let read = async |key| store.read(claim(key).id).await.unwrap().record.expect("a record");
        [read("replayed").await, read("running").await].map(|mut record| {
            record.lease = onefold_core::Lease::None;
            record
        })
    };
    let before = records(&store).await;
    drop(store);
    back_to_the_first_schema(&path);
    assert!(matches!(refused(&path, false), OpenError::NeedsMigration { found: 1, needed: SCHEMA_VERSION }));
    let store = SqliteStore::open(&path, options()).unwrap();
    assert_eq!(records(&store).await, before);
    let again = store.claim(claim("replayed")).await;
    assert!(matches!(again, Ok(Claimed::Exists(_))), "{again:?}");
    works(&store, "before").await;
    sees(&store, "before", "migrated").await;
    releases::sends_what_waits(&store, &["before"]).await;
}
