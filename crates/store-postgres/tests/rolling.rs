//! Release N and release N+1 on one store at the same time: the later one is this release with one migration more.

mod asking;
mod handlers;

use std::time::Duration;

use asking::{claim, open, open_with, settle};
use onefold_core::{Kept, OperationId, State};
use onefold_store::{
    Advanced, AtomicStore, Atomically, Claimed, Ended, Entry, Finish, Gravity, OperationStore, StepPut,
    StepStore,
};
use onefold_store_conformance::releases;
use onefold_store_postgres::{
    Address, Migration, OpenError, Options, PostgresStore, PostgresWork, SCHEMA_VERSION,
};
use onefold_testkit::postgres::{Database, Isolation};
use onefold_testkit::wait::DEADLINE;
use tokio::time::{Instant, timeout};
use tokio_postgres::NoTls;

const WHAT: &str = "two releases on one PostgreSQL store";
const LATER: u32 = SCHEMA_VERSION + 1;
const ADDITIVE: &str = "ALTER TABLE onefold.operations ADD COLUMN region bytea;
    CREATE TABLE onefold.regions (name bytea PRIMARY KEY);
    CREATE INDEX operations_region ON onefold.operations (region) WHERE region IS NOT NULL;";

/// Under which the releases work, in this order.
const NAMES: [&str; 5] = ["before", "old", "new", "restarted", "meanwhile"];

fn later(sql: &'static str, min_reader: u32) -> Options {
    Options { test_migration: Some(Migration { sql, min_reader }), ..Options::default() }
}

fn work() -> PostgresWork {
    PostgresWork::new(|_| {
        Box::pin(async { Ended::Finished { finish: Finish::Succeeded, kept: Kept::Nothing, resource: None } })
    })
}

/// Uses the store in each way once.
async fn works(store: &PostgresStore, name: &str) -> [OperationId; 2] {
    let reserved = claim(store, &format!("{name} reserved"));
    let id = reserved.id;
    assert!(matches!(store.claim(reserved).await, Ok(Claimed::Won { .. })), "{name}");
    let step = store.put_step(id, 1, "ship".into(), Kept::Nothing).await;
    assert!(matches!(step, Ok(StepPut::Done)), "{name}: {step:?}");
    let settled = store.advance(settle(id, b"done", None)).await;
    assert!(matches!(settled, Ok(Advanced::Done { .. })), "{name}: {settled:?}");
    let atomic = claim(store, &format!("{name} atomic"));
    let atomic_id = atomic.id;
    let ended = store.atomically(Entry::New(Box::new(atomic)), &mut work()).await;
    assert!(matches!(ended, Ok(Atomically::Committed { .. })), "{name}: {ended:?}");
    store.sweep(100).await.expect("it sweeps");
    let nth = NAMES.iter().position(|known| *known == name).expect("a known name");
    releases::works(store, nth as i64, name, handlers::work).await;
    [id, atomic_id]
}

/// Finds everything that was done under this name.
async fn sees(store: &PostgresStore, ids: [OperationId; 2], what: &str, reader: &str) {
    for id in ids {
        let record = store.read(id).await.expect("it reads").record;
        assert_eq!(record.map(|record| record.state), Some(State::Succeeded), "{what}");
    }
    assert_eq!(store.steps(ids[0]).await.expect("it reads").len(), 1, "{what}");
    releases::finds(store, what, reader, handlers::work).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_before_and_after_an_additive_migration_share_the_store_and_the_old_one_restarts() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let url = database.url();
    let old = open(&url).await;
    let before = works(&old, "before").await;
    let new = open_with(&url, later(ADDITIVE, SCHEMA_VERSION)).await.expect("it migrates");
    assert_eq!(database.ask("SELECT max(version) FROM onefold.migrations").await, LATER.to_string());

    // The connections of the old one were there before the migration, with their plans.
    let by_old = works(&old, "old").await;
    let by_new = works(&new, "new").await;
    drop(old);
    let address = Address::parse(&url).expect("an address");
    let found = PostgresStore::check(&address).await.expect("it can be reached");
    let schema = found.iter().find(|finding| finding.what == "schema").expect("it is looked at");
    assert_eq!(schema.gravity, Gravity::Fine, "{}", schema.says);
    let old = open_with(&url, Options { migrate: false, ..Options::default() }).await;
    let old = old.expect("the old release starts again");
    let restarted = works(&old, "restarted").await;
    for (reader, store) in [("old", &old), ("new", &new)] {
        for (ids, what) in [before, by_old, by_new, restarted].into_iter().zip(NAMES) {
            sees(store, ids, what, reader).await;
        }
    }
    releases::sends_what_waits(&new, &NAMES[..2]).await;
    for n in 0..20 {
        let key = format!("both {n}");
        let (one, two) = tokio::join!(old.claim(claim(&old, &key)), new.claim(claim(&new, &key)));
        let won = [one, two].map(|claimed| matches!(claimed.expect("it works"), Claimed::Won { .. }));
        assert!(won[0] != won[1], "{key} is won once: {won:?}");
    }
}

