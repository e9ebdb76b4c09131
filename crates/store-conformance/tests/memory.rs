//! The suite on the memory store.

use std::sync::Arc;

use onefold_store::clock::ManualClock;
use onefold_store_conformance::{Made, MemoryStore, conformance};

async fn make(clock: Arc<ManualClock>) -> Option<Made> {
    Some(Made { store: Arc::new(MemoryStore::new(clock)), keep: Box::new(()) })
}

conformance!(make);
