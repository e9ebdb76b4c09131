//! A service whose orders are placed once for each key: `cargo run --example axum`, and then what it prints.

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use onefold::axum::{Protected, Protection, Refused, Reply, ScopeSource, operations};
use onefold::{BoxError, Onefold, Operation, Verdict};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Checkout {
    sku: String,
}

#[derive(Serialize, Deserialize)]
struct Order {
    number: i64,
    sku: String,
}

async fn place(
    State(onefold): State<Onefold>,
    protected: Protected,
    Json(checkout): Json<Checkout>,
) -> Result<Reply<Order>, Refused> {
    let done = onefold.atomic(protected.call(), move |tx| {
        let sku = checkout.sku.clone();
        tx.execute("INSERT INTO orders (sku) VALUES (?1)", [&sku])?;
        let number = tx.last_insert_rowid();
        Ok(Verdict::created("order", number, Order { number, sku }))
    });
    Ok(Reply::of(done.await?).status(201))
}

pub(crate) fn app(onefold: Onefold) -> Router {
    let place_order = Operation::new("PlaceOrder", "one order row for each key");
    let protection = Protection::new(&onefold, place_order, [ScopeSource::Credential]);
    let pages = operations(&onefold, [protection.clone()]);
    Router::new().route("/orders", post(place).layer(protection)).with_state(onefold).merge(pages)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("shop.db");
    let onefold = Onefold::sqlite(&path)?;
    let shop = rusqlite::Connection::open(&path)?;
    shop.execute_batch("CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT)")?;
    let _keeper = onefold.keep(std::time::Duration::from_secs(60));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("Twice, please, and then once more with a chair:");
    println!(
        "curl -i http://{}/orders -H 'Idempotency-Key: checkout-7f82' -H 'Authorization: Bearer me' --json '{{\"sku\":\"lamp\"}}'",
        listener.local_addr()?
    );
    axum::serve(listener, app(onefold)).await?;
    Ok(())
}
