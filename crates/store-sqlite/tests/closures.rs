//! Closures of atomic mode on SQLite: what they may not do, and that their mishaps are their own.

mod asking;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use asking::{claim, options};
use onefold_core::{Kept, TypedValue};
use onefold_store::{
    AtomicStore, Atomically, Claim, Claimed, Ended, Entry, Finish, OperationStore, StoreError,
};
use onefold_store_sqlite::{Applied, FileUse, Options, SqliteStore, SqliteTx, SqliteWork};
use rusqlite::{Connection, ErrorCode};
use tokio::time::Instant;

struct Shop {
    store: Arc<SqliteStore>,
    path: PathBuf,
    _directory: tempfile::TempDir,
}

const TABLES: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, sku TEXT UNIQUE);
    CREATE TABLE customers (id INTEGER PRIMARY KEY);
    CREATE TABLE parcels (customer INTEGER REFERENCES customers (id) DEFERRABLE INITIALLY DEFERRED);";

fn shop_with(options: Options) -> Shop {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let store = SqliteStore::open(&path, Options { file_use: FileUse::Shared, ..options }).unwrap();
    Connection::open(&path).unwrap().execute_batch(TABLES).unwrap();
    Shop { store: Arc::new(store), path, _directory: directory }
}

fn shop() -> Shop {
    shop_with(options())
}

fn done() -> Ended {
    let kept = Kept::Value(TypedValue { version: 1, json: b"null".to_vec() });
    Ended::Finished { finish: Finish::Succeeded, kept, resource: None }
}

fn entry(key: &str) -> Entry {
    Entry::New(Box::new(claim(key)))
}

impl Shop {
    async fn run(
        &self,
        key: &str,
        closure: impl FnMut(&mut SqliteTx<'_>) -> Ended + Send + 'static,
    ) -> Result<Atomically, StoreError> {
        self.store.atomically(entry(key), &mut SqliteWork::new(closure)).await
    }

    async fn orders(&self, key: &str, sku: &'static str) -> Result<Atomically, StoreError> {
        self.run(key, move |tx| order(tx, sku)).await
    }

    /// Keeps the writer from its lock, so that all who come meanwhile share a transaction.
    fn locked(&self) -> Connection {
        let lock = Connection::open(&self.path).unwrap();
        lock.execute_batch("BEGIN IMMEDIATE").unwrap();
        lock
    }

    /// Lets it go once so many wait.
    async fn unlock(&self, lock: Connection, waiting: u64) {
        let deadline = Instant::now() + Duration::from_secs(1);
        while self.store.stats().waiting < waiting {
            assert!(Instant::now() < deadline, "every job is on its way");
            tokio::task::yield_now().await;
        }
        lock.execute_batch("COMMIT").unwrap();
    }

    fn count(&self, table: &str) -> i64 {
        let connection = Connection::open(&self.path).unwrap();
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    async fn has_record(&self, key: &str) -> bool {
        self.store.read(claim(key).id).await.unwrap().record.is_some()
    }
}

fn order(tx: &mut SqliteTx<'_>, sku: &str) -> Ended {
    tx.execute("INSERT INTO orders (sku) VALUES (?1)", [sku]).unwrap();
    done()
}

fn is_denied<A>(result: rusqlite::Result<A>) -> bool {
    result.is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::AuthorizationForStatementDenied))
}

#[tokio::test]
async fn statements_that_would_leave_the_transaction_or_touch_the_layer_are_denied() {
    let shop = shop();
    shop.orders("warm", "so that the statements of the layer are prepared").await.unwrap();
    for sql in [
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SAVEPOINT job",
        "RELEASE job",
        "ROLLBACK TO job",
        "PRAGMA synchronous = OFF",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version",
        "ATTACH 'other.db' AS other",
        "DETACH main",
        "SELECT * FROM onefold_operations",
        "SELECT * FROM ONEFOLD_META",
        "DELETE FROM onefold_effects",
        "UPDATE onefold_outcomes SET state = 4",
        "INSERT INTO onefold_effects VALUES ('x', x'00', 1)",
        "DROP TABLE onefold_leases",
        "ALTER TABLE onefold_leases ADD COLUMN more",
        "CREATE INDEX mine ON onefold_operations (key)",
        "CREATE TABLE onefold_more (x)",
        "CREATE TRIGGER t AFTER INSERT ON onefold_outcomes BEGIN SELECT 1; END",
        "CREATE TEMP TRIGGER t AFTER INSERT ON onefold_outcomes BEGIN SELECT 1; END",
    ] {
        let run = shop.run(sql, move |tx| {
            assert!(is_denied(tx.execute_batch(sql)), "{sql}");
            assert!(is_denied(tx.prepare(sql).map(drop)), "{sql}");
            assert!(is_denied(tx.prepare_once(sql).map(drop)), "{sql}");
            done()
        });
        let ended = run.await.unwrap();
        assert!(matches!(ended, Atomically::Committed { .. }), "{sql}: {ended:?}");
    }
}

