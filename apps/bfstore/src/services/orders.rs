//! **order**: baskets and orders. An order is placed once for each `checkout_id`, in one transaction with the record of
//! its answer; what follows is the [workflow](super::fulfilment).

use std::sync::Arc;

use onefold::grpc::{Protection, Whose};
use onefold::{BoxError, SqliteTx, Verdict};
use rusqlite::{OptionalExtension, Row, params};
use tokio::sync::Notify;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::rpc::orders_server::{Orders, OrdersServer};
use crate::rpc::{Basket, FindOrderRequest, Order, PlaceOrderRequest};
use crate::service::{Database, Settings, serve};
use crate::services::fulfilment::Fulfilment;
use crate::{contracts, events};

/// The unique `checkout_id` protects the order for good, also when the record of the operation is gone.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS baskets (
    basket_id TEXT PRIMARY KEY, product TEXT NOT NULL, quantity INTEGER NOT NULL, cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS orders (
    order_id INTEGER PRIMARY KEY, checkout_id TEXT NOT NULL UNIQUE, basket_id TEXT NOT NULL,
    customer_id TEXT NOT NULL, product TEXT NOT NULL, quantity INTEGER NOT NULL, cents INTEGER NOT NULL,
    status TEXT NOT NULL, version INTEGER NOT NULL);
";
const PUT_BASKET: &str = "INSERT INTO baskets VALUES (?1, ?2, ?3, ?4) ON CONFLICT (basket_id)
    DO UPDATE SET product = excluded.product, quantity = excluded.quantity, cents = excluded.cents";
const BASKET: &str = "SELECT product, quantity, cents FROM baskets WHERE basket_id = ?1";
const PLACE: &str = "INSERT INTO orders
    (checkout_id, basket_id, customer_id, product, quantity, cents, status, version)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'placed', 1) ON CONFLICT (checkout_id) DO NOTHING";
const FIND: &str = "SELECT order_id, checkout_id, cents, status FROM orders WHERE checkout_id = ?1";
const OF_BASKET: &str =
    "SELECT count(*) FROM orders WHERE checkout_id = ?1 AND basket_id = ?2 AND customer_id = ?3";

struct Service {
    database: Database,
    place: Protection,
    placed: Arc<Notify>,
}

/// Runs the service.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    let database = Database::open(settings, TABLES)?;
    let place = contracts::place_order();
    let place = settings.retention.map_or(place.clone(), |retention| place.retention(retention));
    // The storefront alone makes checkout ids, and makes each once, so all of them are one scope.
    let place = Protection::new(&database.onefold, place, "/bfstore.v1.Orders/Place", Whose::shared())
        .key_of(|asked: &PlaceOrderRequest| &asked.checkout_id);
    let receivers = ["notification", "loyalty"].map(|receiver| events::destination(settings, receiver));
    let _relay = database.onefold.relay(receivers.into_iter().collect::<anyhow::Result<_>>()?);
    let placed = Arc::new(Notify::new());
    let _fulfilling = Fulfilment::new(settings, &database, &placed)?.start();
    let service = OrdersServer::new(Service { database, place, placed });
    serve(settings.listen, Routes::new(service).into_axum_router()).await
}

#[tonic::async_trait]
impl Orders for Service {
    async fn put_basket(&self, request: Request<Basket>) -> Result<Response<Basket>, Status> {
        let basket = request.into_inner();
        let Basket { basket_id, product, quantity, cents } = basket.clone();
        let put = self
            .database
            .own(move |own| own.execute(PUT_BASKET, params![basket_id, product, quantity, cents]));
        put.await.map_err(unavailable)?;
        Ok(Response::new(basket))
    }

    async fn place(&self, request: Request<PlaceOrderRequest>) -> Result<Response<Order>, Status> {
        let placed = self.place.atomic(request, place).await?;
        self.placed.notify_one();
        Ok(placed)
    }

    async fn find(&self, request: Request<FindOrderRequest>) -> Result<Response<Order>, Status> {
        let checkout_id = request.into_inner().checkout_id;
        let found = self.database.own(move |own| own.query_row(FIND, [checkout_id], order).optional());
        let found = found.await.map_err(unavailable)?;
        found.map(Response::new).ok_or_else(|| Status::not_found("there is no such order"))
    }
}

/// The business: everything here is committed with the record of its answer, or not at all.
fn place(tx: &mut SqliteTx<'_>, asked: &PlaceOrderRequest) -> Result<Verdict<Order>, BoxError> {
    let PlaceOrderRequest { checkout_id, basket_id, customer_id } = asked;
    let basket = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?, row.get::<_, i64>(2)?));
    let Some((product, quantity, cents)) = tx.query(BASKET, [basket_id], basket)?.pop() else {
        return Err(Status::not_found("there is no such basket").into());
    };
    if quantity == 0 {
        // Refused for good: this checkout gets the same answer each time.
        return Err(Status::invalid_argument("a basket of nothing cannot be ordered").into());
    }
    let total = cents * i64::from(quantity);
    let row = params![checkout_id, basket_id, customer_id, product, quantity, total];
    if tx.execute(PLACE, row)? == 0 {
        // The record of this operation is gone, the order is not.
        let same: i64 = tx.query_row(OF_BASKET, [checkout_id, basket_id, customer_id], |row| row.get(0))?;
        if same == 0 {
            return Err(Status::failed_precondition("the checkout was used for another basket").into());
        }
    }
    let order = tx.query_row(FIND, [checkout_id], order)?;
    Ok(Verdict::created("order", order.order_id, order))
}

fn order(row: &Row<'_>) -> rusqlite::Result<Order> {
    Ok(Order { order_id: row.get(0)?, checkout_id: row.get(1)?, cents: row.get(2)?, status: row.get(3)? })
}

fn unavailable(error: anyhow::Error) -> Status {
    Status::unavailable(format!("the database did not answer: {error}"))
}
