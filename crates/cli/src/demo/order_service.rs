//! The order service of the demo: every request that it takes is one more row, committed before it is answered.
//!
//! It has no idempotency of its own: the key that an order came under is written down and never looked up, so a
//! request that reaches it twice makes two orders. After a crash every committed order is there. It can be asked to
//! think for a while before or after its commit, so that the story can hit it there.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::args::DemoOrders;
use crate::demo::parent;
use crate::exit::Failure;

/// `before-commit=300` or `after-commit=300`, in milliseconds: how long the service thinks, and when.
pub(crate) const PAUSE: &str = "demo-pause";

const PREPARE: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS orders (
        id INTEGER PRIMARY KEY,
        item TEXT NOT NULL,
        quantity INTEGER NOT NULL,
        came_under_key TEXT
    );";
const INSERT: &str = "INSERT INTO orders (item, quantity, came_under_key) VALUES (?1, ?2, ?3)";
const LIST: &str = "SELECT id, item, quantity FROM orders ORDER BY id";

type Books = Arc<Mutex<Connection>>;

/// Serves until the demo is gone.
pub(crate) async fn run(args: &DemoOrders) -> Result<ExitCode, Failure> {
    let books: Books = Arc::new(Mutex::new(open(&args.db).map_err(unavailable)?));
    let listener = TcpListener::bind(args.listen).await.map_err(unavailable)?;
    println!("listening on http://{}", listener.local_addr().map_err(unavailable)?);
    let service = Router::new().route("/orders", post(place).get(list)).with_state(books);
    tokio::select! {
        ended = async { axum::serve(listener, service).await } => ended.map_err(unavailable)?,
        () = parent::gone() => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(PREPARE)?;
    Ok(connection)
}

async fn place(State(books): State<Books>, headers: HeaderMap, Json(order): Json<Value>) -> Response {
    let Some(item) = order["item"].as_str().map(str::to_owned) else {
        return (StatusCode::BAD_REQUEST, "an order names an item\n").into_response();
    };
    let quantity = order["quantity"].as_i64().unwrap_or(1);
    let key = text(&headers, "idempotency-key").map(|key| key.trim_matches('"').to_owned());
    let pause = text(&headers, PAUSE).unwrap_or_default();
    think(pause, "before-commit").await;
    let row = (item.clone(), quantity, key);
    let written = on_books(books, move |books| {
        books.execute(INSERT, row)?;
        Ok(books.last_insert_rowid())
    });
    let id = match written.await {
        Ok(id) => id,
        Err(error) => return failed(&error),
    };
    think(pause, "after-commit").await;
    let location = [(header::LOCATION, format!("/orders/{id}"))];
    let body = confirmation(id, &item, quantity);
    (StatusCode::CREATED, location, Json(body)).into_response()
}

async fn list(State(books): State<Books>) -> Response {
    let listed = on_books(books, |books| {
        let mut listed = books.prepare(LIST)?;
        let orders = listed.query_map((), |row| {
            let item: String = row.get(1)?;
            Ok(confirmation(row.get(0)?, &item, row.get(2)?))
        })?;
        orders.collect::<rusqlite::Result<Vec<Value>>>()
    });
    match listed.await {
        Ok(orders) => Json(orders).into_response(),
        Err(error) => failed(&error),
    }
}

/// What the service answers for an order.
pub(crate) fn confirmation(id: i64, item: &str, quantity: i64) -> Value {
    json!({"order": id, "item": item, "quantity": quantity})
}

/// A commit waits for the disk, so not on the runtime's own threads.
async fn on_books<T: Send + 'static>(
    books: Books,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
) -> rusqlite::Result<T> {
    let done = tokio::task::spawn_blocking(move || {
        let books = books.lock().unwrap_or_else(PoisonError::into_inner);
        work(&books)
    });
    done.await.expect("work on the books does not panic")
}

async fn think(pause: &str, when: &str) {
    let millis = pause.split_once('=').filter(|(at, _)| *at == when).and_then(|(_, ms)| ms.parse().ok());
    if let Some(millis) = millis {
        sleep(Duration::from_millis(millis)).await;
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn failed(error: &rusqlite::Error) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response()
}

fn unavailable(error: impl std::fmt::Display) -> Failure {
    Failure::unavailable(format!("the order service: {error}"))
}
