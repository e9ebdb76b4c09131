//! The suite on the memory store.

use std::sync::Arc;

use onefold_store::clock::ManualClock;
use onefold_store_conformance::{Made, MemoryStore, conformance};

fn make(clock: Arc<ManualClock>) -> Made {
    Made { store: Arc::new(MemoryStore::new(clock)), keep: Box::new(()) }
}

conformance!(make);
