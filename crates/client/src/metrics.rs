//! Budgets and circuits as metrics of `prometheus_client`: one series for each destination, forgotten with it.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    destination: String,
}

#[derive(Default)]
pub(crate) struct Metrics {
    attempts: Family<Labels, Counter>,
    retries: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    left: Family<Labels, Gauge>,
    open: Family<Labels, Gauge>,
}

/// The series of one destination.
pub(crate) struct Of {
    attempts: Counter,
    retries: Counter,
    refused: Counter,
    left: Gauge,
    open: Gauge,
}

/// What they show.
pub(crate) struct Counts {
    pub(crate) attempts: u64,
    pub(crate) retries: u64,
    pub(crate) refused: u64,
    pub(crate) left: u64,
    pub(crate) open: bool,
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("onefold");
        registry.register(
            "client_attempts",
            "Attempts sent to a destination, retries included",
            self.attempts.clone(),
        );
        registry.register("client_retries", "Retries that the budget allowed", self.retries.clone());
        registry.register("client_retries_refused", "Retries that the budget refused", self.refused.clone());
        registry.register(
            "client_retry_budget",
            "Retries that the budget would allow now",
            self.left.clone(),
        );
        registry.register("client_circuit_open", "1 while the circuit is not closed", self.open.clone());
    }

    pub(crate) fn of(&self, origin: &str) -> Of {
        let labels = Labels { destination: origin.to_owned() };
        Of {
            attempts: self.attempts.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            refused: self.refused.get_or_create_owned(&labels),
            left: self.left.get_or_create_owned(&labels),
            open: self.open.get_or_create_owned(&labels),
        }
    }

    pub(crate) fn forget(&self, origin: &str) {
        let labels = Labels { destination: origin.to_owned() };
        self.attempts.remove(&labels);
        self.retries.remove(&labels);
        self.refused.remove(&labels);
        self.left.remove(&labels);
        self.open.remove(&labels);
    }
}

impl Of {
    pub(crate) fn show(&self, counts: &Counts) {
        raise(&self.attempts, counts.attempts);
        raise(&self.retries, counts.retries);
        raise(&self.refused, counts.refused);
        self.left.set(i64::try_from(counts.left).unwrap_or(i64::MAX));
        self.open.set(i64::from(counts.open));
    }
}

fn raise(counter: &Counter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

#[cfg(test)]
mod tests {
    use crate::{BudgetSettings, CircuitSettings, Destinations};

    #[tokio::test]
    async fn budgets_and_circuits_are_seen_by_destination() {
        let settings = BudgetSettings { reserve: 1, ..BudgetSettings::default() };
        let circuit = CircuitSettings { failures: 1, ..CircuitSettings::default() };
        let destinations = Destinations::new(settings, circuit);
        let mut registry = prometheus_client::registry::Registry::default();
        destinations.register(&mut registry);
        let destination = destinations.of("https://api.example.com");
        destination.admit().unwrap();
        assert!(destination.take_retry() && !destination.take_retry());
        destination.failed();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "onefold_client_attempts_total{destination=\"https://api.example.com\"} 1",
            "onefold_client_retries_total{destination=\"https://api.example.com\"} 1",
            "onefold_client_retries_refused_total{destination=\"https://api.example.com\"} 1",
            "onefold_client_retry_budget{destination=\"https://api.example.com\"} 0",
            "onefold_client_circuit_open{destination=\"https://api.example.com\"} 1",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }
}
