//! Operators look into the file of a service that keeps its operations beside its own tables.

use std::path::Path;
use std::process::{Command, Output};

use onefold_store_sqlite::{FileUse, Options, SqliteStore};

fn list(path: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_onefold"));
    command.args(["operations", "list", "--store"]).arg(format!("sqlite:{}", path.display()));
    command.output().expect("runs")
}

#[test]
fn operations_of_a_services_own_file_are_listed_and_a_foreign_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let shop = rusqlite::Connection::open(&path).unwrap();
    shop.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();

    let foreign = list(&path);
    assert_eq!(foreign.status.code(), Some(69));
    assert!(String::from_utf8_lossy(&foreign.stderr).contains("another program"), "{foreign:?}");
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'onefold%'";
    assert_eq!(shop.query_row(tables, [], |row| row.get::<_, i64>(0)).unwrap(), 0, "it was left untouched");

    drop(SqliteStore::open(&path, Options { file_use: FileUse::Shared, ..Options::default() }).unwrap());
    let ours = list(&path);
    assert_eq!(ours.status.code(), Some(0), "{ours:?}");
    assert_eq!(String::from_utf8_lossy(&ours.stdout), "no such operation\n");
}
