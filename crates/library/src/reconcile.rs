//! Look-ups: asking the authority what became of attempts whose outcome is unknown (SEMANTICS 9, decision 0010).
//!
//! ```no_run
//! use onefold::reconcile::{Fence, Found, Lost, Reconcile};
//! use onefold::{BoxError, Onefold, Operation};
//!
//! # struct Provider;
//! # impl Provider { async fn find(&self, _: &str) -> Result<Option<String>, BoxError> { Ok(None) } }
//! # async fn example(onefold: Onefold, capture: Operation, provider: std::sync::Arc<Provider>) {
//! let look_up = Reconcile::new(&capture, move |lost: Lost| {
//!     let provider = provider.clone();
//!     async move {
//!         Ok(match provider.find(lost.key()).await? {
//!             Some(charge) => Found::created("charge", charge.clone(), charge),
//!             // The original may still be on its way, but the provider takes each key once.
//!             None => Found::did_not_happen(Fence::SameKey),
//!         })
//!     }
//! });
//! let _reconciling = onefold.reconcile([look_up]);
//! # }
//! ```
//!
//! **A negative answer is no answer** without a [`Fence`] that says why the original cannot take effect any more. An
//! error of the look-up, a panic and one that takes too long say nothing. Each is paced; after 20 that say nothing a
//! person is asked. What is found settles the operation together with its [companion](crate::companion).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use onefold_core::reconcile::{Found as Kept, Verdict};
use onefold_core::{Key, OperationId, Resource, Scope};
use onefold_engine::{Probed, Reconciler, Registration, Subject};
use onefold_store::AtomicStore;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use onefold_core::reconcile::Fence;
pub use onefold_engine::Reconciling;

use crate::atomic::keep_what_can_be;
use crate::verdict::BoxError;
use crate::{Onefold, Operation};

/// How long a look-up may take, unless it is said otherwise.
const WITHIN: Duration = Duration::from_secs(10);
/// For how long a lost attempt may still be sending its request, unless it is said otherwise.
const SENDS_FOR: Duration = Duration::from_secs(60);

/// An attempt whose outcome is unknown.
#[derive(Clone, Debug)]
pub struct Lost(Subject);

impl Lost {
    /// The operation's id.
    pub fn id(&self) -> OperationId {
        self.0.record().id
    }

    /// The caller's key.
    pub fn key(&self) -> &str {
        self.0.record().key.as_ref().map(Key::as_str).unwrap_or_default()
    }

    /// Whose key it is.
    pub fn scope(&self) -> &Scope {
        &self.0.record().scope
    }

    /// What ties it to other operations.
    pub fn correlation_id(&self) -> Option<&str> {
        self.0.record().correlation_id.as_deref()
    }

    /// The number of the attempt.
    pub fn attempt(&self) -> u32 {
        self.0.record().attempt
    }

    /// The key under which another system was asked for one step.
    pub fn downstream_key(&self, step: &str) -> String {
        self.0.downstream_key(step)
    }
}

/// What a look-up has found out.
#[derive(Clone, Debug)]
pub struct Found<T> {
    said: Said<T>,
    reason: String,
    evidence: String,
}

#[derive(Clone, Debug)]
enum Said<T> {
    Happened { resource: Option<Resource>, value: T },
    DidNotHappen(Option<Fence>),
    Inconclusive,
}

impl<T> Found<T> {
    /// It happened, with this result: what every caller gets from now on.
    pub fn happened(value: T) -> Found<T> {
        Found::of(Said::Happened { resource: None, value }, "the authority has it")
    }

    /// It happened and brought this forth: a kind of thing, such as `charge`, and its id.
    pub fn created(kind: impl Into<String>, id: impl ToString, value: T) -> Found<T> {
        let resource = Some(Resource { kind: kind.into(), id: id.to_string() });
        Found::of(Said::Happened { resource, value }, "the authority has it")
    }

    /// The authority knows no effect. The fence says why the late original cannot have one; without it (`None`) nothing
    /// is known.
    pub fn did_not_happen(fence: impl Into<Option<Fence>>) -> Found<T> {
        Found::of(Said::DidNotHappen(fence.into()), "the authority knows no such effect")
    }

