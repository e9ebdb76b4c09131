//! A lost answer that is looked up: the provider is asked what it knows, and what it has done is noted in the service's
//! own table in the same commit that settles the operation: `cargo run --example reconcile`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use onefold::companion::Settled;
use onefold::reconcile::{Fence, Found, Lost, Reconcile};
use onefold::{BoxError, CallError, Onefold, Operation, Scope, Verdict};

/// A provider that charges each key once and loses its answers on the way.
#[derive(Default)]
struct Provider {
    charges: AtomicU32,
}

impl Provider {
    async fn charge(&self, _key: &str) -> Result<String, BoxError> {
        self.charges.fetch_add(1, Ordering::Relaxed);
        Err("the connection was lost".into())
    }

    async fn find(&self, key: &str) -> Result<Option<String>, BoxError> {
        let charged = self.charges.load(Ordering::Relaxed) > 0;
        Ok(charged.then(|| format!("charge of {key}")))
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("payments.db");
    let onefold = Onefold::sqlite(&path)?;
    let own = rusqlite::Connection::open(&path)?;
    own.execute_batch("CREATE TABLE captures (payment TEXT, charge TEXT)")?;
    let provider = Arc::new(Provider::default());
    let capture =
        Operation::new("Capture", "one charge at the provider, and one row of it, for each payment");

    onefold
        .companion(&capture, |tx, settled: &Settled<String>| {
            tx.execute("INSERT INTO captures VALUES (?1, ?2)", [settled.key(), settled.value()])?;
            Ok(())
        })
        .await?;
    let asks = provider.clone();
    let look_up = Reconcile::new(&capture, move |lost: Lost| {
        let provider = asks.clone();
        async move {
            Ok(match provider.find(lost.key()).await? {
                Some(charge) => Found::created("charge", charge.clone(), charge),
                // The original may still be on its way; the provider takes each key once.
                None => Found::did_not_happen(Fence::SameKey),
            })
        }
    });
    let _reconciling = onefold.reconcile([look_up]);

    let charge = loop {
        let (provider, payment) = (provider.clone(), "payment-1");
        let call = capture.call(Scope::new([("merchant", "5")]), payment, payment)?;
        let captured = onefold
            .reserved(call, move |_| async move { Ok(Verdict::succeeded(provider.charge(payment).await?)) })
            .await;
        match captured {
            Ok(done) => break done.into_value(),
            Err(error @ CallError::OutcomeUnknown { .. }) => println!("{error}"),
            Err(other) => return Err(other.into()),
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    };

    let rows: u32 = own.query_row("SELECT count(*) FROM captures", [], |row| row.get(0))?;
    let charges = provider.charges.load(Ordering::Relaxed);
    println!("{charge}; charges at the provider: {charges}; rows: {rows}");
    if (charges, rows) == (1, 1) { Ok(()) } else { Err("one charge and one row were expected".into()) }
}
