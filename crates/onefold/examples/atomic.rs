//! Atomic mode: an order row and the record of its operation in one commit. Needs no server:
//! `cargo run --example atomic`.

use onefold::{BoxError, CallError, Onefold, Operation, Scope, Verdict};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize)]
struct Checkout {
    sku: String,
    quantity: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    number: i64,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("shop.db");
    let onefold = Onefold::sqlite(&path)?;
    let shop = Connection::open(&path)?;
    shop.execute_batch("CREATE TABLE orders (number INTEGER PRIMARY KEY, sku TEXT, quantity INTEGER)")?;

    let place_order = Operation::new("PlaceOrder", "one order row for each checkout");
    let customer = || Scope::new([("customer", "17")]);
    let checkout = Checkout { sku: "lamp".into(), quantity: 1 };

    // The second attempt finds the first one's result, as it would after a crash or a lost answer.
    for attempt in 1..=2 {
        let order = checkout.clone();
        let call = place_order.call(customer(), "checkout-7f82", &checkout)?;
        let done = onefold
            .atomic(call, move |tx| {
                tx.execute(
                    "INSERT INTO orders (sku, quantity) VALUES (?1, ?2)",
                    (&order.sku, order.quantity),
                )?;
                let order = Order { number: tx.last_insert_rowid() };
                let confirmation = format!("order-{}/ORDER_CONFIRMED", order.number);
                if tx.effect(&confirmation)? {
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
    let conflict = onefold.atomic::<Order, _>(call, |_| unreachable!("it does not run")).await;
    match conflict {
        Err(error @ CallError::Conflict { .. }) => println!("another request: {error}"),
        other => return Err(format!("a conflict was expected: {other:?}").into()),
    }

    let rows: i64 = shop.query_row("SELECT count(*) FROM orders", [], |row| row.get(0))?;
    println!("orders in the database: {rows}");
    if rows == 1 { Ok(()) } else { Err("one order was expected".into()) }
}
