//! Atomic mode on PostgreSQL: an order row and the record of its operation in one commit. Makes a table
//! `onefold_example_orders` and the schema `onefold` in the database that it is given:
//! `ONEFOLD_STORE=postgres://… cargo run -p onefold --example atomic_postgres`.

use onefold::postgres::PostgresTx;
use onefold::{BoxError, CallError, Onefold, Operation, Scope, Verdict};
use serde::{Deserialize, Serialize};
use tokio_postgres::NoTls;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS onefold_example_orders
    (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sku text, quantity int)";
const INSERT: &str = "INSERT INTO onefold_example_orders (sku, quantity) VALUES ($1, $2) RETURNING number";

#[derive(Clone, Serialize)]
struct Checkout {
    sku: String,
    quantity: i32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    number: i64,
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::var("ONEFOLD_STORE").map_err(|_| "ONEFOLD_STORE=postgres://… is missing")?;
    run(&url).await
}

pub(crate) async fn run(url: &str) -> Result<(), BoxError> {
    let onefold = Onefold::postgres(url).await?;
    let (shop, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    shop.batch_execute(TABLE).await?;

    let place_order = Operation::new("PlaceOrder", "one order row for each checkout");
    let customer = || Scope::new([("customer", "17")]);
    let checkout = Checkout { sku: "lamp".into(), quantity: 1 };

    // The second attempt finds the first one's result, as it would in another process or after a crash.
    for attempt in 1..=2 {
        let order = checkout.clone();
        let call = place_order.call(customer(), "checkout-7f82", &checkout)?;
        let done = onefold
            .atomic(call, async move |tx: &mut PostgresTx| {
                let row = tx.query_opt(INSERT, &[&order.sku, &order.quantity]).await?.ok_or("no row")?;
                let order = Order { number: row.get(0) };
                let confirmation = format!("order-{}/ORDER_CONFIRMED", order.number);
                if tx.effect(&confirmation).await? {
                    println!("  to be confirmed once: {confirmation}");
                }
                Ok(Verdict::created("order", order.number, order))
            })
            .await?;
        println!("attempt {attempt}: order {}, replayed: {}", done.value().number, done.replayed());
    }

    // The same key for something else is a mistake of the caller, and is told so.
    let another = Checkout { quantity: 2, ..checkout };
    let call = place_order.call(customer(), "checkout-7f82", &another)?;
    let work = async |_: &mut PostgresTx| unreachable!("it does not run");
    match onefold.atomic::<Order, _>(call, work).await {
        Err(error @ CallError::Conflict { .. }) => println!("another request: {error}"),
        other => return Err(format!("a conflict was expected: {other:?}").into()),
    }

    let rows: i64 = shop.query_one("SELECT count(*) FROM onefold_example_orders", &[]).await?.get(0);
    println!("orders in the database: {rows}");
    if rows == 1 { Ok(()) } else { Err("one order was expected".into()) }
}
