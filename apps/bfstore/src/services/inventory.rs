//! **inventory**: stock and reservations. Stock is taken once for each `reservation_id`, in one transaction with the
//! record of the answer.

use onefold::Verdict;
use onefold::grpc::{Protection, Whose};
use rusqlite::params;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::contracts;
use crate::rpc::inventory_server::{Inventory, InventoryServer};
use crate::rpc::{Reservation, ReserveRequest};
use crate::service::{Database, Settings, serve};

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS stock (product TEXT PRIMARY KEY, available INTEGER NOT NULL CHECK (available >= 0));
CREATE TABLE IF NOT EXISTS reservations (
    reservation_id TEXT PRIMARY KEY, order_id INTEGER NOT NULL, product TEXT NOT NULL, quantity INTEGER NOT NULL);
INSERT INTO stock VALUES ('lamp', 100), ('chair', 100) ON CONFLICT DO NOTHING;
";
const TAKE: &str = "UPDATE stock SET available = available - ?2 WHERE product = ?1 AND available >= ?2";
const RESERVE: &str = "INSERT INTO reservations VALUES (?1, ?2, ?3, ?4)";

struct Service {
    reserve: Protection,
}

/// Runs the service.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    let database = Database::open(settings, TABLES)?;
    let reserve = Protection::new(
        &database.onefold,
        contracts::reserve(),
        "/bfstore.v1.Inventory/Reserve",
        Whose::shared(),
    )
    .key_of(|asked: &ReserveRequest| &asked.reservation_id);
    let service = InventoryServer::new(Service { reserve });
    serve(settings.listen, Routes::new(service).into_axum_router()).await
}

#[tonic::async_trait]
impl Inventory for Service {
    async fn reserve(&self, request: Request<ReserveRequest>) -> Result<Response<Reservation>, Status> {
        let reserved = self.reserve.atomic(request, |tx, asked| {
            let ReserveRequest { reservation_id, order_id, product, quantity } = asked;
            let answer = |reserved| Reservation { reservation_id: reservation_id.clone(), reserved };
            if tx.execute(TAKE, params![product, quantity])? == 0 {
                // A refusal that the workflow takes for an answer, and goes on with.
                return Ok(Verdict::rejected(answer(false)));
            }
            tx.execute(RESERVE, params![reservation_id, order_id, product, quantity])?;
            Ok(Verdict::created("reservation", reservation_id, answer(true)))
        });
        reserved.await
    }
}
