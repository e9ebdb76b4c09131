//! **inventory**: stock and reservations. Stock is taken once for each `reservation_id`, in one transaction with the
//! record of the answer.

use onefold::any::{AnyStore, AnyTx};
use onefold::grpc::{Protection, Whose};
use onefold::{BoxError, Verdict};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::contracts;
use crate::rpc::inventory_server::{Inventory, InventoryServer};
use crate::rpc::{self, Reservation, ReserveRequest};
use crate::service::{Database, Settings, serve};

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS stock (product TEXT PRIMARY KEY, available BIGINT NOT NULL CHECK (available >= 0));
CREATE TABLE IF NOT EXISTS reservations (
    reservation_id TEXT PRIMARY KEY, order_id BIGINT NOT NULL, product TEXT NOT NULL, quantity BIGINT NOT NULL);
INSERT INTO stock VALUES ('lamp', 100), ('chair', 100) ON CONFLICT DO NOTHING;
";
const TAKE: &str = "UPDATE stock SET available = available - $2 WHERE product = $1 AND available >= $2";
const RESERVE: &str = "INSERT INTO reservations VALUES ($1, $2, $3, $4)";

struct Service {
    reserve: Protection<AnyStore>,
}

/// Runs the service.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    let database = Database::open(settings, TABLES).await?;
    let reserve = Protection::new(
        &database.onefold,
        contracts::reserve(),
        "/bfstore.v1.Inventory/Reserve",
        Whose::shared(),
    );
    let service = InventoryServer::new(Service { reserve });
    serve(settings.listen, Routes::new(service).into_axum_router()).await
}

#[tonic::async_trait]
impl Inventory for Service {
    async fn reserve(&self, request: Request<ReserveRequest>) -> Result<Response<Reservation>, Status> {
        let request = rpc::keyed(request, |asked| &asked.reservation_id)?;
        self.reserve.atomic(request, reserve).await
    }
}

/// The business: everything here is committed with the record of its answer, or not at all.
async fn reserve(tx: &mut AnyTx, asked: ReserveRequest) -> Result<Verdict<Reservation>, BoxError> {
    let ReserveRequest { reservation_id, order_id, product, quantity } = asked;
    let answer = |reserved| Reservation { reservation_id: reservation_id.clone(), reserved };
    if tx.execute(TAKE, &[&product, &quantity]).await? == 0 {
        // A refusal in the business's own words: a status could be taken for one of the layer.
        return Ok(Verdict::rejected(answer(false)));
    }
    tx.execute(RESERVE, &[&reservation_id, &order_id, &product, &quantity]).await?;
    Ok(Verdict::created("reservation", reservation_id.clone(), answer(true)))
}
