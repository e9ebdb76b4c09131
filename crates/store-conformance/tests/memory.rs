//! The suite on the memory store.

use std::sync::Arc;

use onefold_store::clock::ManualClock;
use onefold_store_conformance::{Business, Made, MemoryStore, MemoryWork, conformance, library_conformance};

async fn make(clock: Arc<ManualClock>) -> Option<Made> {
    Some(Made { store: Arc::new(MemoryStore::new(clock)), keep: Box::new(()) })
}

conformance!(make);

mod library {
    use super::*;

    async fn business(clock: Arc<ManualClock>) -> Option<Business<MemoryStore>> {
        let store = Arc::new(MemoryStore::new(clock));
        let read = store.clone();
        Some(Business {
            store,
            work: Box::new(|script| {
                MemoryWork::new(move |rows| {
                    rows.insert(script.row.clone());
                    script.end()
                })
            }),
            rows: Box::new(move || {
                let rows = read.business();
                Box::pin(async move { rows })
            }),
            keep: Box::new(()),
        })
    }

    library_conformance!(business);
}
