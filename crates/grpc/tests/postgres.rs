//! A method whose rows and record are in a PostgreSQL database.

use std::sync::Arc;

use onefold::companion::Settled;
use onefold::grpc::{OPERATION, OUTCOME, Protection, REJECTED, REPLAYED, Whose};
use onefold::postgres::PostgresTx;
use onefold::{ActError, Onefold, Operation, OperationId, Settlement, State, Verdict};
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

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_with_an_answer_is_written_whoever_settles_the_call() {
    let what = "companions of gRPC methods on PostgreSQL";
    let Some(database) = Database::create(what, Isolation::ReadCommitted).await else { return };
    database.execute("CREATE TABLE captures (about text, says text)").await;
    let onefold = Onefold::postgres(&database.url()).await.unwrap();
    let operation = Operation::new("Capture", "one capture, and one row of it, for each key");
    let capture = Protection::new(&onefold, operation, "/shop.v1.Payments/Capture", Whose::credential());
    let write = async |tx: &mut PostgresTx, settled: Arc<Settled<Result<Order, Status>>>| {
        let says = match settled.value() {
            Ok(order) => order.number.to_string(),
            Err(status) => status.message().to_owned(),
        };
        tx.execute("INSERT INTO captures VALUES ($1, $2)", &[&settled.key(), &says]).await?;
        Ok(())
    };
    capture.companion(write).await.unwrap();
    let ask = async |key: &str, says: Result<Verdict<Order>, Status>| {
        let mut request = request("lamp");
        request.metadata_mut().insert("idempotency-key", key.parse().unwrap());
        capture.reserved(request, move |_, _| async move { Ok(says?) }).await
    };
    let rows = "SELECT coalesce(string_agg(about || ' ' || says, ', ' ORDER BY about), 'none') FROM captures";
    let charged = |number| Verdict::succeeded(Order { number });
    ask("a", Ok(charged(1))).await.unwrap();
    let refused = ask("b", Err(Status::failed_precondition("no cover"))).await.unwrap_err();
    assert_eq!(refused.metadata().get(OUTCOME).unwrap(), REJECTED);
    assert_eq!(database.ask(rows).await, "a 1, b no cover");

    let settlement = |verdict| Settlement {
        verdict,
        reason: "ticket 7".into(),
        evidence: "the provider's books".into(),
        who: "ada".into(),
    };
    for (key, verdict) in [("c", charged(3)), ("d", Verdict::not_done("the provider knows nothing of it"))] {
        let lost = ask(key, Err(Status::deadline_exceeded("no answer"))).await.unwrap_err();
        let page = lost.metadata().get(OPERATION).expect("a place to ask").to_str().unwrap();
        let id: OperationId = page.rsplit('/').next().unwrap().parse().unwrap();
        let nothing_to_do = matches!(verdict, Verdict::NotDone { .. });
        let shown = capture.resolve(id, settlement(verdict)).await.unwrap();
        assert_eq!(shown.record.state, if nothing_to_do { State::Failed } else { State::Succeeded });
        let late = capture.resolve(id, settlement(charged(9))).await;
        assert!(matches!(late, Err(ActError::NotUnknown { .. })), "{late:?}");
    }
    assert_eq!(database.ask(rows).await, "a 1, b no cover, c 3");
    let again = ask("c", Ok(charged(4))).await.unwrap();
    assert_eq!(again.metadata().get(REPLAYED).unwrap(), "true");
    assert_eq!(again.into_inner(), Order { number: 3 });
}
