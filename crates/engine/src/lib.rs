//! Performs operations over a store: who may begin, who waits, what is kept, who settles.
//!
//! *Invariants.* Surfaces talk to the engine and never to a store. The engine asks [`onefold_core::decide`] and
//! carries out what it says with conditional transitions. What is remembered in memory (running attempts, finished
//! records) only saves work: the database decides who owns an operation. After a crash nothing in memory is missed.

mod acts;
mod atomic;
mod attempt;
mod begin;
mod call;
mod companion;
mod driving;
mod enter;
mod finished;
mod flight;
mod forsaken;
mod hearts;
mod keeper;
mod limits;
mod message_keeper;
mod message_signals;
mod offer;
mod reconcile;
mod signals;
mod tally;

use std::sync::Arc;

use onefold_store::{Clock, OperationStore, SystemClock};

pub use acts::{ActError, Release, Resolution, ResolvedAs, Settlement, Shown};
pub use atomic::{AtomicEngine, Performed, Stood};
pub use attempt::{Attempt, Settled, Verdict};
pub use call::{Call, Entered, Known, Refusal};
pub use companion::Companion;
pub use driving::{Driver, Drives, Driving};
pub use keeper::Keeper;
pub use limits::Limits;
pub use message_signals::MessageSignals;
pub use reconcile::{Probed, Reconciler, Reconciling, Registration, Subject};
pub use signals::Signals;

/// One process' engine over one store. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn OperationStore>,
    pub(crate) owner: String,
    pub(crate) limits: Limits,
    pub(crate) flights: flight::Flights,
    pub(crate) forsaken: forsaken::Forsaken,
    pub(crate) hearts: hearts::Hearts,
    pub(crate) finished: finished::Finished,
    pub(crate) tally: tally::Tally,
    pub(crate) signals: Signals,
}

impl Engine {
    /// An engine over this store. `surface` is the label of its metrics: `gateway`, `relay`, `library`, `cli`.
    pub fn new(store: Arc<dyn OperationStore>, surface: &'static str, limits: Limits) -> Engine {
        let signals = Signals::new(surface, store.name());
        let owner = format!("{}-{:016x}", std::process::id(), rand::random::<u64>());
        Engine(Arc::new(Inner {
            finished: finished::Finished::new(limits.finished_bytes_max),
            store,
            owner,
            limits,
            flights: flight::Flights::default(),
            forsaken: forsaken::Forsaken::default(),
            hearts: hearts::Hearts::default(),
            tally: tally::Tally::default(),
            signals,
        }))
    }

    /// What has happened, for `/metrics`.
    pub fn signals(&self) -> &Signals {
        &self.0.signals
    }

    /// The secret under which identities and fingerprints are digested.
    pub fn identity_key(&self) -> &onefold_core::IdentityKey {
        self.0.store.identity_key()
    }

    /// The host's time in seconds since the Unix epoch, for what somebody else dated, such as the end of a token.
    /// Leases and retention are the store's to judge.
    pub fn unix_time(&self) -> i64 {
        SystemClock::new().wall().0.div_euclid(1000)
    }

    /// Whether the store can be read and written now.
    pub async fn ready(&self) -> Result<(), onefold_store::StoreError> {
        self.0.store.ready().await
    }
}
