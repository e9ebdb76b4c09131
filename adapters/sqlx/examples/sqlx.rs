//! A service with its own pool of sqlx, whose order is placed once for each checkout:
//! `cargo run -p onefold-sqlx --example sqlx -- postgres://…`

use onefold::sqlx::{Boundary, Claimed, Error};
use onefold::{BoxError, Operation, Scope};
use sqlx::{Connection, PgPool};

pub(crate) async fn run(url: &str) -> Result<(), BoxError> {
    let pool = PgPool::connect(url).await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, sku text)")
        .execute(&pool)
        .await?;
    let boundary = Boundary::open(url).await?;
    let _keeper = boundary.keep(std::time::Duration::from_secs(60));

    for checkout in ["checkout-7f82", "checkout-7f82", "checkout-93aa"] {
        let (order, replayed) = place(&pool, &boundary, checkout, "lamp").await?;
        println!("{checkout}: order {order}, replayed: {replayed}");
    }
    Ok(())
}

/// Runs again what the database wants run again.
async fn place(pool: &PgPool, boundary: &Boundary, checkout: &str, sku: &str) -> Result<(i64, bool), Error> {
    for _ in 0..5 {
        match place_once(pool, boundary, checkout, sku).await {
            Err(error) if error.asks_for_rerun() => tokio::task::yield_now().await,
            placed => return placed,
        }
    }
    place_once(pool, boundary, checkout, sku).await
}

async fn place_once(
    pool: &PgPool,
    boundary: &Boundary,
    checkout: &str,
    sku: &str,
) -> Result<(i64, bool), Error> {
    let place_order = Operation::new("PlaceOrder", "one order row for each checkout");
    let call = place_order.call(Scope::new([("customer", "17")]), checkout, sku)?;

    let mut connection = pool.acquire().await?;
    let mut tx = connection.begin().await?;
    let done = match boundary.claim(&mut tx, &call).await? {
        Claimed::Known(done) => return Ok((*done.value(), true)), // the transaction is rolled back; it has nothing
        Claimed::Begun(claim) => {
            let insert = sqlx::query_scalar("INSERT INTO orders (sku) VALUES ($1) RETURNING id");
            let id: i64 = insert.bind(sku).fetch_one(&mut *tx).await?;
            claim.succeed(&mut tx, id).await?
        }
    };
    tx.commit().await?;
    Ok((done.into_value(), false))
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::args().nth(1).ok_or("which database? Give a postgres:// address")?;
    run(&url).await
}
