//! A destination and how it is sent to.

use std::sync::Arc;
use std::time::Duration;

use onefold_core::budget::BudgetSettings;
use onefold_core::retry::Backoff;

use crate::limits::{
    ATTEMPTS, BATCHES, BUDGET_WINDOW, CONCURRENCY, LEASE_SLACK, ON_WAY_BYTES, SENDING_TIMEOUT, SETTLING,
};
use crate::{LookUp, Sink};

/// A destination of a relay: its name in messages, its sink, and how it is sent to.
#[derive(Clone)]
pub struct Destination {
    pub(super) name: String,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) attempts: Option<u32>,
    pub(super) concurrency: u32,
    pub(super) bytes: u64,
    pub(super) timeout: Duration,
    pub(super) backoff: Backoff,
    pub(super) budget: BudgetSettings,
    pub(super) look_up: Option<(Arc<dyn LookUp>, Duration)>,
}

impl Destination {
    /// With the defaults of [`crate::limits`].
    pub fn new(name: impl Into<String>, sink: impl Sink) -> Destination {
        Destination::shared(name, Arc::new(sink))
    }

    /// The same, of a sink that is chosen when the program runs.
    pub fn shared(name: impl Into<String>, sink: Arc<dyn Sink>) -> Destination {
        let batches = u32::try_from(sink.batch()).unwrap_or(u32::MAX).saturating_mul(BATCHES);
        Destination {
            name: name.into(),
            sink,
            attempts: Some(ATTEMPTS),
            concurrency: CONCURRENCY.max(batches),
            bytes: ON_WAY_BYTES,
            timeout: SENDING_TIMEOUT,
            backoff: Backoff::default(),
            budget: BudgetSettings { window: BUDGET_WINDOW, ..BudgetSettings::default() },
            look_up: None,
        }
    }

    /// Sendings that may fail before a message is a dead letter; `None` is no end.
    pub fn attempts(mut self, attempts: Option<u32>) -> Destination {
        self.attempts = attempts.map(|attempts| attempts.max(1));
        self
    }

    /// Messages on their way at once, at least one. By default 64, or four batches of a sink that takes many at once.
    pub fn concurrency(mut self, concurrency: u32) -> Destination {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Bytes of headers and bodies on their way at once, at least one; one message is always taken, however long it is. By
    /// default 64 MiB.
    pub fn bytes(mut self, bytes: u64) -> Destination {
        self.bytes = bytes.max(1);
        self
    }

    /// How long one sending may take. A message is leased for 15 s more.
    pub fn timeout(mut self, timeout: Duration) -> Destination {
        self.timeout = timeout;
        self
    }

    /// The pauses between sendings that failed.
    pub fn backoff(mut self, backoff: Backoff) -> Destination {
        self.backoff = backoff;
        self
    }

    /// How much may be sent again in vain.
    pub fn budget(mut self, budget: BudgetSettings) -> Destination {
        self.budget = budget;
        self
    }

    /// Looks up what became of messages that are `outcome_unknown`, about this often.
    pub fn look_up(mut self, look_up: impl LookUp, every: Duration) -> Destination {
        self.look_up = Some((Arc::new(look_up), every));
        self
    }

    /// Messages that are handed to the sink at once.
    pub(super) fn batch(&self) -> usize {
        self.sink.batch().clamp(1, self.concurrency as usize)
    }

    pub(super) fn lease(&self) -> Duration {
        self.timeout + LEASE_SLACK
    }

    /// How long a sending may take that begins this long after its message was asked for: its whole time, as long as its
    /// end can be written within the lease. `None`: less than half of it is left, and sinks bound themselves at about that,
    /// so what is begun may be lost.
    pub(super) fn time_to_send(&self, asked_for: Duration) -> Option<Duration> {
        let left = self.lease().saturating_sub(asked_for + SETTLING);
        (left >= self.timeout / 2).then(|| left.min(self.timeout))
    }
}
