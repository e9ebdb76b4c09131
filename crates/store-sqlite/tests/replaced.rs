//! A file that is not at its path any more is not written to: what would be acknowledged there would be lost.

use std::os::unix::fs::PermissionsExt;

use onefold_store::{OperationStore, StoreError};
use onefold_store_sqlite::{Options, SqliteStore};

fn refused(answer: Result<(), StoreError>) -> bool {
    matches!(answer, Err(StoreError::Unavailable(why)) if why.contains("removed or replaced"))
}

#[tokio::test]
async fn store_whose_file_was_removed_takes_nothing_until_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let (path, aside) = (directory.path().join("onefold.db"), directory.path().join("aside.db"));
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    store.ready().await.unwrap();
    std::fs::rename(&path, &aside).unwrap();
    assert!(refused(store.ready().await));
    std::fs::rename(&aside, &path).unwrap();
    store.ready().await.unwrap();
}

#[tokio::test]
async fn store_whose_file_was_replaced_takes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    std::fs::rename(&path, directory.path().join("aside.db")).unwrap();
    std::fs::write(&path, b"").unwrap();
    assert!(refused(store.ready().await));
}

#[test]
fn new_store_is_readable_by_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("onefold.db");
    let _store = SqliteStore::open(&path, Options::default()).unwrap();
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let mode = file.as_ref().unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?}", file.unwrap().path());
    }
}
