//! Files that are refused, each with its own sentence, and left as they are.

mod asking;

use std::path::Path;
use std::sync::Arc;

use asking::{claim, options, settle};
use onefold_core::{Kept, State, StoreTime};
use onefold_store::clock::ManualClock;
use onefold_store::{Gravity, OperationStore};
use onefold_store_sqlite::{OpenError, Options, SCHEMA_VERSION, SqliteStore};
use onefold_testkit::logged::Logged;
use rusqlite::Connection;

fn refused(path: &Path, options: Options) -> OpenError {
    let before = std::fs::read(path).ok();
    let Err(error) = SqliteStore::open(path, options) else { panic!("{} was to be refused", path.display()) };
    assert_eq!(std::fs::read(path).ok(), before, "the file is as it was: {error}");
    let beside = std::fs::read_dir(path.parent().unwrap()).map_or(0, Iterator::count);
    assert!(beside <= 1, "nothing was left beside it: {error}");
    error
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_path_without_its_directory_is_refused() {
    let directory = directory();
    let error = refused(&directory.path().join("missing/onefold.db"), options());
    assert!(matches!(&error, OpenError::NoDirectory(path) if path.ends_with("missing")), "{error}");
    assert!(!directory.path().join("missing").exists());
}

#[test]
fn a_text_file_a_short_file_and_a_directory_are_no_databases() {
    for content in
        [&b"Dear diary, this is certainly longer than the header of a database would be. "[..], b"x"]
    {
        let directory = directory();
        let path = directory.path().join("notes.txt");
        std::fs::write(&path, content.repeat(3)).unwrap();
        let error = refused(&path, options());
        assert!(matches!(error, OpenError::NotADatabase(_)), "{error}");
    }
    let directory = directory();
    let inside = directory.path().join("a-directory");
    std::fs::create_dir(&inside).unwrap();
    assert!(matches!(SqliteStore::open(&inside, options()), Err(OpenError::NotADatabase(_))));
}

#[test]
fn a_database_of_another_program_is_refused_whatever_its_journal() {
    for journal in ["DELETE", "WAL"] {
        let directory = directory();
        let path = directory.path().join("app.db");
        let other = Connection::open(&path).unwrap();
        other.query_row(&format!("PRAGMA journal_mode = {journal}"), [], |_| Ok(())).unwrap();
        other.execute_batch("CREATE TABLE t (x); PRAGMA user_version = 1").unwrap();
        other.close().unwrap();
        let error = refused(&path, options());
        assert!(matches!(error, OpenError::Foreign(_)), "{error}");
    }
}

/// Even looking at it through SQLite would fold the log of a crashed program into its database.
#[test]
fn a_database_of_another_program_that_crashed_is_not_even_recovered() {
    let (theirs, directory) = (directory(), directory());
    let other = Connection::open(theirs.path().join("app.db")).unwrap();
    other.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    other.execute_batch("CREATE TABLE t (x); PRAGMA wal_checkpoint; INSERT INTO t VALUES (1)").unwrap();
    let files = ["app.db", "app.db-wal"];
    for file in files {
        std::fs::copy(theirs.path().join(file), directory.path().join(file)).unwrap();
    }
    let contents = || files.map(|file| std::fs::read(directory.path().join(file)).ok());
    let before = contents();
    let error = SqliteStore::open(directory.path().join("app.db"), options()).err().unwrap();
    assert!(matches!(error, OpenError::Foreign(_)), "{error}");
    assert!(contents() == before, "its files were changed");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn a_store_of_a_later_release_that_shuts_this_one_out_is_refused() {
    let directory = directory();
    let path = directory.path().join("onefold.db");
    drop(SqliteStore::open(&path, options()).unwrap());
    let connection = Connection::open(&path).unwrap();
    let later = SCHEMA_VERSION + 1;
    connection.execute("UPDATE onefold_schema SET version = ?1, min_reader = ?1", [later]).unwrap();
    connection.close().unwrap();
    let error = refused(&path, options());
    assert!(matches!(error, OpenError::Newer { found, known, .. } if found == known + 1), "{error}");
}

#[test]
fn a_store_that_needs_migration_says_which_command_to_run() {
    let directory = directory();
    let path = directory.path().join("onefold.db");
    let error = refused(&path, Options { migrate: false, ..options() });
    assert!(matches!(error, OpenError::Absent(_)), "{error}");
    assert!(error.to_string().contains("onefold store migrate"), "{error}");
    assert!(!path.exists());
    drop(SqliteStore::open(&path, options()).unwrap());
    SqliteStore::open(&path, Options { migrate: false, ..options() }).unwrap();
}

#[test]
fn a_store_that_another_process_holds_is_locked() {
    let directory = directory();
    let path = directory.path().join("onefold.db");
    drop(SqliteStore::open(&path, options()).unwrap());
    let holder = Connection::open(&path).unwrap();
    holder.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let error = SqliteStore::open(&path, options()).err().unwrap();
    assert!(matches!(error, OpenError::Locked(_)), "{error}");
}

#[test]
fn a_read_only_file_is_refused() {
    let directory = directory();
    let path = directory.path().join("onefold.db");
    drop(SqliteStore::open(&path, options()).unwrap());
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&path, permissions).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
        asking::skipped("a_read_only_file_is_refused", "this user may write files that are read-only");
        return;
    }
    let error = refused(&path, options());
    assert!(matches!(error, OpenError::ReadOnly(_)), "{error}");
}

