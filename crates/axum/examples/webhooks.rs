//! A service that takes webhooks in and handles each once: `cargo run --example webhooks`. It is its own sender here.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use onefold::axum::Webhooks;
use onefold::inbox::{Handled, Incoming};
use onefold::webhooks::{KeyForm, Scheme, Secret, Source, sign};
use onefold::{BoxError, Onefold, SqliteTx};
use tower::Service;

/// What this writes and the mark of the message are one commit.
fn handle(tx: &mut SqliteTx<'_>, message: &Incoming) -> Result<Handled, BoxError> {
    tx.execute("INSERT INTO points (customer) VALUES (?1)", [std::str::from_utf8(&message.body)?])?;
    Ok(Handled::Done)
}

fn routes(onefold: &Onefold, secret: Secret) -> Router {
    let consumer = onefold.inbox("loyalty").consumer(handle);
    let shop = Source::new(Scheme::Standard, [secret]);
    Router::new().route("/hooks/shop", Webhooks::new("shop", shop, consumer).route())
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), BoxError> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("loyalty.db");
    let onefold = Onefold::sqlite(&path)?;
    onefold.write(|tx| Ok(tx.execute_batch("CREATE TABLE points (customer TEXT)")?)).await?;
    // As a sender has it; make one with `openssl rand -base64 32`.
    let secret = Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", KeyForm::Whsec)?;
    let mut service = routes(&onefold, secret.clone());

    for delivery in 1..=2 {
        // clock: a sender signs the time
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs().try_into()?;
        let mut request = Request::post("/hooks/shop");
        for (name, value) in sign("evt_1", now_s, b"ann", std::slice::from_ref(&secret))? {
            request = request.header(name, value);
        }
        let answer = service.call(request.body(Body::from("ann"))?).await?;
        assert_eq!(answer.status(), StatusCode::OK);
        let said = to_bytes(answer.into_body(), 1024).await?;
        println!("delivery {delivery}: {}", std::str::from_utf8(&said)?);
    }
    let points: i64 =
        onefold.read(|own| Ok(own.query_row("SELECT count(*) FROM points", [], |row| row.get(0))?)).await?;
    assert_eq!(points, 1);
    Ok(())
}
