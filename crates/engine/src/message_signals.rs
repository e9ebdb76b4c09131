//! What is counted of messages (SEMANTICS 13). Labels are names of consumers and destinations, never ids or bodies.

use onefold_store::{InboxSurvey, OutboxSurvey};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The labels of what a consumer meets.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Consumer {
    operation: String,
    surface: &'static str,
    store: &'static str,
}

/// The labels of the end of a delivery.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Ended {
    operation: String,
    surface: &'static str,
    store: &'static str,
    verdict: &'static str,
}

/// The labels of what stands for one destination.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Destination {
    destination: String,
    surface: &'static str,
    store: &'static str,
}

/// The labels of what stands in the inbox.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Place {
    surface: &'static str,
    store: &'static str,
}

/// Counters and gauges of messages.
pub struct MessageSignals {
    surface: &'static str,
    store: &'static str,
    handled: Family<Ended, Counter>,
    duplicates: Family<Consumer, Counter>,
    conflicts: Family<Consumer, Counter>,
    failing: Family<Place, Gauge>,
    parked: Family<Place, Gauge>,
    parked_oldest: Family<Place, Gauge>,
    sweep_lag: Family<Place, Gauge>,
    depth: Family<Destination, Gauge>,
    oldest: Family<Destination, Gauge>,
    dead: Family<Destination, Gauge>,
    unknown: Family<Destination, Gauge>,
    /// Destinations that have had anything: where nothing stands any longer they are told 0.
    destinations: Mutex<Vec<String>>,
}

impl MessageSignals {
    pub(crate) fn new(surface: &'static str, store: &'static str) -> MessageSignals {
        MessageSignals {
            surface,
            store,
            handled: Family::default(),
            duplicates: Family::default(),
            conflicts: Family::default(),
            failing: Family::default(),
            parked: Family::default(),
            parked_oldest: Family::default(),
            sweep_lag: Family::default(),
            depth: Family::default(),
            oldest: Family::default(),
            dead: Family::default(),
            unknown: Family::default(),
            destinations: Mutex::default(),
        }
    }

    /// Registers everything; the registry has the prefix.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("inbox_handled", "Tries of handlers, by their end", self.handled.clone());
        registry.register(
            "inbox_duplicates",
            "Deliveries that found their message done or parked",
            self.duplicates.clone(),
        );
        registry.register(
            "inbox_conflicts",
            "Deliveries of something else under the id of a known message",
            self.conflicts.clone(),
        );
        registry.register("inbox_failing", "Messages whose handler has failed so far", self.failing.clone());
        registry.register("inbox_parked", "Dead letters of the inbox", self.parked.clone());
        registry.register_with_unit(
            "inbox_parked_oldest_age",
            "Age of the oldest dead letter of the inbox",
            Unit::Seconds,
            self.parked_oldest.clone(),
        );
        registry.register_with_unit(
            "inbox_sweep_lag",
            "How long the mark that waits longest for the sweeper has been due",
            Unit::Seconds,
            self.sweep_lag.clone(),
        );
        registry.register("outbox_depth", "Messages that wait or are being sent", self.depth.clone());
        registry.register_with_unit(
            "outbox_oldest_age",
            "Age of the oldest message that waits or is being sent",
            Unit::Seconds,
            self.oldest.clone(),
        );
        registry.register("outbox_dead", "Dead letters of the outbox", self.dead.clone());
        registry.register(
            "outbox_unknown",
            "Messages of which nobody knows whether they were accepted",
            self.unknown.clone(),
        );
    }

    /// Has the counters of a consumer stand at 0 from the start.
    pub fn start_at_zero(&self, consumer: &str) {
        let _ = self.duplicates.get_or_create(&self.consumer(consumer));
        let _ = self.conflicts.get_or_create(&self.consumer(consumer));
        for verdict in ["processed", "rejected", "superseded", "failed", "not_yet", "parked"] {
            let _ = self.handled.get_or_create(&self.ended(consumer, verdict));
        }
    }

    fn consumer(&self, consumer: &str) -> Consumer {
        Consumer { operation: consumer.to_owned(), surface: self.surface, store: self.store }
    }

    fn ended(&self, consumer: &str, verdict: &'static str) -> Ended {
        let operation = consumer.to_owned();
        Ended { operation, surface: self.surface, store: self.store, verdict }
    }

    /// A delivery ended so: `processed`, `rejected`, `failed`, `not_yet` or `parked`.
    pub fn handled(&self, consumer: &str, verdict: &'static str) {
        self.handled.get_or_create(&self.ended(consumer, verdict)).inc();
    }

    /// A delivery found its message done or parked.
    pub fn duplicate(&self, consumer: &str) {
        self.duplicates.get_or_create(&self.consumer(consumer)).inc();
    }

    /// A delivery brought something else under a known id.
    pub fn conflict(&self, consumer: &str) {
        self.conflicts.get_or_create(&self.consumer(consumer)).inc();
    }

    pub(crate) fn surveyed_inbox(&self, survey: &InboxSurvey) {
        let place = Place { surface: self.surface, store: self.store };
        self.failing.get_or_create(&place).set(whole(survey.failing));
        self.parked.get_or_create(&place).set(whole(survey.parked));
        let oldest = survey.parked_oldest.map_or(0, |age| age.as_secs());
        self.parked_oldest.get_or_create(&place).set(whole(oldest));
        self.sweep_lag.get_or_create(&place).set(whole(survey.sweep_lag.as_secs()));
    }

    pub(crate) fn surveyed_outbox(&self, surveys: Vec<OutboxSurvey>) {
        let mut known = self.destinations.lock();
        for name in known.iter().filter(|name| surveys.iter().all(|of| of.destination != **name)) {
            self.stands(&OutboxSurvey { destination: name.clone(), ..OutboxSurvey::default() });
        }
        for survey in surveys {
            self.stands(&survey);
            if !known.contains(&survey.destination) {
                known.push(survey.destination);
            }
        }
    }

    fn stands(&self, survey: &OutboxSurvey) {
        let destination = survey.destination.clone();
        let labels = Destination { destination, surface: self.surface, store: self.store };
        self.depth.get_or_create(&labels).set(whole(survey.depth));
        let oldest = survey.oldest.map_or(0, |age| age.as_secs());
        self.oldest.get_or_create(&labels).set(whole(oldest));
        self.dead.get_or_create(&labels).set(whole(survey.dead));
        self.unknown.get_or_create(&labels).set(whole(survey.unknown));
    }
}

fn whole(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
