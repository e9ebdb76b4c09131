//! **payment**: captures. The provider is asked under the `payment_attempt_id`, in an attempt of its own that was noted
//! before; an answer that is lost is unknown until the provider has been asked what it knows. However it becomes known
//! that money was taken, the row that says so and its event are in the commit that settles the capture.

use std::sync::Arc;

use onefold::any::{AnyStore, AnyTx, ToValue};
use onefold::companion::Settled;
use onefold::grpc::{Protection, Whose};
use onefold::{BoxError, Verdict};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::contracts;
use crate::events::{self, Event};
use crate::rpc::payments_server::{Payments, PaymentsServer};
use crate::rpc::{CaptureRequest, Receipt};
use crate::service::{Database, Settings, serve};
use crate::services::provider::{ANSWER_MAX, Provider};

/// `asked` is what the provider was asked, or is about to be: whoever settles a capture has no request.
const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS asked (
    payment_attempt_id TEXT PRIMARY KEY, order_id BIGINT NOT NULL, customer_id TEXT NOT NULL, cents BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS captures (
    payment_attempt_id TEXT PRIMARY KEY, order_id BIGINT NOT NULL, customer_id TEXT NOT NULL,
    cents BIGINT NOT NULL, charge TEXT NOT NULL)",
];
const ASK: &str = "INSERT INTO asked VALUES ($1, $2, $3, $4) ON CONFLICT (payment_attempt_id)
    DO UPDATE SET order_id = excluded.order_id, customer_id = excluded.customer_id, cents = excluded.cents";
const ASKED: &str = "SELECT order_id, customer_id, cents FROM asked WHERE payment_attempt_id = $1";
const NOTE: &str = "INSERT INTO captures VALUES ($1, $2, $3, $4, $5)";

struct Service {
    database: Database,
    capture: Protection<AnyStore>,
    provider: Provider,
}

/// Runs the service.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    let database = Database::open(settings, TABLES).await?;
    let onefold = &database.onefold;
    let provider = Provider::at(settings.peer("outside")?)?;
    // Its one caller makes the keys, so all are one scope. A service with many callers says whose key it is:
    // `Whose::principal`.
    let capture =
        Protection::new(onefold, contracts::capture(), "/bfstore.v1.Payments/Capture", Whose::shared())
            .key_of(|asked: &CaptureRequest| &asked.payment_attempt_id);
    capture.companion(note).await?;
    let asks = provider.clone();
    let look_up = capture.look_up(move |lost| {
        let provider = asks.clone();
        async move { provider.look_up(lost.key()).await }
    });
    // Both run for as long as these are kept.
    let _reconciling = onefold.reconcile([look_up.sends_for(ANSWER_MAX)]);
    let _relay = onefold.relay(vec![events::destination(settings, "notification").await?]);
    let service = PaymentsServer::new(Service { database, capture, provider });
    serve(settings.listen, Routes::new(service).into_axum_router()).await
}

#[tonic::async_trait]
impl Payments for Service {
    async fn capture(&self, request: Request<CaptureRequest>) -> Result<Response<Receipt>, Status> {
        let (database, provider) = (self.database.clone(), self.provider.clone());
        let captured = self.capture.reserved(request, move |performing, asked| async move {
            let CaptureRequest { payment_attempt_id, order_id, customer_id, cents } = &asked;
            let row: [&dyn ToValue; 4] = [payment_attempt_id, order_id, customer_id, cents];
            match database.onefold.execute(ASK, &row).await {
                Ok(_) => provider.capture(&asked, performing.attempt()).await,
                // The provider was not asked yet, so the key is free again.
                Err(error) => Ok(Verdict::not_done(error)),
            }
        });
        captured.await
    }
}

/// What is known of the provider, in the commit that settles the capture.
async fn note(tx: &mut AnyTx, settled: Arc<Settled<Result<Receipt, Status>>>) -> Result<(), BoxError> {
    // What was refused has no row and no event.
    let (Ok(receipt), false) = (settled.value(), settled.rejected()) else { return Ok(()) };
    let payment_attempt_id = settled.key();
    let asked = tx.query_opt(ASKED, &[&payment_attempt_id]).await?.ok_or("nobody asked for this capture")?;
    let (order_id, customer_id, cents): (i64, String, i64) = (asked.get(0)?, asked.get(1)?, asked.get(2)?);
    let row: [&dyn ToValue; 5] = [&payment_attempt_id, &order_id, &customer_id, &cents, &receipt.charge];
    tx.execute(NOTE, &row).await?;
    let (id, about) = (format!("order-{order_id}/captured"), format!("order-{order_id}"));
    let event = Event::PaymentCaptured { order_id, customer_id, cents };
    tx.enqueue(&event.to("notification", &id, &about, payment_attempt_id)?).await?;
    Ok(())
}
