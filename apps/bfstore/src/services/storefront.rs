//! **storefront**: pages. It makes the `checkout_id` and keeps it before it contacts anybody, so whatever is pressed,
//! reloaded or lost afterwards asks for the same order.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use onefold::any::{AnyError, AnyTx, ToValue};
use onefold::client::OperationKey;
use onefold::inbox::{Handled, Incoming};
use onefold::{AccessError, Applied, BoxError};
use serde::Deserialize;
use serde_json::json;
use tonic::{Code, Status};

use crate::events::{Event, Inlets};
use crate::rpc::orders_client::OrdersClient;
use crate::rpc::{self, Basket, FindOrderRequest, Order, Peer, PlaceOrderRequest};
use crate::safeguard::{self, Safeguard};
use crate::service::{Database, Settings};

const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS prices (product TEXT PRIMARY KEY, cents BIGINT NOT NULL, version BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS checkouts (
    checkout_id TEXT PRIMARY KEY, basket_id TEXT NOT NULL, customer_id TEXT NOT NULL,
    product TEXT NOT NULL, quantity BIGINT NOT NULL, cents BIGINT NOT NULL)",
    "INSERT INTO prices VALUES ('lamp', 2500, 0), ('chair', 9900, 0) ON CONFLICT DO NOTHING",
];
const BEGIN: &str =
    "INSERT INTO checkouts SELECT $1, $2, $3, product, $5, cents FROM prices WHERE product = $4";
const AGAIN: &str = "INSERT INTO checkouts SELECT $1, basket_id, customer_id, product, quantity, prices.cents
    FROM checkouts JOIN prices USING (product) WHERE checkout_id = $2";
const CHECKOUT: &str =
    "SELECT basket_id, customer_id, product, quantity, cents FROM checkouts WHERE checkout_id = $1";
const PRICE: &str = "INSERT INTO prices VALUES ($1, $2, $3)
    ON CONFLICT (product) DO UPDATE SET cents = excluded.cents, version = excluded.version";
const PAGE: &str = include_str!("storefront.html");

#[derive(Clone)]
struct Service {
    database: Database,
    orders: OrdersClient<Peer>,
}

/// What is to be bought.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct Wish {
    product: String,
    quantity: u32,
    customer_id: String,
}

impl Default for Wish {
    fn default() -> Wish {
        Wish { product: "lamp".into(), quantity: 1, customer_id: "ann".into() }
    }
}

#[derive(Debug)]
struct Checkout {
    basket: Basket,
    customer_id: String,
}

/// Runs the service.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    let database = Database::open(settings, TABLES).await?;
    let consumer = database.onefold.inbox(settings.inbox("storefront")).consumer(handle);
    let products = Inlets::default().of(settings, "catalogue", consumer).await?;
    let orders = OrdersClient::new(rpc::peer(settings.peer("order")?)?);
    let pages = Router::new()
        .route("/", get(begin))
        .route("/checkouts/{checkout_id}", get(page).post(buy))
        .route("/checkouts/{checkout_id}/again", post(again))
        .route("/checkouts/{checkout_id}/order", get(order))
        .with_state(Service { database, orders });
    products.serve(settings, pages).await
}

/// A new checkout. Its page has an address of its own, so reloading it makes no other.
async fn begin(State(service): State<Service>, Query(wish): Query<Wish>) -> Result<Redirect, Refused> {
    let checkout_id = OperationKey::generate().as_str().to_owned();
    let location = format!("/checkouts/{checkout_id}");
    let basket_id = format!("basket-{checkout_id}");
    let Wish { product, quantity, customer_id } = wish;
    let row: [&dyn ToValue; 5] = [&checkout_id, &basket_id, &customer_id, &product, &quantity];
    match service.database.onefold.execute(BEGIN, &row).await? {
        0 => Err(Status::not_found("there is no such product").into()),
        _ => Ok(Redirect::to(&location)),
    }
}

/// Another checkout of the same basket: somebody wants it once more, so it is another intention with a key of its own.
async fn again(State(service): State<Service>, Path(earlier): Path<String>) -> Result<Redirect, Refused> {
    let checkout_id = OperationKey::generate().as_str().to_owned();
    let location = format!("/checkouts/{checkout_id}");
    match service.database.onefold.execute(AGAIN, &[&checkout_id, &earlier]).await? {
        0 => Err(Status::not_found("there is no such checkout").into()),
        _ => Ok(Redirect::to(&location)),
    }
}

