//! Another system that a service under test asks for something, and that counts how often it is asked.
//!
//! It lives in the test's own process: what a service does with the answer is its business, and whether it asked twice
//! is the test's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::gate::Gate;
use crate::wait;

/// A supplier; clones are one.
#[derive(Clone, Debug, Default)]
pub struct Supplier {
    times: Arc<AtomicU64>,
    takes: Duration,
    gate: Option<Gate>,
}

impl Supplier {
    /// One whose answers take so long.
    #[must_use]
    pub fn taking(takes: Duration) -> Self {
        Self { takes, ..Self::default() }
    }

    /// One that answers nobody before the gate is open.
    #[must_use]
    pub fn behind(gate: &Gate) -> Self {
        Self { gate: Some(gate.clone()), ..Self::default() }
    }

    /// Asks it; the answer is how often it was asked.
    pub async fn ask(&self) -> u64 {
        let nth = self.times.fetch_add(1, Ordering::SeqCst) + 1;
        tokio::time::sleep(self.takes).await;
        if let Some(gate) = &self.gate {
            gate.passed().await;
        }
        nth
    }

    /// How often it was asked.
    #[must_use]
    pub fn times(&self) -> u64 {
        self.times.load(Ordering::SeqCst)
    }

    /// Waits until it was asked so often.
    ///
    /// # Panics
    /// When it is not asked in time.
    pub async fn asked(&self, times: u64) {
        wait::until("the supplier is asked", || self.times() >= times).await;
    }
}