#[tokio::test]
async fn release_that_a_migration_shuts_out_is_refused_with_what_to_do_and_the_later_one_goes_on() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let url = database.url();
    drop(open(&url).await);
    let renamed = "ALTER TABLE onefold.steps RENAME COLUMN kept TO result";
    let new = open_with(&url, later(renamed, LATER)).await.expect("it migrates");
    for migrate in [true, false] {
        let refused = open_with(&url, Options { migrate, ..Options::default() }).await;
        let refused = refused.err().expect("it must not work on what it does not understand");
        let told = refused.to_string();
        assert!(matches!(refused, OpenError::Newer { found: LATER, min_reader: LATER, .. }), "{told}");
        assert!(told.contains("start the release that migrated it"), "{told}");
    }
    assert_eq!(database.ask("SELECT max(version) FROM onefold.migrations").await, LATER.to_string());
    assert_eq!(new.ready().await, Ok(()));
}

#[tokio::test]
async fn store_that_was_made_before_there_was_a_place_for_it_gets_one_and_tells_nobody_wrong() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let url = database.url();
    drop(open(&url).await);
    database.execute("ALTER TABLE onefold.migrations DROP COLUMN min_reader").await;
    drop(open(&url).await);
    drop(open_with(&url, later(ADDITIVE, SCHEMA_VERSION)).await.expect("it migrates"));
    drop(open(&url).await);
    // A migration of which nobody knows whom it lets work.
    database.execute("UPDATE onefold.migrations SET min_reader = NULL").await;
    let refused = open_with(&url, Options::default()).await.err().expect("it may mean anything");
    assert!(matches!(refused, OpenError::Newer { .. }), "{refused}");
}

/// A session that reads the table of operations in a transaction, as a dump does.
async fn reader(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it connects");
    tokio::spawn(connection);
    let reads =
        "SET application_name = 'nightly dump'; BEGIN; LOCK TABLE onefold.operations IN ACCESS SHARE MODE";
    client.batch_execute(reads).await.expect("it is held");
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migration_that_waits_for_a_dump_lets_requests_pass_and_is_carried_out_afterwards() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let url = database.url();
    let old = open(&url).await;
    let dump = reader(&url).await;
    let migrating = tokio::spawn({
        let url = url.clone();
        async move { open_with(&url, later(ADDITIVE, SCHEMA_VERSION)).await }
    });
    let (begun, mut slowest, mut claims) = (Instant::now(), Duration::ZERO, 0);
    while begun.elapsed() < Duration::from_secs(3) {
        let asked = Instant::now();
        let claimed = old.claim(claim(&old, &format!("meanwhile {claims}"))).await;
        assert!(matches!(claimed, Ok(Claimed::Won { .. })), "{claimed:?}");
        slowest = slowest.max(asked.elapsed());
        claims += 1;
    }
    assert!(!migrating.is_finished(), "the table is held");
    assert!(slowest < Duration::from_secs(2), "a request waited {slowest:?}");
    dump.batch_execute("ROLLBACK").await.expect("it ends");
    let new = timeout(DEADLINE, migrating).await.expect("it is carried out").expect("it ends");
    drop(new.expect("it migrates"));
    assert_eq!(database.ask("SELECT max(version) FROM onefold.migrations").await, LATER.to_string());
}

