//! The calls of a service: one order each, under a key, with a result of half a kilobyte.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use onefold_core::contract::ScopeSource;
use onefold_core::{Contract, FingerprintBuilder, Identity, IdentityKey, Kept, Key, Scope, TypedValue};
use onefold_engine::{AtomicEngine, Call, Known, Performed};
use onefold_store::{AtomicStore, Ended, Finish};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::args::Settings;
use crate::histogram::Histogram;
use crate::keys::KeyMaker;

/// A result of a usual size.
const RESULT_BYTES: usize = 500;
/// What is bought.
const BASKET: &str =
    "{\"basket\":\"b-71\",\"lines\":[{\"sku\":\"4711\",\"quantity\":2},{\"sku\":\"17\",\"quantity\":1}]}";

/// The row of a business.
pub(crate) const TABLE: &str = "CREATE TABLE orders (id text PRIMARY KEY, basket text NOT NULL)";

/// An order that is placed.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) basket: &'static str,
    contract: Arc<Contract>,
    secret: IdentityKey,
}

impl Order {
    /// The order as a call of the engine.
    pub(crate) fn call(&self) -> Result<Call> {
        let identity = Identity {
            scope: Scope::new([("customer", "c-5001")]),
            operation: self.contract.operation.clone(),
            key: Key::new(self.id.clone())?,
        };
        let fingerprint =
            FingerprintBuilder::new(&self.secret).part("request", self.basket.as_bytes()).finish();
        let label = Arc::from(self.contract.operation.as_str());
        Ok(Call { contract: self.contract.clone(), label, identity, fingerprint, correlation_id: None })
    }
}

/// What the work of an order says at its end.
pub(crate) fn placed() -> Ended {
    let json = format!("\"{}\"", "r".repeat(RESULT_BYTES - 2)).into_bytes();
    Ended::Finished {
        finish: Finish::Succeeded,
        kept: Kept::Value(TypedValue { version: 1, json }),
        resource: None,
    }
}

/// Performs an order that must be new.
pub(crate) async fn perform<S: AtomicStore>(
    engine: &AtomicEngine<S>,
    order: &Order,
    mut work: S::Work,
) -> Result<()> {
    let performed = engine.perform(&order.call()?, &mut work, pending()).await?;
    ensure!(matches!(performed, Performed::Committed(_)), "a new order was not performed: {performed:?}");
    Ok(())
}

/// Performs an order that may be known. True: it was new.
pub(crate) async fn perform_again<S: AtomicStore>(
    engine: &AtomicEngine<S>,
    order: &Order,
    mut work: S::Work,
) -> Result<bool> {
    match engine.perform(&order.call()?, &mut work, pending()).await? {
        Performed::Committed(_) => Ok(true),
        Performed::Known(Known { record: Some(_), .. }) => Ok(false),
        other => anyhow::bail!("an order has no result: {other:?}"),
    }
}

/// Makes orders.
#[derive(Clone)]
pub(crate) struct Orders {
    contract: Arc<Contract>,
    secret: IdentityKey,
}

impl Orders {
    pub(crate) fn new(secret: IdentityKey) -> Orders {
        let mut contract = Contract::new("CreateOrder", "one order row for each key");
        contract.scope = vec![ScopeSource::Shared];
        Orders { contract: Arc::new(contract), secret }
    }

    pub(crate) fn order(&self, maker: &mut KeyMaker) -> Order {
        let id = maker.uuid().to_string();
        Order { id, basket: BASKET, contract: self.contract.clone(), secret: self.secret.clone() }
    }
}

/// What one measurement found.
pub(crate) struct Sample {
    pub(crate) per_s: f64,
    pub(crate) p99_ms: f64,
}

/// So many tasks, each of which places its next order as soon as one is placed.
pub(crate) fn measure<F>(
    runtime: &Runtime,
    tasks: u32,
    settings: &Settings,
    orders: &Orders,
    place: impl Fn(usize, Order) -> F + Clone + Send + 'static,
) -> Result<Sample>
where
    F: Future<Output = Result<()>> + Send,
{
    let window = settings.window();
    let from = Instant::now() + settings.warmup();
    let until = from + window;
    let histogram = runtime.block_on(async {
        let mut running = JoinSet::new();
        for task in 0..tasks as usize {
            let (place, orders) = (place.clone(), orders.clone());
            let mut maker = KeyMaker::new(settings.keys_kind);
            running.spawn(async move {
                let mut histogram = Histogram::new();
                let mut asked = Instant::now();
                while asked < until {
                    place(task, orders.order(&mut maker)).await?;
                    let answered = Instant::now();
                    if answered >= from && answered < until {
                        histogram.add(answered - asked);
                    }
                    asked = answered;
                }
                anyhow::Ok(histogram)
            });
        }
        let mut all = Histogram::new();
        while let Some(ended) = running.join_next().await {
            all.merge(&ended??);
        }
        anyhow::Ok(all)
    })?;
    Ok(Sample { per_s: histogram.count() as f64 / window.as_secs_f64(), p99_ms: histogram.quantile_ms(0.99) })
}
