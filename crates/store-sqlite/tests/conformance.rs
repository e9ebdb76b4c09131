//! The suite on SQLite, with and without sealed payloads.

use std::sync::Arc;

use onefold_store::clock::ManualClock;
use onefold_store_conformance::{Made, conformance};
use onefold_store_sqlite::{Options, SqliteStore};

fn make(clock: Arc<ManualClock>, seal_keys: Vec<[u8; 32]>) -> Made {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let options = Options { seal_keys, clock, ..Options::default() };
    let store = SqliteStore::open(directory.path().join("onefold.db"), options).expect("a new store opens");
    Made { store: Arc::new(store), keep: Box::new(directory) }
}

mod plain {
    use super::*;

    async fn make_plain(clock: Arc<ManualClock>) -> Option<Made> {
        Some(make(clock, Vec::new()))
    }

    conformance!(make_plain);
}

mod sealed {
    use super::*;

    async fn make_sealed(clock: Arc<ManualClock>) -> Option<Made> {
        Some(make(clock, vec![[7; 32], [8; 32]]))
    }

    conformance!(make_sealed);
}