#[tokio::test]
async fn migration_whose_tables_are_held_for_too_long_says_by_whom_and_leaves_the_store_at_work() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let url = database.url();
    let old = open(&url).await;
    let dump = reader(&url).await;
    let options = Options { migration_wait_max: Duration::from_secs(1), ..later(ADDITIVE, SCHEMA_VERSION) };
    let refused = timeout(DEADLINE, open_with(&url, options)).await.expect("it gives up");
    let refused = refused.err().expect("the table is held");
    let told = refused.to_string();
    assert!(matches!(refused, OpenError::Held { .. }) && told.contains("nightly dump of user"), "{told}");
    works(&old, "meanwhile").await;
    dump.batch_execute("ROLLBACK").await.expect("it ends");
    drop(open_with(&url, later(ADDITIVE, SCHEMA_VERSION)).await.expect("it migrates now"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_a_migration_up_is_named_to_a_role_that_may_not_see_what_others_do() {
    let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
    let (url, name) = (database.url(), database.ask("SELECT current_database()").await);
    // Every connection of this database works as a role that has no other right.
    let role = format!(
        "CREATE ROLE {name}; GRANT CREATE ON DATABASE {name} TO {name}; ALTER DATABASE {name} SET role = '{name}'"
    );
    database.execute(&role).await;
    drop(open(&url).await);
    let dump = reader(&url).await;
    let unseen = database
        .ask(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'nightly dump'
        AND xact_start IS NULL",
        )
        .await;
    assert_eq!(unseen, "1", "the role does not see since when");
    let options = Options { migration_wait_max: Duration::from_secs(1), ..later(ADDITIVE, SCHEMA_VERSION) };
    let refused = timeout(DEADLINE, open_with(&url, options)).await.expect("it gives up");
    let told = refused.err().expect("the table is held").to_string();
    assert!(told.contains("nightly dump of user"), "{told}");
    dump.batch_execute("ROLLBACK").await.expect("it ends");
    drop(dump);
    let gone = format!(
        "SET ROLE none; DROP OWNED BY {name} CASCADE; ALTER DATABASE {name} RESET role; DROP ROLE {name}"
    );
    database.execute(&gone).await;
}

/// As an earlier release left it: the tables of its schema alone, with what stands in them.
async fn back_to(schema: usize, database: &Database) {
    const EARLIER: [&str; 3] = [
        include_str!("../migrations/0001_operations.sql"),
        include_str!("../migrations/0002_library.sql"),
        include_str!("../migrations/0003_messages.sql"),
    ];
    database.execute("ALTER SCHEMA onefold RENAME TO latest").await;
    let first = "CREATE SCHEMA onefold; CREATE TABLE onefold.migrations (
        version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())";
    database.execute(first).await;
    for (n, migration) in EARLIER.iter().take(schema).enumerate() {
        database.execute(migration).await;
        database.execute(&format!("INSERT INTO onefold.migrations (version) VALUES ({})", n + 1)).await;
    }
    let tables = "SELECT string_agg(table_name::text, ' ') FROM information_schema.tables
        WHERE table_schema = 'onefold' AND table_name <> 'migrations'";
    for table in database.ask(tables).await.split(' ') {
        let columns = format!(
            "SELECT string_agg(quote_ident(column_name), ', ') FROM information_schema.columns
            WHERE table_schema = 'onefold' AND table_name = '{table}'"
        );
        let columns = database.ask(&columns).await;
        let rows = format!(
            "DELETE FROM onefold.{table};
            INSERT INTO onefold.{table} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM latest.{table}"
        );
        database.execute(&rows).await;
    }
    database.execute("DROP SCHEMA latest CASCADE").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_an_earlier_schema_is_migrated_with_its_records_and_does_all_that_this_release_can() {
    for schema in [1, 2, 3] {
        let Some(database) = Database::create(WHAT, Isolation::ReadCommitted).await else { return };
        let url = database.url();
        let store = open(&url).await;
        let ids = ["replayed", "running"].map(|key| claim(&store, key).id);
        for key in ["replayed", "running"] {
            assert!(matches!(store.claim(claim(&store, key)).await, Ok(Claimed::Won { .. })));
        }
        let mut worked = Vec::new();
        if schema == 3 {
            worked.push(works(&store, NAMES[0]).await);
        }
        if schema >= 2 {
            let step = store.put_step(ids[1], 1, "ship".into(), Kept::Nothing).await;
            assert!(matches!(step, Ok(StepPut::Done)), "{step:?}");
        }
        let settled = store.advance(settle(ids[0], b"kept", None)).await;
        assert!(matches!(settled, Ok(Advanced::Done { .. })), "{settled:?}");
        let records = async |store: &PostgresStore| {
            let read = async |id| store.read(id).await.expect("it reads").record.expect("a record");
            let mut records = [read(ids[0]).await, read(ids[1]).await];
            records.iter_mut().for_each(|record| record.lease = onefold_core::Lease::None);
            records
        };
        let before = records(&store).await;
        drop(store);
        back_to(schema, &database).await;
        let refused = open_with(&url, Options { migrate: false, ..Options::default() }).await;
        let refused = refused.err().expect("it is to be migrated first");
        assert!(matches!(refused, OpenError::NeedsMigration { .. }), "{refused}");
        let store = open(&url).await;
        assert_eq!(records(&store).await, before, "of schema {schema}");
        let again = store.claim(claim(&store, "replayed")).await;
        assert!(matches!(again, Ok(Claimed::Exists(_))), "{again:?}");
        assert_eq!(store.steps(ids[1]).await.expect("it reads").len(), usize::from(schema >= 2));
        worked.push(works(&store, NAMES[worked.len()]).await);
        for (ids, name) in worked.iter().zip(NAMES) {
            sees(&store, *ids, name, "migrated").await;
        }
        releases::sends_what_waits(&store, &NAMES[..worked.len()]).await;
    }
}
