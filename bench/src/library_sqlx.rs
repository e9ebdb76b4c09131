//! The same order through the adapter for sqlx, which cannot pipeline: in a transaction of the service's own pool,
//! with the claim and the end in it, beside that transaction without them.

use anyhow::{Result, bail};
use onefold::{Operation, Scope};
use onefold_core::IdentityKey;
use onefold_sqlx::{Boundary, Claimed};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgPool};
use tokio::runtime::Runtime;

use crate::args::Settings;
use crate::library_calls::{Order, Orders, Sample, measure};

const INSERT: &str = "INSERT INTO orders (id, basket) VALUES ($1, $2)";
/// The result of an order, in bytes.
const RESULT_BYTES: usize = 498;

/// The transaction without and with idempotency, over a database that has the tables of both.
pub(crate) fn pair(
    runtime: &Runtime,
    url: &str,
    tasks: u32,
    settings: &Settings,
) -> Result<(Sample, Sample)> {
    let pool = runtime.block_on(PgPoolOptions::new().max_connections(tasks).connect(url))?;
    let orders = Orders::new(IdentityKey::none());
    let own = pool.clone();
    let plain = measure(runtime, tasks, settings, &orders, move |_, order| {
        let pool = own.clone();
        async move {
            let mut connection = pool.acquire().await?;
            let mut tx = connection.begin().await?;
            sqlx::query(INSERT).bind(&order.id).bind(order.basket).execute(&mut *tx).await?;
            Ok(tx.commit().await?)
        }
    })?;
    runtime.block_on(sqlx::query("TRUNCATE orders").execute(&pool))?;
    let boundary = runtime.block_on(Boundary::open(url))?;
    let operation = Operation::new("CreateOrder", "one order row for each key");
    let own = pool.clone();
    let claimed = measure(runtime, tasks, settings, &orders, move |_, order| {
        let (pool, boundary, operation) = (own.clone(), boundary.clone(), operation.clone());
        async move { place(&pool, &boundary, &operation, &order).await }
    })?;
    runtime.block_on(pool.close());
    Ok((plain, claimed))
}

async fn place(pool: &PgPool, boundary: &Boundary, operation: &Operation, order: &Order) -> Result<()> {
    let call = operation.call(Scope::new([("customer", "c-5001")]), &order.id, order.basket)?;
    let mut connection = pool.acquire().await?;
    let mut tx = connection.begin().await?;
    let claim = match boundary.claim::<String>(&mut tx, &call).await? {
        Claimed::Begun(claim) => claim,
        Claimed::Known(_) => bail!("a new order was known"),
    };
    sqlx::query(INSERT).bind(&order.id).bind(order.basket).execute(&mut *tx).await?;
    claim.succeed(&mut tx, "r".repeat(RESULT_BYTES)).await?;
    Ok(tx.commit().await?)
}
