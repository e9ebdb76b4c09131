//! What the intake counts (SEMANTICS 13). Labels are names from the settings, never ids or bodies.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// What was decided about a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is durable and goes on.
    Accepted,
    /// It was durable before.
    Duplicate,
    /// A newer version of its entity was there before.
    Superseded,
    /// Another message has its id.
    Conflict,
    /// Its signature is not good.
    SignatureInvalid,
    /// The signature is good, and what it must say cannot be read; or it did not arrive whole.
    Unreadable,
    /// There was no room for it, and nothing is noted.
    Full,
}

/// How a try of a handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has accepted the message.
    Accepted,
    /// It asks for patience, or was not reached.
    NotYet,
    /// It failed.
    Failed,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Decided {
    destination: String,
    surface: &'static str,
    store: &'static str,
    decision: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Tried {
    destination: String,
    surface: &'static str,
    store: &'static str,
    verdict: &'static str,
}

/// Counters of one intake.
pub struct IntakeSignals {
    surface: &'static str,
    store: &'static str,
    deliveries: Family<Decided, Counter>,
    tries: Family<Tried, Counter>,
}

impl Decision {
    const ALL: [Decision; 7] = [
        Decision::Accepted,
        Decision::Duplicate,
        Decision::Superseded,
        Decision::Conflict,
        Decision::SignatureInvalid,
        Decision::Unreadable,
        Decision::Full,
    ];

    const fn name(self) -> &'static str {
        match self {
            Decision::Accepted => "accepted",
            Decision::Duplicate => "duplicate",
            Decision::Superseded => "superseded",
            Decision::Conflict => "conflict",
            Decision::SignatureInvalid => "signature_invalid",
            Decision::Unreadable => "unreadable",
            Decision::Full => "full",
        }
    }
}

impl Verdict {
    const ALL: [Verdict; 3] = [Verdict::Accepted, Verdict::NotYet, Verdict::Failed];

    const fn name(self) -> &'static str {
        match self {
            Verdict::Accepted => "accepted",
            Verdict::NotYet => "not_yet",
            Verdict::Failed => "failed",
        }
    }
}

impl IntakeSignals {
    pub(super) fn new(surface: &'static str, store: &'static str) -> IntakeSignals {
        IntakeSignals { surface, store, deliveries: Family::default(), tries: Family::default() }
    }

    /// Registers everything under the prefix `onefold_`.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("onefold");
        registry.register(
            "inbox_deliveries",
            "Deliveries of webhooks, by what was decided",
            self.deliveries.clone(),
        );
        registry.register(
            "inbox_forwards",
            "Tries of webhooks' handlers, by how they ended",
            self.tries.clone(),
        );
    }

    /// Has the series of a source stand at 0 from the start.
    pub fn start_at_zero(&self, source: &str) {
        for decision in Decision::ALL {
            let _ = self.deliveries.get_or_create(&self.decision_labels(source, decision));
        }
        for verdict in Verdict::ALL {
            let _ = self.tries.get_or_create(&self.verdict_labels(source, verdict));
        }
    }

    /// Counts a delivery.
    pub fn decided(&self, source: &str, decision: Decision) {
        self.deliveries.get_or_create(&self.decision_labels(source, decision)).inc();
    }

    /// Counts a try.
    pub fn tried(&self, source: &str, verdict: Verdict) {
        self.tries.get_or_create(&self.verdict_labels(source, verdict)).inc();
    }

    fn decision_labels(&self, source: &str, decision: Decision) -> Decided {
        let (destination, decision) = (super::destination(source), decision.name());
        Decided { destination, surface: self.surface, store: self.store, decision }
    }

    fn verdict_labels(&self, source: &str, verdict: Verdict) -> Tried {
        let (destination, verdict) = (super::destination(source), verdict.name());
        Tried { destination, surface: self.surface, store: self.store, verdict }
    }
}