#[tokio::test]
async fn a_sealed_store_opens_with_its_keys_only_and_keys_can_be_rotated() {
    let (old, new, other) = ([1; 32], [2; 32], [3; 32]);
    let with = |keys: &[[u8; 32]]| Options { seal_keys: keys.to_vec(), ..options() };
    let directory = directory();
    let path = directory.path().join("onefold.db");
    let store = SqliteStore::open(&path, with(&[old])).unwrap();
    let id = store.claim(claim("k")).await.map(|_| claim("k").id).unwrap();
    store.advance(settle(id, 1, b"secret")).await.unwrap();
    drop(store);

    assert!(matches!(refused(&path, with(&[])), OpenError::NoKey(_)));
    let error = refused(&path, with(&[other]));
    assert!(matches!(error, OpenError::OtherKey(_)), "{error}");

    let store = SqliteStore::open(&path, with(&[new, old])).unwrap();
    let record = store.read(id).await.unwrap().record.unwrap();
    assert!(matches!(&record.kept, Kept::Full(answer) if answer.body == b"secret"));
    drop(store);
    assert!(
        matches!(refused(&path, with(&[new])), OpenError::OtherKey(_)),
        "records are sealed under the old key"
    );

    Connection::open(&path).unwrap().execute("UPDATE onefold_outcomes SET kept = NULL", []).unwrap();
    drop(SqliteStore::open(&path, with(&[new])).unwrap());
    assert!(matches!(refused(&path, with(&[old])), OpenError::OtherKey(_)), "the old key is retired");
}

#[tokio::test]
async fn a_plain_store_is_sealed_from_the_first_key_on_and_reads_what_it_had() {
    let directory = directory();
    let path = directory.path().join("onefold.db");
    let store = SqliteStore::open(&path, options()).unwrap();
    store.claim(claim("plain")).await.unwrap();
    store.advance(settle(claim("plain").id, 1, b"plain")).await.unwrap();
    drop(store);
    let sealed = || Options { seal_keys: vec![[1; 32]], ..options() };
    let store = SqliteStore::open(&path, sealed()).unwrap();
    let record = store.read(claim("plain").id).await.unwrap().record.unwrap();
    assert_eq!(record.state, State::Succeeded);
    assert!(matches!(&record.kept, Kept::Full(answer) if answer.body == b"plain"));
    drop(store);
    assert!(matches!(refused(&path, options()), OpenError::NoKey(_)));
}

#[tokio::test]
async fn a_sealed_payload_is_in_no_file_of_the_store() {
    let directory = directory();
    let path = directory.path().join("onefold.db");
    for (seal_keys, shows) in [(Vec::new(), true), (vec![[1; 32]], false)] {
        let _ = std::fs::remove_file(&path);
        let store = SqliteStore::open(&path, Options { seal_keys, ..options() }).unwrap();
        store.claim(claim("k")).await.unwrap();
        store.advance(settle(claim("k").id, 1, b"a-secret-of-the-customer")).await.unwrap();
        let mut seen = false;
        for file in std::fs::read_dir(directory.path()).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            seen |= bytes.windows(24).any(|window| window == b"a-secret-of-the-customer");
        }
        assert_eq!(seen, shows);
    }
}

#[test]
fn the_identity_secret_is_the_same_after_every_open_and_another_in_another_store() {
    let digest = |path: &Path| {
        let store = Arc::new(SqliteStore::open(path, options()).unwrap());
        onefold_core::FingerprintBuilder::new(store.identity_key()).part("a", b"b").finish()
    };
    let directory = directory();
    let (one, two) = (directory.path().join("one.db"), directory.path().join("two.db"));
    assert_eq!(digest(&one), digest(&one));
    assert_ne!(digest(&one), digest(&two));
}

#[test]
fn options_never_show_the_keys() {
    let shown = format!("{:?}", Options { seal_keys: vec![[250; 32]], ..options() });
    assert!(!shown.contains("250"), "{shown}");
}

#[tokio::test]
async fn a_host_whose_clock_is_behind_the_stores_latest_time_is_told() {
    let directory = directory();
    let path = directory.path().join("onefold.db");
    let clock = Arc::new(ManualClock::at(StoreTime(1_700_000_000_000)));
    let at = || Options { clock: clock.clone(), ..Options::default() };
    let told = async |store: &SqliteStore| {
        let findings = store.check().await.unwrap();
        findings.into_iter().find(|finding| finding.what == "clock").expect("it is looked at")
    };
    let logged = Logged::here();
    let store = SqliteStore::open(&path, at()).unwrap();
    store.claim(claim("k-1")).await.unwrap();
    assert_eq!(told(&store).await.gravity, Gravity::Fine);
    drop(store);
    assert!(logged.warnings("check=\"clock\"").is_empty());
    clock.set_wall(StoreTime(1_700_000_000_000 - 3_600_000));
    let stepped_back = told(&SqliteStore::open(&path, at()).unwrap()).await;
    assert_eq!(logged.warnings("check=\"clock\"").len(), 1, "at the start");
    assert_eq!(stepped_back.gravity, Gravity::Warning);
    for value in ["2023-11-14T21:13:20.000Z", "2023-11-14T22:13:20", "3600 s later"] {
        assert!(stepped_back.says.contains(value), "{}", stepped_back.says);
    }
    clock.set_wall(StoreTime(1_700_000_000_000 + 3_600_000));
    assert_eq!(told(&SqliteStore::open(&path, at()).unwrap()).await.gravity, Gravity::Fine);
    assert_eq!(logged.warnings("check=\"clock\"").len(), 1);
}