#[tokio::test]
async fn a_view_or_trigger_of_the_business_is_no_way_around_the_fence() {
    let shop = shop();
    let sneaky = "CREATE VIEW peek AS SELECT key FROM onefold_operations;
        CREATE TRIGGER undo AFTER INSERT ON customers BEGIN DELETE FROM onefold_effects; END";
    Connection::open(&shop.path).unwrap().execute_batch(sneaky).unwrap();
    let ended = shop.run("k", |tx| {
        assert!(tx.execute_batch("SELECT * FROM peek").is_err());
        assert!(tx.execute_batch("INSERT INTO customers VALUES (1)").is_err());
        done()
    });
    assert!(matches!(ended.await.unwrap(), Atomically::Committed { .. }));
}

#[tokio::test]
async fn a_closure_that_fails_fails_alone_among_those_who_share_its_commit() {
    let shop = shop();
    let mut all = tokio::task::JoinSet::new();
    for n in 0..60 {
        let store = shop.store.clone();
        all.spawn(async move {
            let mut work = SqliteWork::new(move |tx| {
                tx.execute("INSERT INTO orders (sku) VALUES (?1)", [n]).unwrap();
                match n % 3 {
                    0 => done(),
                    1 => Ended::NotDone,
                    _ => panic!("a bug of the business"),
                }
            });
            (n, store.atomically(entry(&format!("k-{n}")), &mut work).await.unwrap())
        });
    }
    for (n, ended) in all.join_all().await {
        match n % 3 {
            0 => assert!(matches!(ended, Atomically::Committed { .. }), "{ended:?}"),
            1 => assert_eq!(ended, Atomically::NotDone),
            _ => assert!(matches!(&ended, Atomically::Stopped(why) if why.contains("a bug")), "{ended:?}"),
        }
    }
    assert_eq!((shop.count("orders"), shop.count("onefold_operations")), (20, 20));
}

#[tokio::test]
async fn a_closure_that_rolls_everything_back_is_not_acknowledged_and_the_store_goes_on() {
    let shop = shop();
    shop.orders("first", "lamp").await.unwrap();
    let ended = shop.run("second", |tx| {
        tx.execute("INSERT INTO orders (sku) VALUES ('chair')", []).unwrap();
        assert!(tx.execute("INSERT OR ROLLBACK INTO orders (sku) VALUES ('lamp')", []).is_err());
        // It would be a transaction of its own.
        assert!(tx.execute("INSERT INTO orders (sku) VALUES ('sofa')", []).is_err());
        done()
    });
    let ended = ended.await;
    assert!(matches!(ended, Err(StoreError::Unavailable(_))), "{ended:?}");
    assert!(!shop.has_record("second").await);
    assert_eq!(shop.count("orders"), 1);
    assert!(matches!(shop.orders("third", "table").await.unwrap(), Atomically::Committed { .. }));
}

const ENDLESS: &str =
    "WITH RECURSIVE n (i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";

#[tokio::test]
async fn a_statement_that_does_not_end_is_stopped_and_nothing_is_kept() {
    let shop = shop_with(Options { closure_time_max: Duration::from_millis(50), ..options() });
    let ended = shop.run("k", |tx| {
        let ended = order(tx, "lamp");
        assert!(tx.query_row(ENDLESS, [], |_| Ok(())).is_err());
        ended
    });
    let ended = ended.await.unwrap();
    assert!(matches!(&ended, Atomically::Stopped(why) if why.contains("50ms")), "{ended:?}");
    assert!(!shop.has_record("k").await);
    assert_eq!(shop.count("orders"), 0);
    assert!(matches!(shop.orders("k", "lamp").await.unwrap(), Atomically::Committed { .. }));
}

