//! A shop with a database and a pool of its own.

use onefold::sqlx::Boundary;
use onefold::{Call, Operation, Scope};
use onefold_testkit::postgres::{Database, Isolation};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool};

pub const LEVELS: [Isolation; 3] =
    [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];

pub struct Shop {
    pub pool: PgPool,
    pub boundary: Boundary,
    pub database: Database,
}

impl Shop {
    pub async fn open(isolation: Isolation) -> Option<Shop> {
        let database = Database::create("the adapter for sqlx", isolation).await?;
        database.execute("CREATE TABLE orders (number bigserial PRIMARY KEY, sku text)").await;
        let boundary = Boundary::open(&database.url()).await.unwrap();
        let pool = PgPoolOptions::new().max_connections(8).connect(&database.url()).await.unwrap();
        Some(Shop { pool, boundary, database })
    }

    pub async fn count(&self, of: &str) -> i64 {
        self.database.ask(&format!("SELECT count(*)::text FROM {of}")).await.parse().unwrap()
    }

    pub async fn orders(&self) -> i64 {
        self.count("orders").await
    }

    pub async fn records(&self) -> i64 {
        self.count("onefold.operations").await
    }
}

pub fn operation() -> Operation {
    Operation::new("PlaceOrder", "one order row for each key")
}

pub fn call(key: &str, request: &str) -> Call {
    operation().call(Scope::new([("customer", "17")]), key, request).unwrap()
}

pub async fn insert(connection: &mut PgConnection) -> Result<i64, sqlx::Error> {
    let insert = "INSERT INTO orders (sku) VALUES ('lamp') RETURNING number";
    sqlx::query_scalar(insert).fetch_one(connection).await
}
