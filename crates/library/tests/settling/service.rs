//! A service that takes payments: the provider is elsewhere, the row of a payment is in the service's own database.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use onefold::companion::Settled;
use onefold::drive::{Drive, Driving};
use onefold::messages::{CORRELATION_ID, Message};
use onefold::postgres::{PostgresStore, PostgresTx};
use onefold::reconcile::{Reconcile, Reconciling};
use onefold::{
    ActError, BoxError, Call, CallError, Done, Engine, Key, Onefold, Operation, OperationId, Performing,
    Scope, Settlement, Shown, SqliteTx, State, Steps, Verdict,
};
use onefold_testkit::{Store, sql, wait};

/// No key: a second row would show.
const TABLE: &str = "CREATE TABLE payments (about text NOT NULL, charge text NOT NULL)";
const INSERT: &str = "INSERT INTO payments VALUES ($1, $2)";

/// One replica of the service.
#[derive(Clone)]
pub enum Service {
    Sqlite(Onefold),
    Postgresql(Onefold<PostgresStore>),
}

macro_rules! on {
    ($service:expr, $onefold:ident => $does:expr) => {
        match $service {
            Service::Sqlite($onefold) => $does,
            Service::Postgresql($onefold) => $does,
        }
    };
}

/// How often its companion ran, and how often it fails first, after it has written.
#[derive(Clone, Default)]
pub struct Writing {
    runs: Arc<AtomicUsize>,
    fails: Arc<AtomicUsize>,
}

impl Writing {
    pub fn that_fails(times: usize) -> Writing {
        Writing { fails: Arc::new(times.into()), ..Writing::default() }
    }

    pub fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    fn ran(&self) -> Result<(), BoxError> {
        let runs = self.runs.fetch_add(1, Ordering::SeqCst);
        if runs < self.fails.load(Ordering::SeqCst) { Err("a bug of the business".into()) } else { Ok(()) }
    }
}

impl Service {
    /// The first replica, with its table and its companion.
    pub async fn first(store: &Store, writing: &Writing) -> Service {
        let service = Service::open(store).await;
        sql::execute(store.url(), TABLE).await;
        service.accompany(writing).await;
        service
    }

    /// A replica without a companion.
    pub async fn open(store: &Store) -> Service {
        match store.url().strip_prefix("sqlite:") {
            Some(path) => Service::Sqlite(Onefold::sqlite(Path::new(path)).unwrap()),
            None => Service::Postgresql(Onefold::postgres(store.url()).await.unwrap()),
        }
    }

    pub async fn accompany(&self, writing: &Writing) {
        let writing = writing.clone();
        match self {
            Service::Sqlite(onefold) => {
                let write = move |tx: &mut SqliteTx<'_>, settled: &Settled<String>| {
                    tx.execute(INSERT, [settled.key(), &row_of(settled)])?;
                    tx.enqueue(&told(settled)?)?;
                    writing.ran()
                };
                onefold.companion(&operation(), write).await.unwrap();
            }
            Service::Postgresql(onefold) => {
                let write = async move |tx: &mut PostgresTx, settled: Arc<Settled<String>>| {
                    tx.execute(INSERT, &[&settled.key(), &row_of(&settled)]).await?;
                    tx.enqueue(&told(&settled)?).await?;
                    writing.ran()
                };
                onefold.companion(&operation(), write).await.unwrap();
            }
        }
    }

    pub async fn reserved<F, Fut>(&self, call: Call, work: F) -> Result<Done<String>, CallError>
    where
        F: FnOnce(Performing) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<String>, BoxError>> + Send + 'static,
    {
        on!(self, onefold => onefold.reserved(call, work).await)
    }

    pub async fn resumable<F, Fut>(&self, call: Call, work: F) -> Result<Done<String>, CallError>
    where
        F: FnOnce(Steps) -> Fut + Send + 'static,
        Fut: Future<Output = Result<Verdict<String>, BoxError>> + Send + 'static,
    {
        on!(self, onefold => onefold.resumable(call, work).await)
    }

    /// A payment whose answer is lost.
    pub async fn loses(&self, key: &str) -> OperationId {
        let lost = self.reserved(call(key), |_| async { Err("no answer".into()) }).await;
        let Err(CallError::OutcomeUnknown { id, error: Some(_) }) = lost else { panic!("{lost:?}") };
        id
    }

    pub async fn ask_again(&self, key: &str) -> Result<Done<String>, CallError> {
        self.reserved(call(key), |_| async { panic!("it was performed a second time") }).await
    }

    pub async fn resolve(&self, id: OperationId, verdict: Verdict<String>) -> Result<Shown, ActError> {
        let settlement = Settlement {
            verdict,
            reason: "ticket 7".into(),
            evidence: "the provider's books".into(),
            who: "ada".into(),
        };
        on!(self, onefold => onefold.resolve(&operation(), id, settlement).await)
    }

    pub fn reconcile(&self, look_up: Reconcile) -> Reconciling {
        on!(self, onefold => onefold.reconcile([look_up]))
    }

    pub fn drive(&self, drive: Drive) -> Driving {
        on!(self, onefold => onefold.drive([drive]))
    }

    pub fn engine(&self) -> &Engine {
        on!(self, onefold => onefold.engine())
    }

    pub async fn state(&self, id: OperationId) -> State {
        self.engine().look(id).await.unwrap().expect("the record").0.state
    }

    /// What its companion told about a key, and under which correlation id.
    pub async fn told(&self, key: &str) -> Option<(Vec<u8>, Option<String>)> {
        let id = format!("about {key}");
        let told = on!(self, onefold => onefold.outgoing(&id).await).unwrap()?.message;
        let correlation = told.headers.into_iter().find(|(name, _)| name == CORRELATION_ID);
        Some((told.body, correlation.map(|(_, id)| id)))
    }

    /// Waits until the operation is in this state.
    pub async fn comes_to(&self, id: OperationId, state: State) {
        let what = format!("the operation is {state}");
        wait::until_within(wait::DEADLINE, &what, async || self.state(id).await == state).await;
    }
}

/// The message that its companion makes.
fn told(settled: &Settled<String>) -> Result<Message, BoxError> {
    Ok(Message {
        id: Key::new(format!("about {}", settled.key()))?,
        destination: "loyalty".into(),
        address: String::new(),
        ordering_key: None,
        headers: Vec::new(),
        body: row_of(settled).into_bytes(),
    })
}

fn row_of(settled: &Settled<String>) -> String {
    match settled.rejected() {
        true => format!("refused: {}", settled.value()),
        false => settled.value().clone(),
    }
}

/// The rows of payments.
pub async fn payments(store: &Store) -> u64 {
    sql::ask(store.url(), "SELECT count(*) FROM payments").await.parse().unwrap()
}

/// The charge in the only row.
pub async fn charge(store: &Store) -> String {
    assert_eq!(payments(store).await, 1);
    sql::ask(store.url(), "SELECT charge FROM payments").await
}

/// A short lease, so that nobody need wait long for a dead owner.
pub fn operation() -> Operation {
    Operation::new("Capture", "one capture, and one row of it, for each key").lease(Duration::from_secs(2))
}

pub fn call(key: &str) -> Call {
    operation().call(Scope::new([("customer", "17")]), key, "25.00").unwrap()
}

pub fn captured() -> Verdict<String> {
    Verdict::succeeded("charge-1".into())
}
