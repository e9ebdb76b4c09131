//! **order**: baskets and orders. An order is placed once for each `checkout_id`, in one transaction with the record of
//! its answer; what follows is the [workflow](super::fulfilment).

use std::fmt::Display;
use std::sync::Arc;

use onefold::any::{AnyError, AnyRow, AnyStore, AnyTx, ToValue};
use onefold::grpc::{Protection, Whose};
use onefold::{BoxError, Verdict};
use tokio::sync::Notify;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::rpc::orders_server::{Orders, OrdersServer};
use crate::rpc::{Basket, FindOrderRequest, Order, PlaceOrderRequest};
use crate::safeguard::{self, Safeguard};
use crate::service::{Database, Settings, serve};
use crate::services::fulfilment::Fulfilment;
use crate::{contracts, events};

/// The unique `checkout_id` protects the order for good, also when the record of the operation is gone. Orders are numbered
/// without gaps, as bookkeepers want it, so the number is taken in the transaction of the order.
const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS baskets (
    basket_id TEXT PRIMARY KEY, product TEXT NOT NULL, quantity BIGINT NOT NULL, cents BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS orders (
    order_id BIGINT PRIMARY KEY, checkout_id TEXT NOT NULL UNIQUE, basket_id TEXT NOT NULL,
    customer_id TEXT NOT NULL, product TEXT NOT NULL, quantity BIGINT NOT NULL, cents BIGINT NOT NULL,
    status TEXT NOT NULL, version BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS numbers (name TEXT PRIMARY KEY, latest BIGINT NOT NULL)",
    "INSERT INTO numbers VALUES ('order', 0) ON CONFLICT DO NOTHING",
];
const PUT_BASKET: &str = "INSERT INTO baskets VALUES ($1, $2, $3, $4) ON CONFLICT (basket_id)
    DO UPDATE SET product = excluded.product, quantity = excluded.quantity, cents = excluded.cents";
const BASKET: &str = "SELECT product, quantity, cents FROM baskets WHERE basket_id = $1";
const NUMBER: &str = "UPDATE numbers SET latest = latest + 1 WHERE name = 'order' RETURNING latest";
const PLACE: &str = "INSERT INTO orders VALUES ($1, $2, $3, $4, $5, $6, $7, 'placed', 1)";
const FIND: &str =
    "SELECT order_id, checkout_id, cents, status, basket_id, customer_id FROM orders WHERE checkout_id = $1";

struct Service {
    database: Database,
    place: Protection<AnyStore>,
    placed: Arc<Notify>,
}

/// Runs the service.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    let database = Database::open(settings, TABLES).await?;
    let place = contracts::place_order();
    let place = settings.retention.map_or(place.clone(), |retention| place.retention(retention));
    // The storefront alone makes checkout ids, and makes each once, so all of them are one scope.
    let place = Protection::new(&database.onefold, place, "/bfstore.v1.Orders/Place", Whose::shared())
        .key_of(|asked: &PlaceOrderRequest| &asked.checkout_id);
    let notification = events::destination(settings, "notification").await?;
    let loyalty = events::destination(settings, "loyalty").await?;
    let _relay = database.onefold.relay(vec![notification, loyalty]);
    let placed = Arc::new(Notify::new());
    let _fulfilling = Fulfilment::new(settings, &database, &placed)?.start();
    let service = OrdersServer::new(Service { database, place, placed });
    serve(settings.listen, Routes::new(service).into_axum_router()).await
}

#[tonic::async_trait]
impl Orders for Service {
    async fn put_basket(&self, request: Request<Basket>) -> Result<Response<Basket>, Status> {
        let basket = request.into_inner();
        let Basket { basket_id, product, quantity, cents } = &basket;
        let row: [&dyn ToValue; 4] = [basket_id, product, quantity, cents];
        self.database.onefold.execute(PUT_BASKET, &row).await.map_err(unavailable)?;
        Ok(Response::new(basket))
    }

    async fn place(&self, request: Request<PlaceOrderRequest>) -> Result<Response<Order>, Status> {
        let placed = self.place.atomic(request, place).await?;
        self.placed.notify_one();
        Ok(placed)
    }

    async fn find(&self, request: Request<FindOrderRequest>) -> Result<Response<Order>, Status> {
        let checkout_id = request.into_inner().checkout_id;
        let found = self.database.onefold.query_opt(FIND, &[&checkout_id]).await.map_err(unavailable)?;
        let found = found.ok_or_else(|| Status::not_found("there is no such order"))?;
        Ok(Response::new(order(&found).map_err(unavailable)?))
    }
}

/// The business: everything here is committed with the record of its answer, or not at all.
async fn place(tx: &mut AnyTx, asked: PlaceOrderRequest) -> Result<Verdict<Order>, BoxError> {
    let PlaceOrderRequest { checkout_id, basket_id, customer_id } = asked;
    let Some(basket) = tx.query_opt(BASKET, &[&basket_id]).await? else {
        return Err(Status::not_found("there is no such basket").into());
    };
    let (product, quantity, cents): (String, u32, i64) = (basket.get(0)?, basket.get(1)?, basket.get(2)?);
    if quantity == 0 {
        // Refused for good: this checkout gets the same answer each time.
        return Err(Status::invalid_argument("a basket of nothing cannot be ordered").into());
    }
    // Its key as it is; only `bfstore unprotected` changes it (safeguard.rs).
    let checkout_id = safeguard::key(Safeguard::UniqueColumn, &checkout_id);
    if let Some(found) = tx.query_opt(FIND, &[&checkout_id]).await? {
        // The record of this operation is gone, the order is not.
        if (found.get::<String>(4)?, found.get::<String>(5)?) != (basket_id, customer_id) {
            return Err(Status::failed_precondition("the checkout was used for another basket").into());
        }
        let order = order(&found)?;
        return Ok(Verdict::created("order", order.order_id, order));
    }
    let number = tx.query_opt(NUMBER, &[]).await?.ok_or("orders have no numbers")?;
    let (order_id, cents) = (number.get::<i64>(0)?, cents * i64::from(quantity));
    let row: [&dyn ToValue; 7] =
        [&order_id, &checkout_id, &basket_id, &customer_id, &product, &quantity, &cents];
    tx.execute(PLACE, &row).await?;
    let order = Order { order_id, checkout_id, cents, status: "placed".into() };
    Ok(Verdict::created("order", order_id, order))
}

fn order(row: &AnyRow) -> Result<Order, AnyError> {
    Ok(Order { order_id: row.get(0)?, checkout_id: row.get(1)?, cents: row.get(2)?, status: row.get(3)? })
}

fn unavailable(error: impl Display) -> Status {
    Status::unavailable(format!("the database did not answer: {error}"))
}
