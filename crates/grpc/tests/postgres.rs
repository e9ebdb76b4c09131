//! A method whose rows and record are in a PostgreSQL database.

use onefold::grpc::{Protection, REPLAYED, Whose};
use onefold::postgres::PostgresTx;
use onefold::{Onefold, Operation, Verdict};
use onefold_testkit::postgres::{Database, Isolation};
use prost::Message;
use tonic::{Code, Request, Response, Status};

#[derive(Clone, PartialEq, Message)]
struct Checkout {
    #[prost(string, tag = "1")]
    sku: String,
}

#[derive(Clone, PartialEq, Message)]
struct Order {
    #[prost(int64, tag = "1")]
    number: i64,
}

fn request(sku: &str) -> Request<Checkout> {
    let mut request = Request::new(Checkout { sku: sku.into() });
    for (name, value) in [("idempotency-key", "checkout-7f82"), ("authorization", "Bearer me")] {
        request.metadata_mut().insert(name, value.parse().unwrap());
    }
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_replayed_another_request_conflicts_and_an_error_frees_the_key() {
    let Some(database) = Database::create("gRPC on PostgreSQL", Isolation::ReadCommitted).await else {
        return;
    };
    let table = "CREATE TABLE orders (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sku text)";
    database.execute(table).await;
    let onefold = Onefold::postgres(&database.url()).await.unwrap();
    let operation = Operation::new("PlaceOrder", "one order row for each key");
    let place = Protection::new(&onefold, operation, "/shop.v1.Orders/Place", Whose::credential());
    let ask = async |sku: &str, open: bool| -> Result<Response<Order>, Status> {
        let placed = place.atomic(request(sku), async move |tx: &mut PostgresTx, checkout: Checkout| {
            let sql = "INSERT INTO orders (sku) VALUES ($1) RETURNING number";
            let number = tx.query_opt(sql, &[&checkout.sku]).await?.ok_or("no row")?.get(0);
            if !open {
                return Err(Status::internal("the shop is closed").into());
            }
            Ok(Verdict::created("order", number, Order { number }))
        });
        placed.await
    };
    assert!(ask("chair", false).await.is_err(), "it is undone");
    let first = ask("lamp", true).await.unwrap();
    assert!(!first.metadata().contains_key(REPLAYED));
    let again = ask("lamp", true).await.unwrap();
    assert_eq!(again.metadata().get(REPLAYED).unwrap(), "true");
    assert_eq!(again.into_inner(), first.into_inner());
    assert_eq!(ask("chair", true).await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(database.ask("SELECT string_agg(sku, ' ') FROM orders").await, "lamp");
}
