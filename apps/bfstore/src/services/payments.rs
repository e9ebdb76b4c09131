//! **payment**: captures. The provider is asked under the `payment_attempt_id`, in an attempt of its own that was noted
//! before; an answer that is lost is unknown until the provider has been asked what it knows.

use std::sync::Arc;
use std::time::Duration;

use onefold::any::{AnyStore, AnyTx, ToValue};
use onefold::grpc::{Protection, Whose};
use onefold::reconcile::Registration;
use onefold::{Onefold, Verdict};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::contracts;
use crate::events::{self, Event};
use crate::rpc::payments_server::{Payments, PaymentsServer};
use crate::rpc::{self, CaptureRequest, Receipt};
use crate::service::{Database, Settings, serve};
use crate::services::provider::{ANSWER_MAX, Provider};

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS captures (
    payment_attempt_id TEXT PRIMARY KEY, order_id BIGINT NOT NULL, customer_id TEXT NOT NULL,
    cents BIGINT NOT NULL, charge TEXT NOT NULL);
";
const NOTE: &str = "INSERT INTO captures VALUES ($1, $2, $3, $4, $5)";
/// How long one look-up at the provider may take.
const PROBE_MAX: Duration = Duration::from_secs(5);

struct Service {
    onefold: Onefold<AnyStore>,
    capture: Protection<AnyStore>,
    provider: Provider,
}

/// Runs the service.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    let database = Database::open(settings, TABLES).await?;
    let onefold = database.onefold.clone();
    let provider = Provider::at(settings.peer("outside")?)?;
    let capture =
        Protection::new(&onefold, contracts::capture(), "/bfstore.v1.Payments/Capture", Whose::shared());
    let _reconciling = onefold.engine().reconcile(vec![Registration {
        operation: contracts::capture().contract().operation.clone(),
        label: "Capture".into(),
        reconciler: Arc::new(provider.clone()),
        probe_max: PROBE_MAX,
        sends_for: ANSWER_MAX,
    }]);
    let _relay = onefold.relay(vec![events::destination(settings, "notification").await?]);
    let service = PaymentsServer::new(Service { onefold, capture, provider });
    serve(settings.listen, Routes::new(service).into_axum_router()).await
}

#[tonic::async_trait]
impl Payments for Service {
    async fn capture(&self, request: Request<CaptureRequest>) -> Result<Response<Receipt>, Status> {
        let request = rpc::keyed(request, |asked| &asked.payment_attempt_id)?;
        let asked = request.get_ref().clone();
        let provider = self.provider.clone();
        let captured = self.capture.reserved(request, move |performing, asked| async move {
            provider.capture(&asked, performing.attempt()).await
        });
        let receipt = captured.await?;
        // A replay comes here too, so that what is known of the provider is noted however it became known.
        self.note(asked, receipt.get_ref().clone()).await?;
        Ok(receipt)
    }
}

impl Service {
    async fn note(&self, asked: CaptureRequest, receipt: Receipt) -> Result<(), Status> {
        if receipt.charge.is_empty() {
            return Ok(());
        }
        let CaptureRequest { payment_attempt_id, order_id, customer_id, cents } = asked;
        let call = contracts::note_capture().call(
            contracts::scope("payment"),
            payment_attempt_id.as_str(),
            &receipt.charge,
        );
        let noted = self.onefold.atomic(call.map_err(failed)?, async move |tx: &mut AnyTx| {
            let row: [&dyn ToValue; 5] =
                [&payment_attempt_id, &order_id, &customer_id, &cents, &receipt.charge];
            tx.execute(NOTE, &row).await?;
            let event = Event::PaymentCaptured { order_id, customer_id: customer_id.clone(), cents };
            let (id, about) = (format!("order-{order_id}/captured"), format!("order-{order_id}"));
            tx.enqueue(&event.to("notification", &id, &about, &payment_attempt_id)?).await?;
            Ok(Verdict::succeeded(()))
        });
        noted.await.map_err(failed)?;
        Ok(())
    }
}

/// The same call under the same key notes it later.
fn failed(error: onefold::CallError) -> Status {
    Status::unavailable(format!("the capture could not be noted: {error}"))
}
