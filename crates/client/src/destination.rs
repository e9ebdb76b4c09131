//! What this process knows about each destination: its retry budget and its circuit, shared by every operation.
//!
//! A destination is an origin: scheme, host and port. One registry serves the process ([`Destinations::process`]);
//! tests and programs with several policies make their own. It remembers a bounded number of destinations and forgets
//! the one that was not used for longest. Nothing here outlives the process.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use onefold_core::budget::{Budget, BudgetSettings};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::circuit::{Circuit, CircuitSettings, CircuitState};
use crate::limits::DESTINATIONS_MAX;
#[cfg(feature = "metrics")]
use crate::metrics::{Metrics, Of};

/// The destinations of a process.
pub struct Destinations {
    budget: BudgetSettings,
    circuit: CircuitSettings,
    begun: Instant,
    known: Mutex<HashMap<String, Arc<Destination>>>,
    #[cfg(feature = "metrics")]
    metrics: Metrics,
}

/// One destination.
pub struct Destination {
    origin: String,
    begun: Instant,
    inner: Mutex<Inner>,
    #[cfg(feature = "metrics")]
    metrics: Of,
}

struct Inner {
    budget: Budget,
    circuit: Circuit,
    used: Duration,
    attempts: u64,
    retries: u64,
    successes: u64,
    refused: u64,
}

/// What is known about one destination at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Scheme, host and port.
    pub origin: String,
    /// Attempts that were sent, retries included, since the process began.
    pub attempts: u64,
    /// Of these, retries that the budget allowed.
    pub retries: u64,
    /// Operations that ended with a definite answer.
    pub successes: u64,
    /// Retries that the budget refused.
    pub refused: u64,
    /// Retries that the budget would allow now.
    pub retries_left: u64,
    /// The circuit.
    pub circuit: CircuitState,
}

impl Destinations {
    /// A registry of its own.
    pub fn new(budget: BudgetSettings, circuit: CircuitSettings) -> Arc<Destinations> {
        Arc::new(Destinations {
            budget,
            circuit,
            begun: Instant::now(),
            known: Mutex::new(HashMap::new()),
            #[cfg(feature = "metrics")]
            metrics: Metrics::default(),
        })
    }

    /// The registry of this process, with the default settings.
    pub fn process() -> Arc<Destinations> {
        static PROCESS: LazyLock<Arc<Destinations>> =
            LazyLock::new(|| Destinations::new(BudgetSettings::default(), CircuitSettings::default()));
        PROCESS.clone()
    }

    /// The destination with this origin, such as `https://api.example.com`.
    pub fn of(&self, origin: &str) -> Arc<Destination> {
        let now = self.begun.elapsed();
        let mut known = self.known.lock();
        if let Some(found) = known.get(origin) {
            found.inner.lock().used = now;
            return found.clone();
        }
        if known.len() >= DESTINATIONS_MAX
            && let Some(oldest) = known.values().min_by_key(|d| d.inner.lock().used).map(|d| d.origin.clone())
        {
            known.remove(&oldest);
            #[cfg(feature = "metrics")]
            self.metrics.forget(&oldest);
        }
        let made = Arc::new(Destination {
            origin: origin.to_owned(),
            begun: self.begun,
            inner: Mutex::new(Inner {
                budget: Budget::new(self.budget),
                circuit: Circuit::new(self.circuit),
                used: now,
                attempts: 0,
                retries: 0,
                successes: 0,
                refused: 0,
            }),
            #[cfg(feature = "metrics")]
            metrics: self.metrics.of(origin),
        });
        known.insert(origin.to_owned(), made.clone());
        made
    }

    /// Every destination, by origin.
    pub fn snapshot(&self) -> Vec<Snapshot> {
        let mut all: Vec<Snapshot> = self.known.lock().values().map(|d| d.snapshot()).collect();
        all.sort_by(|a, b| a.origin.cmp(&b.origin));
        all
    }

    /// Registers what [`Destinations::snapshot`] shows as metrics under `onefold_client_…` with the label
    /// `destination`.
    #[cfg(feature = "metrics")]
    pub fn register(&self, registry: &mut prometheus_client::registry::Registry) {
        self.metrics.register(registry);
    }
}

impl Destination {
    /// What is known about it at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let now = self.begun.elapsed();
        let inner = self.inner.lock();
        Snapshot {
            origin: self.origin.clone(),
            attempts: inner.attempts,
            retries: inner.retries,
            successes: inner.successes,
            refused: inner.refused,
            retries_left: inner.budget.left(now),
            circuit: inner.circuit.state(),
        }
    }

    /// Whether an attempt may be sent now; otherwise how long its circuit stays shut.
    pub fn admit(&self) -> Result<(), Duration> {
        self.change(|inner, now| {
            let admitted = inner.circuit.admit(now);
            inner.attempts += u64::from(admitted.is_ok());
            admitted
        })
    }

    /// Takes one retry from the budget. False: it is used up.
    pub fn take_retry(&self) -> bool {
        self.change(|inner, now| {
            let taken = inner.budget.take(now);
            inner.retries += u64::from(taken);
            inner.refused += u64::from(!taken);
            taken
        })
    }

    /// It answered (whatever it said).
    pub fn answered(&self) {
        self.change(|inner, _| inner.circuit.answered());
    }

    /// It could not be reached, did not answer, or says that it is in trouble.
    pub fn failed(&self) {
        self.change(|inner, now| inner.circuit.failed(now));
    }

    /// An operation ended with a definite answer: it earns a share of a retry.
    pub fn succeeded(&self) {
        self.change(|inner, now| {
            inner.budget.succeeded(now);
            inner.successes += 1;
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner, Duration) -> T) -> T {
        let now = self.begun.elapsed();
        let mut inner = self.inner.lock();
        inner.used = now;
        let done = change(&mut inner, now);
        #[cfg(feature = "metrics")]
        self.metrics.show(&inner.counts(now));
        done
    }
}

#[cfg(feature = "metrics")]
impl Inner {
    fn counts(&self, now: Duration) -> crate::metrics::Counts {
        crate::metrics::Counts {
            attempts: self.attempts,
            retries: self.retries,
            refused: self.refused,
            left: self.budget.left(now),
            open: self.circuit.state() != CircuitState::Closed,
        }
    }
}

/// Scheme, host and port of a URI, as destinations are named: without credentials, path and default port.
pub fn origin(uri: &http::Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http").to_ascii_lowercase();
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    // What stands before an @ is a credential.
    let host = authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    let default = if scheme == "https" { ":443" } else { ":80" };
    format!("{scheme}://{}", host.strip_suffix(default).unwrap_or(&host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_no_credentials_no_path_and_no_default_port() {
        let of = |uri: &str| origin(&uri.parse().unwrap());
        assert_eq!(of("https://Alice:secret@API.example.com:443/x?y"), "https://api.example.com");
        assert_eq!(of("http://127.0.0.1:8080/"), "http://127.0.0.1:8080");
    }

    #[tokio::test]
    async fn the_destination_that_was_not_used_for_longest_is_forgotten() {
        let all = Destinations::new(BudgetSettings::default(), CircuitSettings::default());
        tokio::time::pause();
        for n in 0..=DESTINATIONS_MAX {
            all.of("http://kept").succeeded();
            tokio::time::advance(Duration::from_millis(1)).await;
            all.of(&format!("http://host-{n}"));
        }
        let known = all.snapshot();
        assert_eq!(known.len(), DESTINATIONS_MAX);
        assert!(known.iter().any(|d| d.origin == "http://kept"));
        assert!(!known.iter().any(|d| d.origin == "http://host-0"));
    }
}