    /// Nobody could say.
    pub fn inconclusive(reason: impl Into<String>) -> Found<T> {
        Found::of(Said::Inconclusive, reason)
    }

    fn of(said: Said<T>, reason: impl Into<String>) -> Found<T> {
        Found { said, reason: reason.into(), evidence: String::new() }
    }

    /// In words. Kept with the record, in clear and cut to 500 bytes: no secrets.
    pub fn because(self, reason: impl Into<String>) -> Found<T> {
        Found { reason: reason.into(), ..self }
    }

    /// What shows it, such as the answer of the authority. Kept likewise.
    pub fn shown_by(self, evidence: impl Into<String>) -> Found<T> {
        Found { evidence: evidence.into(), ..self }
    }

    /// The same with another form of the result.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Found<U> {
        let Found { said, reason, evidence } = self;
        let said = match said {
            Said::Happened { resource, value } => Said::Happened { resource, value: change(value) },
            Said::DidNotHappen(fence) => Said::DidNotHappen(fence),
            Said::Inconclusive => Said::Inconclusive,
        };
        Found { said, reason, evidence }
    }
}

/// Who is asked about the lost attempts of one operation.
#[derive(Clone)]
pub struct Reconcile(Registration);

struct Asks<F> {
    operation: Operation,
    ask: F,
}

impl Reconcile {
    /// Asks so. A look-up only looks: it may be made any number of times, and is cancelled when it takes too long.
    pub fn new<T, F, Fut>(operation: &Operation, ask: F) -> Reconcile
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Lost) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Found<T>, BoxError>> + Send + 'static,
    {
        let name = operation.contract().operation.clone();
        Reconcile(Registration {
            label: Arc::from(name.as_str()),
            operation: name,
            reconciler: Arc::new(Asks { operation: operation.clone(), ask }),
            probe_max: WITHIN,
            sends_for: SENDS_FOR,
            companion: None,
        })
    }

    /// How long one look-up may take: 10 seconds by default.
    pub fn within(mut self, within: Duration) -> Reconcile {
        self.0.probe_max = within;
        self
    }

    /// For how long after its outcome was lost an attempt may still be sending its request: 60 seconds by default.
    /// Until then a negative answer under the fence `Settled` says nothing.
    pub fn sends_for(mut self, sends_for: Duration) -> Reconcile {
        self.0.sends_for = sends_for;
        self
    }
}

#[async_trait]
impl<T, F, Fut> Reconciler for Asks<F>
where
    T: Serialize + DeserializeOwned + Send + 'static,
    F: Fn(Lost) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Found<T>, BoxError>> + Send + 'static,
{
    async fn probe(&self, subject: &Subject) -> Probed {
        match (self.ask)(Lost(subject.clone())).await {
            Ok(found) => found.probed(&self.operation),
            Err(error) => Probed::inconclusive("the authority could not be asked", error.to_string()),
        }
    }
}

impl<T: Serialize + DeserializeOwned> Found<T> {
    fn probed(self, operation: &Operation) -> Probed {
        let Found { said, reason, evidence } = self;
        let verdict = match said {
            Said::Happened { resource, value } => {
                Verdict::Happened(Kept { kept: keep_what_can_be(operation, &value), resource })
            }
            Said::DidNotHappen(fence) => Verdict::DidNotHappen(fence),
            Said::Inconclusive => Verdict::Inconclusive,
        };
        Probed { verdict, reason, evidence }
    }
}

impl<S: AtomicStore> Onefold<S> {
    /// Starts the loop that asks about lost outcomes, for as long as the answer is kept. Any number of processes may
    /// run one: each record is asked about by one of them at a time. Must be called within a tokio runtime.
    ///
    /// Register [companions](crate::companion) first.
    pub fn reconcile(&self, look_ups: impl IntoIterator<Item = Reconcile>) -> Reconciling {
        let registrations = look_ups.into_iter().map(|Reconcile(mut registration)| {
            registration.companion = self.companions().named(&registration.operation);
            registration
        });
        self.engine().reconcile(registrations.collect())
    }
}
