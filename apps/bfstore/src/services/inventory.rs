//! **inventory**: stock and reservations. Stock is taken once for each `reservation_id`, and given back once for each
//! `release_id`, in one transaction with the record of the answer.

use onefold::any::{AnyStore, AnyTx};
use onefold::grpc::{Protection, Whose};
use onefold::{BoxError, Verdict};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::contracts;
use crate::rpc::inventory_server::{Inventory, InventoryServer};
use crate::rpc::{ReleaseRequest, Released, Reservation, ReserveRequest};
use crate::service::{Database, Settings, serve};

const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS stock (product TEXT PRIMARY KEY, available BIGINT NOT NULL CHECK (available >= 0))",
    "CREATE TABLE IF NOT EXISTS reservations (
    reservation_id TEXT PRIMARY KEY, order_id BIGINT NOT NULL, product TEXT NOT NULL, quantity BIGINT NOT NULL,
    released BIGINT NOT NULL)",
    "INSERT INTO stock VALUES ('lamp', 100), ('chair', 100) ON CONFLICT DO NOTHING",
];
const TAKE: &str = "UPDATE stock SET available = available - $2 WHERE product = $1 AND available >= $2";
const RESERVE: &str = "INSERT INTO reservations VALUES ($1, $2, $3, $4, 0)";
const RELEASE: &str = "UPDATE reservations SET released = 1 WHERE reservation_id = $1 AND released = 0
    RETURNING product, quantity";
const GIVE_BACK: &str = "UPDATE stock SET available = available + $2 WHERE product = $1";

struct Service {
    reserve: Protection<AnyStore>,
    release: Protection<AnyStore>,
}

/// Runs the service.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    let database = Database::open(settings, TABLES).await?;
    let protect = |operation, method: &str| {
        // Its one caller makes the keys, so all are one scope. A service with many callers says whose key it is:
        // `Whose::principal`.
        Protection::new(
            &database.onefold,
            operation,
            format!("/bfstore.v1.Inventory/{method}"),
            Whose::shared(),
        )
    };
    let reserve =
        protect(contracts::reserve(), "Reserve").key_of(|asked: &ReserveRequest| &asked.reservation_id);
    let release = protect(contracts::release(), "Release").key_of(|asked: &ReleaseRequest| &asked.release_id);
    let service = InventoryServer::new(Service { reserve, release });
    serve(settings.listen, Routes::new(service).into_axum_router()).await
}

#[tonic::async_trait]
impl Inventory for Service {
    async fn reserve(&self, request: Request<ReserveRequest>) -> Result<Response<Reservation>, Status> {
        self.reserve.atomic(request, reserve).await
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Result<Response<Released>, Status> {
        self.release.atomic(request, release).await
    }
}

/// The business: everything here is committed with the record of its answer, or not at all.
async fn reserve(tx: &mut AnyTx, asked: ReserveRequest) -> Result<Verdict<Reservation>, BoxError> {
    let ReserveRequest { reservation_id, order_id, product, quantity } = asked;
    let answer = |reserved| Reservation { reservation_id: reservation_id.clone(), reserved };
    if tx.execute(TAKE, &[&product, &quantity]).await? == 0 {
        // A refusal that the workflow takes for an answer, and goes on with.
        return Ok(Verdict::rejected(answer(false)));
    }
    tx.execute(RESERVE, &[&reservation_id, &order_id, &product, &quantity]).await?;
    Ok(Verdict::created("reservation", reservation_id.clone(), answer(true)))
}

async fn release(tx: &mut AnyTx, asked: ReleaseRequest) -> Result<Verdict<Released>, BoxError> {
    let ReleaseRequest { release_id, reservation_id } = asked;
    let given_back = tx.query_opt(RELEASE, &[&reservation_id]).await?;
    if let Some(row) = &given_back {
        let (product, quantity): (String, u32) = (row.get(0)?, row.get(1)?);
        tx.execute(GIVE_BACK, &[&product, &quantity]).await?;
    }
    Ok(Verdict::succeeded(Released { release_id, released: given_back.is_some() }))
}