/// The page of a checkout, with its order, if there is one.
async fn page(
    State(mut service): State<Service>,
    Path(checkout_id): Path<String>,
) -> Result<Html<String>, Refused> {
    let Checkout { basket, .. } = service.checkout(checkout_id.clone()).await?;
    // Without an answer the page is shown all the same.
    let found = service.orders.find(FindOrderRequest { checkout_id }).await.ok();
    let (status, told) =
        found.map(|found| (found.get_ref().status.clone(), told(found.get_ref()))).unwrap_or_default();
    let filled = [
        ("{{wish}}", format!("{} × {}", basket.quantity, basket.product)),
        ("{{each}}", euros(basket.cents)),
        ("{{total}}", euros(basket.cents * i64::from(basket.quantity))),
        ("{{status}}", status),
        ("{{told}}", told),
    ];
    let page = filled.iter().fold(PAGE.to_owned(), |page, (place, text)| page.replace(place, &escaped(text)));
    Ok(Html(page))
}

/// The button. Pressed twice, or pressed again because no answer came, it asks for one order.
async fn buy(
    State(mut service): State<Service>,
    Path(checkout_id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let Checkout { basket, customer_id } = service.checkout(checkout_id.clone()).await?;
    let basket_id = basket.basket_id.clone();
    service.orders.put_basket(basket).await?;
    // Its key as it is; only `bfstore unprotected` changes it (safeguard.rs).
    let checkout_id = safeguard::key(Safeguard::CheckoutKey, &checkout_id);
    let asked = PlaceOrderRequest { checkout_id: checkout_id.clone(), basket_id, customer_id };
    let placed = service.orders.place(rpc::under(&checkout_id, asked)?).await?;
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    if accept.contains("text/html") {
        // A form that was sent without the page's script: its page shows the order, and reloading that sends nothing.
        return Ok(Redirect::to(&format!("/checkouts/{checkout_id}")).into_response());
    }
    Ok(shown(placed.get_ref()).into_response())
}

async fn order(
    State(mut service): State<Service>,
    Path(checkout_id): Path<String>,
) -> Result<Json<serde_json::Value>, Refused> {
    Ok(shown(service.orders.find(FindOrderRequest { checkout_id }).await?.get_ref()))
}

fn shown(order: &Order) -> Json<serde_json::Value> {
    let told = told(order);
    Json(json!({ "order_id": order.order_id, "status": order.status, "cents": order.cents, "told": told }))
}

/// Where an order stands, for whoever has ordered.
fn told(order: &Order) -> String {
    let says = match order.status.as_str() {
        "placed" => "placed. We are reserving and charging; this page says when it is done.",
        "confirmed" => "confirmed. A mail that says so is on its way.",
        "sold_out" => "sold out. Nothing was charged.",
        "unpaid" => "the payment was refused. Nothing was charged.",
        other => other,
    };
    format!("Order {}: {says}", order.order_id)
}

fn euros(cents: i64) -> String {
    format!("€{}.{:02}", cents / 100, cents % 100)
}

impl Service {
    async fn checkout(&self, checkout_id: String) -> Result<Checkout, Refused> {
        let found = self.database.onefold.query_opt(CHECKOUT, &[&checkout_id]).await?;
        let row = found.ok_or_else(|| Status::not_found("there is no such checkout"))?;
        let basket = Basket {
            basket_id: row.get(0)?,
            product: row.get(2)?,
            quantity: row.get(3)?,
            cents: row.get(4)?,
        };
        Ok(Checkout { basket, customer_id: row.get(1)? })
    }
}

/// Prices as they are told. An event that is older than what is known changes nothing.
async fn handle(tx: &mut AnyTx, message: Arc<Incoming>) -> Result<Handled, BoxError> {
    let Event::ProductChanged { product, cents, version } = serde_json::from_slice(&message.body)? else {
        return Ok(Handled::rejected("not an event for the storefront"));
    };
    let entity = safeguard::key(Safeguard::NewerPrice, &format!("product/{product}"));
    if tx.apply_if_newer(&entity, version).await? == Applied::Newer {
        tx.execute(PRICE, &[&product, &cents, &version]).await?;
    }
    Ok(Handled::Done)
}

/// Why there is no order (yet), for a browser.
struct Refused(Status);

impl From<Status> for Refused {
    fn from(status: Status) -> Refused {
        Refused(status)
    }
}

impl From<AccessError> for Refused {
    fn from(error: AccessError) -> Refused {
        Refused(Status::unavailable(error.to_string()))
    }
}

impl From<AnyError> for Refused {
    fn from(error: AnyError) -> Refused {
        Refused(Status::unavailable(error.to_string()))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status = match self.0.code() {
            Code::InvalidArgument | Code::OutOfRange => StatusCode::UNPROCESSABLE_ENTITY,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::FailedPrecondition | Code::AlreadyExists | Code::Unknown => StatusCode::CONFLICT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        let body = Json(json!({ "error": self.0.message() }));
        match status {
            StatusCode::SERVICE_UNAVAILABLE => (status, [(header::RETRY_AFTER, "1")], body).into_response(),
            _ => (status, body).into_response(),
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
