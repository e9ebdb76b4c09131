//! A route whose rows and record are in a PostgreSQL database.

use axum::body::Body;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use http::Request;
use http_body_util::BodyExt;
use onefold::axum::{Protected, Protection, Refused, Reply, ScopeSource};
use onefold::postgres::{PostgresStore, PostgresTx};
use onefold::{Onefold, Operation, Verdict};
use onefold_testkit::postgres::{Database, Isolation};
use tower::Service;

async fn place(
    State(onefold): State<Onefold<PostgresStore>>,
    protected: Protected,
    Json(sku): Json<String>,
) -> Result<Reply<i64>, Refused> {
    let done = onefold.atomic(protected.call(), async move |tx: &mut PostgresTx| {
        let sql = "INSERT INTO orders (sku) VALUES ($1) RETURNING number";
        let number: i64 = tx.query_opt(sql, &[&sku]).await?.ok_or("no row")?.get(0);
        Ok(Verdict::succeeded(number))
    });
    Ok(Reply::of(done.await?).status(201))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_replayed_and_another_request_conflicts() {
    let Some(database) = Database::create("axum on PostgreSQL", Isolation::ReadCommitted).await else {
        return;
    };
    let table = "CREATE TABLE orders (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sku text)";
    database.execute(table).await;
    let onefold = Onefold::postgres(&database.url()).await.unwrap();
    let orders = Operation::new("PlaceOrder", "one order row for each key");
    let protection = Protection::new(&onefold, orders, [ScopeSource::Credential]);
    let router = Router::new().route("/orders", post(place).layer(protection)).with_state(onefold);
    let send = async |sku: &str| {
        let request = Request::post("/orders")
            .header("content-type", "application/json")
            .header("authorization", "Bearer me")
            .header("idempotency-key", "checkout-7f82")
            .body(Body::from(format!("{sku:?}")));
        let answer = router.clone().call(request.unwrap()).await.unwrap();
        let replayed = answer.headers().contains_key("idempotent-replayed");
        let status = answer.status().as_u16();
        (status, replayed, answer.into_body().collect().await.unwrap().to_bytes())
    };
    let (first, again, other) = (send("lamp").await, send("lamp").await, send("chair").await);
    assert_eq!((first.0, first.1), (201, false));
    assert_eq!((again.0, again.1, again.2), (201, true, first.2));
    assert_eq!((other.0, other.1), (422, false));
    assert_eq!(database.ask("SELECT string_agg(sku, ' ') FROM orders").await, "lamp");
}
