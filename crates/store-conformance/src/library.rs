//! A store with a table of a business beside it, for the behaviours of atomic and resumable mode.

use std::any::Any;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_core::{Kept, OperationId, Resource, TypedValue};
use onefold_store::clock::ManualClock;
use onefold_store::{AtomicStore, Atomically, Ended, Entry, Finish, StepStore};

use crate::fixture::{Fixture, Made};

type Reading = Pin<Box<dyn Future<Output = Vec<String>> + Send>>;

/// What a work of a test does: it inserts one row and ends.
#[derive(Clone)]
pub struct Script {
    /// The row that it inserts.
    pub row: String,
    end: Arc<dyn Fn(usize) -> Ended + Send + Sync>,
    runs: Arc<AtomicUsize>,
}

impl Script {
    /// A work that inserts this row and then ends so; it is told how often it has run before.
    pub fn new(row: &str, end: impl Fn(usize) -> Ended + Send + Sync + 'static) -> Script {
        Script { row: row.into(), end: Arc::new(end), runs: Arc::default() }
    }

    /// The end of one run, after the row was inserted. May panic.
    pub fn end(&self) -> Ended {
        (self.end)(self.runs.fetch_add(1, Ordering::SeqCst))
    }

    /// How often it ran.
    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

/// A store that was made for one test, with the business beside it.
pub struct Business<S: AtomicStore + StepStore> {
    /// The store.
    pub store: Arc<S>,
    /// The work of a script.
    pub work: Box<dyn Fn(Script) -> S::Work + Send + Sync>,
    /// The rows that are committed, in order.
    pub rows: Box<dyn Fn() -> Reading + Send + Sync>,
    /// What must outlive it.
    pub keep: Box<dyn Any + Send + Sync>,
}

/// A business under test, with the words of [`Fixture`].
pub struct Library<S: AtomicStore + StepStore> {
    fixture: Fixture,
    /// The store as it is.
    pub atomic: Arc<S>,
    work: Box<dyn Fn(Script) -> S::Work + Send + Sync>,
    rows: Box<dyn Fn() -> Reading + Send + Sync>,
}

impl<S: AtomicStore + StepStore> Deref for Library<S> {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

impl<S: AtomicStore + StepStore> Library<S> {
    /// An empty store that was made to live by this clock.
    pub fn new(made: Business<S>, clock: Arc<ManualClock>) -> Library<S> {
        let Business { store, work, rows, keep } = made;
        let fixture = Fixture::new(Made { store: store.clone(), keep }, clock);
        Library { fixture, atomic: store, work, rows }
    }

    /// Enters with this script; waits for whoever holds the key, as the engine would.
    pub async fn enter(&self, entry: Entry, script: &Script) -> Atomically {
        let mut work = (self.work)(script.clone());
        loop {
            match self.atomic.atomically(entry.clone(), &mut work).await.expect("the store works") {
                Atomically::Busy => tokio::task::yield_now().await,
                ended => return ended,
            }
        }
    }

    /// Enters as a new operation under this key.
    pub async fn enter_new(&self, key: &str, script: &Script) -> Atomically {
        self.enter(Entry::New(Box::new(self.claim(key))), script).await
    }

    /// The committed rows of the business.
    pub async fn rows(&self) -> Vec<String> {
        (self.rows)().await
    }

    /// The id under this key.
    pub fn id(&self, key: &str) -> OperationId {
        self.claim(key).id
    }
}

/// A typed result.
pub fn value(json: &str) -> Kept {
    Kept::Value(TypedValue { version: 1, json: json.as_bytes().to_vec() })
}

/// The end of a work that succeeded, with a resource.
pub fn success() -> Ended {
    let resource = Some(Resource { kind: "order".into(), id: "5001".into() });
    Ended::Finished { finish: Finish::Succeeded, kept: value("5001"), resource }
}

/// The end of a work that rejects.
pub fn rejection() -> Ended {
    Ended::Finished { finish: Finish::Rejected, kept: value("\"no stock\""), resource: None }
}