#[tokio::test]
async fn a_broken_deferred_constraint_is_found_and_harms_nobody_else() {
    let shop = shop();
    let parcel = |tx: &mut SqliteTx<'_>| {
        tx.execute("INSERT INTO parcels VALUES (7)", []).unwrap();
        done()
    };
    let ended = shop.run("alone", parcel).await.unwrap();
    assert!(matches!(&ended, Atomically::Stopped(why) if why.contains("deferred")), "{ended:?}");

    // Together with others nobody knows whose it is, so all of them are asked to come again, one by one.
    let (mut bad, mut good) =
        (SqliteWork::new(parcel), SqliteWork::new(|tx: &mut SqliteTx<'_>| order(tx, "lamp")));
    let contended = || Ok(Atomically::Contended(String::new()));
    let (mut first, mut second) = (contended(), contended());
    for round in 0..3 {
        let bad = async {
            match first {
                Ok(Atomically::Contended(_)) => shop.store.atomically(entry("bad"), &mut bad).await,
                ended => ended,
            }
        };
        let good = async {
            match second {
                Ok(Atomically::Contended(_)) => shop.store.atomically(entry("good"), &mut good).await,
                ended => ended,
            }
        };
        let lock = shop.locked();
        let both = async { tokio::join!(bad, good) };
        let waiting = 2 * u64::from(round == 0);
        let ((one, other), ()) = tokio::join!(both, shop.unlock(lock, waiting));
        (first, second) = (one, other);
    }
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(matches!(first, Atomically::Stopped(_)), "{first:?}");
    assert!(matches!(second, Atomically::Committed { .. }), "{second:?}");
    assert_eq!((shop.count("parcels"), shop.count("orders")), (0, 1));
}

#[tokio::test]
async fn a_foreign_lock_is_contention_and_the_closure_has_not_run() {
    let shop = shop();
    let other = Connection::open(&shop.path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ended = shop.run("k", |_| unreachable!("the lock is held by another")).await.unwrap();
    assert!(matches!(ended, Atomically::Contended(_)), "{ended:?}");
    other.execute_batch("COMMIT").unwrap();
    assert!(matches!(shop.orders("k", "lamp").await.unwrap(), Atomically::Committed { .. }));
}

#[tokio::test]
async fn a_payload_that_is_too_big_leaves_nothing_of_its_closure() {
    let shop = shop_with(Options { record_bytes_max: 4096, ..options() });
    let ended = shop.run("k", |tx| {
        order(tx, "lamp");
        let kept = Kept::Value(TypedValue { version: 1, json: vec![b' '; 8192] });
        Ended::Finished { finish: Finish::Succeeded, kept, resource: None }
    });
    // The other one makes the transaction commit that both share.
    let lock = shop.locked();
    let (ended, other, ()) = tokio::join!(ended, shop.orders("other", "chair"), shop.unlock(lock, 2));
    assert!(matches!(ended, Err(StoreError::Refused(_))), "{ended:?}");
    assert!(matches!(other, Ok(Atomically::Committed { .. })), "{other:?}");
    assert!(!shop.has_record("k").await);
    assert_eq!(shop.count("orders"), 1);
}

#[tokio::test]
async fn an_effect_is_first_once_whatever_asks_for_it_and_goes_with_a_rollback() {
    let shop = shop();
    let asks = |ends: fn() -> Ended, first: bool| {
        move |tx: &mut SqliteTx<'_>| {
            assert_eq!(tx.effect("order-5001/ORDER_CONFIRMED").unwrap(), first);
            assert!(tx.effect(&format!("{}/OTHER", tx.operation())).unwrap());
            ends()
        }
    };
    assert_eq!(shop.run("a", asks(|| Ended::NotDone, true)).await.unwrap(), Atomically::NotDone);
    for (key, first) in [("b", true), ("c", false), ("d", false)] {
        let ended = shop.run(key, asks(done, first)).await.unwrap();
        assert!(matches!(ended, Atomically::Committed { .. }), "{ended:?}");
    }
    assert_eq!(shop.count("onefold_effects"), 4);
}

#[tokio::test]
async fn b84_an_older_version_is_marked_and_an_equal_one_has_no_effect() {
    let shop = shop();
    for (key, version, expected) in [
        ("updated", 2, Applied::Newer),
        ("created", 1, Applied::Superseded),
        ("again", 2, Applied::Equal),
        ("later", 3, Applied::Newer),
    ] {
        let applies = move |tx: &mut SqliteTx<'_>| {
            assert_eq!(tx.apply_if_newer("sub_1", version).unwrap(), expected, "{key}");
            assert_eq!(tx.apply_if_newer(key, version).unwrap(), Applied::Newer, "another entity");
            done()
        };
        let ended = shop.run(key, applies).await.unwrap();
        assert!(matches!(ended, Atomically::Committed { .. }), "{ended:?}");
    }
    assert_eq!(shop.count("onefold_superseded WHERE entity = 'sub_1' AND version = 1"), 1, "not lost");
}

fn service(path: &Path, journal: &str) -> Connection {
    let service = Connection::open(path).unwrap();
    service.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |_| Ok(())).unwrap();
    service.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    service.execute_batch("PRAGMA user_version = 42; PRAGMA application_id = 77").unwrap();
    service
}

#[tokio::test]
async fn a_services_own_file_keeps_what_it_has_and_gets_the_tables() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let service = service(&path, "WAL");
    let shared = || Options { file_use: FileUse::Shared, ..options() };
    let refused = SqliteStore::open(&path, Options { migrate: false, ..shared() }).err().unwrap();
    assert!(refused.to_string().contains("onefold store migrate"), "{refused}");
    for _ in 0..2 {
        let store = SqliteStore::open(&path, shared()).unwrap();
        let claimed: Claimed = store.claim(Claim { ..claim("k") }).await.unwrap();
        drop(claimed);
    }
    let number = |sql: &str| service.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(number("PRAGMA user_version"), 42);
    assert_eq!(number("PRAGMA application_id"), 77);
    assert_eq!((number("SELECT x FROM t"), number("SELECT count(*) FROM onefold_operations")), (1, 1));
    drop(service);
    assert!(SqliteStore::open(&path, options()).is_err(), "it is no file of the layer's own");
}

#[test]
fn a_services_file_without_the_log_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    drop(service(&path, "DELETE"));
    let before = std::fs::read(&path).unwrap();
    let shared = Options { file_use: FileUse::Shared, ..options() };
    let refused = SqliteStore::open(&path, shared).err().unwrap();
    assert!(refused.to_string().contains("PRAGMA journal_mode = WAL"), "{refused}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
