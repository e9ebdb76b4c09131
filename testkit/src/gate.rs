//! A gate that a test opens when it has seen enough.
//!
//! Takes the place of delays: a peer that stands before a closed gate stays there exactly as long as the
//! test needs, on a fast machine and on a slow one. A gate opens once and stays open.

use std::sync::Arc;

use tokio::sync::watch;

/// A gate, closed at first; clones are one gate.
#[derive(Clone, Debug)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn closed() -> Self {
        Self { open: Arc::new(watch::Sender::new(false)) }
    }

    /// Opens the gate for all who stand before it and all who come later.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until the gate is open.
    pub async fn passed(&self) {
        let mut open = self.open.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = open.wait_for(|open| *open).await;
    }
}
