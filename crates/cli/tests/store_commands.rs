//! Commands on a store that name it by a file of settings, or that a later release has migrated.

use std::path::Path;
use std::process::{Command, Output};

use onefold_store_sqlite::{Migration, Options, SCHEMA_VERSION, SqliteStore};

const SETTINGS: &str = "
[upstream]
url = \"http://127.0.0.1:3000\"

[claims]
keys = [\"env:NOBODY_HAS_THIS_KEY\"]

[[inbox]]
source = \"stripe\"
scheme = \"stripe\"
secrets = [\"env:NOBODY_HAS_THIS_SECRET\"]
forward = { url = \"http://127.0.0.1:3001/hooks\" }

[[destination]]
name = \"hook\"
kind = \"http\"
url = \"file:/no/such/address\"
secrets = [\"file:/no/such/secret\"]
";

fn command(directory: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onefold")).args(args).current_dir(directory).output().expect("runs")
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn commands_that_read_want_no_secret_but_the_keys_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(directory.path().join("onefold.db"), Options::default()).unwrap());
    let config = directory.path().join("onefold.toml");
    std::fs::write(&config, SETTINGS).unwrap();
    for line in [
        "store check",
        "store stats",
        "operations list",
        "inbox list",
        "outbox list",
        "permits list",
        "store migrate",
        "store sweep",
    ] {
        let ended = command(directory.path(), &[&words(line)[..], &["--config", "onefold.toml"]].concat());
        assert_eq!(ended.status.code(), Some(0), "{line}: {ended:?}");
    }
    // What it needs all secrets for still wants them.
    let serve = command(directory.path(), &["serve", "--config", "onefold.toml"]);
    assert_eq!(serve.status.code(), Some(2), "{serve:?}");
    for (more, said) in [
        ("[encryption]\nkeys = [\"env:NOBODY_HAS_THIS_EITHER\"]\n", "NOBODY_HAS_THIS_EITHER"),
        ("[limitz]\n", "limitz"),
    ] {
        std::fs::write(&config, format!("{SETTINGS}{more}")).unwrap();
        let ended = command(directory.path(), &["store", "stats", "--config", "onefold.toml"]);
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), told.contains(said)), (Some(2), true), "{more}: {told}");
    }
}

#[test]
fn migrating_a_store_of_a_later_release_says_whose_schema_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    drop(SqliteStore::open(&path, Options::default()).unwrap());
    let said = |directory: &Path| {
        let ended = command(directory, &["store", "migrate"]);
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    let own = said(directory.path());
    assert!(own.contains("the schema of this release"), "{own}");
    let later = Migration { sql: "CREATE TABLE onefold_regions (name TEXT) STRICT", min_reader: 1 };
    drop(SqliteStore::open(&path, Options { test_migration: Some(later), ..Options::default() }).unwrap());
    let told = said(directory.path());
    assert!(!told.contains("the schema of this release"), "{told}");
    assert!(told.contains(&format!("schema {} of a later release", SCHEMA_VERSION + 1)), "{told}");
}
