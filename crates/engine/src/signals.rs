//! What the engine counts (SEMANTICS 13). Labels are names from the configuration, never keys, bodies or subjects.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::MessageSignals;

/// The labels of a counter.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Labels {
    operation: String,
    surface: &'static str,
    store: &'static str,
}

/// The labels of a verdict on an unknown outcome.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Judged {
    operation: String,
    surface: &'static str,
    store: &'static str,
    verdict: &'static str,
}

/// The labels of what belongs to no operation.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Place {
    surface: &'static str,
    store: &'static str,
}

type Counts = Family<Labels, Counter>;

/// Counters and gauges of one engine.
pub struct Signals {
    surface: &'static str,
    store: &'static str,
    pub(crate) attempts_begun: Counts,
    pub(crate) duplicates: Counts,
    pub(crate) replays: Counts,
    pub(crate) conflicts: Counts,
    pub(crate) busy: Counts,
    pub(crate) stale_takeovers: Counts,
    pub(crate) late_successes: Counts,
    pub(crate) expired_keys: Counts,
    pub(crate) result_not_stored: Counts,
    pub(crate) outcomes_lost: Counts,
    reconciliations: Family<Judged, Counter>,
    fenced_writes: Family<Place, Counter>,
    store_errors: Family<Place, Counter>,
    unknown: Family<Place, Gauge>,
    unknown_oldest: Family<Place, Gauge>,
    processing: Family<Place, Gauge>,
    sweep_lag: Family<Place, Gauge>,
    messages: MessageSignals,
}

impl Signals {
    pub(crate) fn new(surface: &'static str, store: &'static str) -> Signals {
        Signals {
            surface,
            store,
            attempts_begun: Family::default(),
            duplicates: Family::default(),
            replays: Family::default(),
            conflicts: Family::default(),
            busy: Family::default(),
            stale_takeovers: Family::default(),
            late_successes: Family::default(),
            expired_keys: Family::default(),
            result_not_stored: Family::default(),
            outcomes_lost: Family::default(),
            reconciliations: Family::default(),
            fenced_writes: Family::default(),
            store_errors: Family::default(),
            unknown: Family::default(),
            unknown_oldest: Family::default(),
            processing: Family::default(),
            sweep_lag: Family::default(),
            messages: MessageSignals::new(surface, store),
        }
    }

    /// Registers everything under the prefix `onefold_`.
    pub fn register(&self, registry: &mut Registry) {
        let _ =
            (self.fenced_writes.get_or_create(&self.place()), self.store_errors.get_or_create(&self.place()));
        let registry = registry.sub_registry_with_prefix("onefold");
        registry.register("attempts_begun", "Attempts that began", self.attempts_begun.clone());
        registry.register(
            "duplicates",
            "Equal requests that found their operation known",
            self.duplicates.clone(),
        );
        registry.register("replays", "Duplicates answered with the result", self.replays.clone());
        registry.register("conflicts", "Other requests under a used key", self.conflicts.clone());
        registry.register("busy", "Duplicates told that the operation is running", self.busy.clone());
        registry.register(
            "stale_takeovers",
            "Attempts begun after another's lease ended",
            self.stale_takeovers.clone(),
        );
        registry.register("late_successes", "Suspected double effects", self.late_successes.clone());
        registry.register(
            "expired_keys",
            "Requests refused because their key has expired",
            self.expired_keys.clone(),
        );
        registry.register(
            "result_not_stored",
            "Results that the store did not take at once",
            self.result_not_stored.clone(),
        );
        registry.register(
            "outcomes_lost",
            "Attempts that ended with an unknown outcome",
            self.outcomes_lost.clone(),
        );
        registry.register(
            "reconciliations",
            "Probes of operations whose outcome is unknown, by verdict",
            self.reconciliations.clone(),
        );
        registry.register(
            "fenced_writes",
            "Writes refused because the attempt was superseded",
            self.fenced_writes.clone(),
        );
        registry.register("store_errors", "Calls that the store did not answer", self.store_errors.clone());
        registry.register("unknown", "Operations whose outcome is unknown now", self.unknown.clone());
        registry.register_with_unit(
            "unknown_oldest_age",
            "Age of the oldest operation whose outcome is unknown",
            Unit::Seconds,
            self.unknown_oldest.clone(),
        );
        registry.register("processing", "Operations in the state processing", self.processing.clone());
        registry.register_with_unit(
            "sweep_lag",
            "How long the record that waits longest for the sweeper has been due",
            Unit::Seconds,
            self.sweep_lag.clone(),
        );
        self.messages.register(registry);
    }

    /// Those of messages.
    pub fn messages(&self) -> &MessageSignals {
        &self.messages
    }

    /// Has the counters of an operation stand at 0 from the start: an alert on a rise would not see a series that
    /// begins with its first event.
    pub fn start_at_zero(&self, operation: &str) {
        let of_operations = [
            &self.attempts_begun,
            &self.duplicates,
            &self.replays,
            &self.conflicts,
            &self.busy,
            &self.stale_takeovers,
            &self.late_successes,
            &self.expired_keys,
            &self.result_not_stored,
            &self.outcomes_lost,
        ];
        for counts in of_operations {
            let _ = counts.get_or_create(&self.labels(operation));
        }
    }

    fn labels(&self, operation: &str) -> Labels {
        Labels { operation: operation.to_owned(), surface: self.surface, store: self.store }
    }

    pub(crate) fn bump(&self, counts: &Counts, operation: &str) {
        counts.get_or_create(&self.labels(operation)).inc();
    }

    pub(crate) fn reconciled(&self, operation: &str, verdict: &'static str) {
        let (operation, surface, store) = (operation.to_owned(), self.surface, self.store);
        self.reconciliations.get_or_create(&Judged { operation, surface, store, verdict }).inc();
    }

    fn place(&self) -> Place {
        Place { surface: self.surface, store: self.store }
    }

    pub(crate) fn fenced_write(&self) {
        self.fenced_writes.get_or_create(&self.place()).inc();
    }

    /// A call that the store did not answer.
    pub fn store_error(&self) {
        self.store_errors.get_or_create(&self.place()).inc();
    }

    pub(crate) fn surveyed(&self, survey: &onefold_store::Survey) {
        let place = self.place();
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.unknown.get_or_create(&place).set(whole(survey.unknown));
        self.processing.get_or_create(&place).set(whole(survey.processing));
        let oldest = survey.unknown_oldest.map_or(0, |age| age.as_secs());
        self.unknown_oldest.get_or_create(&place).set(whole(oldest));
        self.sweep_lag.get_or_create(&place).set(whole(survey.sweep_lag.as_secs()));
    }
}
