//! Both databases, read back from outside: the orders from the order service's own file, the operations through the
//! commands that an operator would type.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::demo::child::onefold;
use crate::demo::order_service::confirmation;
use crate::exit::Failure;

/// The order service's database, in the demo's directory.
pub(crate) const ORDERS: &str = "orders.db";
/// The gateway's store, in the demo's directory.
pub(crate) const STORE: &str = "onefold.db";

/// What does not come to pass within this will not.
const PATIENCE: Duration = Duration::from_secs(15);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

const READ: &str = "SELECT id, item, quantity, came_under_key FROM orders ORDER BY id";

/// A row of the orders table.
#[derive(Clone, Debug)]
pub(crate) struct OrderRow {
    pub(crate) id: i64,
    pub(crate) item: String,
    pub(crate) quantity: i64,
    pub(crate) key: Option<String>,
}

/// A record of the store.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) state: String,
}

/// Where both databases are.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    pub(crate) directory: PathBuf,
}

impl Books {
    /// All orders.
    pub(crate) fn orders(&self) -> Result<Vec<OrderRow>, Failure> {
        let read = || {
            let file = self.directory.join(ORDERS);
            let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            let mut rows = connection.prepare(READ)?;
            let orders = rows.query_map((), |row| {
                Ok(OrderRow { id: row.get(0)?, item: row.get(1)?, quantity: row.get(2)?, key: row.get(3)? })
            })?;
            orders.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| unreadable("the orders", &error))
    }

    /// The order that came under a key, as soon as it is committed.
    pub(crate) async fn order_under(&self, key: &str) -> Result<OrderRow, Failure> {
        let look = async || {
            let orders = self.orders()?;
            Ok(orders.into_iter().find(|order| order.key.as_deref() == Some(key)))
        };
        until("the order is committed", look).await
    }

    /// The operations that `onefold operations list` finds.
    pub(crate) async fn operations(&self, filter: &[&str]) -> Result<Vec<Operation>, Failure> {
        let listed = self.onefold(&[&["list", "--limit", "1000"], filter].concat()).await?;
        let operation = |item: &Value| {
            let text = |name: &str| item[name].as_str().map(str::to_owned);
            Some(Operation { id: text("id")?, key: text("key")?, state: text("state")? })
        };
        let items = listed["items"].as_array().and_then(|items| items.iter().map(operation).collect());
        items.ok_or_else(|| unreadable("the operations", &listed))
    }

    /// The operation under a key, as soon as it is in this state.
    pub(crate) async fn operation_in(&self, state: &str, key: &str) -> Result<Operation, Failure> {
        let look = async || {
            let found = self.operations(&["--state", state, "--key", key]).await?;
            Ok(found.into_iter().next())
        };
        until(&format!("the operation is {state}"), look).await
    }

    /// A person's word that this order is what the operation did.
    pub(crate) async fn resolve(&self, operation: &Operation, order: &OrderRow) -> Result<(), Failure> {
        let resource = format!("order:{}", order.id);
        let evidence = format!("order {} in the orders table", order.id);
        let body = confirmation(order.id, &order.item, order.quantity).to_string();
        let resolve = [
            &["resolve", &operation.id, "--as", "succeeded", "--reason", "looked into the order service"][..],
            &["--evidence", &evidence, "--resource", &resource, "--status", "201", "--body", &body],
        ];
        self.onefold(&resolve.concat()).await.map(drop)
    }

    async fn onefold(&self, args: &[&str]) -> Result<Value, Failure> {
        let mut command = onefold(&self.directory)?;
        command.args(["operations", "--output", "json", "--store", &format!("sqlite:{STORE}")]).args(args);
        let done = command.output().await.map_err(|error| unreadable("the store", &error))?;
        let said = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() {
            return Err(unreadable("the store", &said.trim()));
        }
        serde_json::from_slice(&done.stdout).map_err(|error| unreadable("the operations", &error))
    }
}

async fn until<T, F>(what: &str, mut look: impl FnMut() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<Option<T>, Failure>>,
{
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if end <= Instant::now() {
            return Err(Failure::failed(format!("waited {} s in vain until {what}", PATIENCE.as_secs())));
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

fn unreadable(what: &str, error: &dyn fmt::Display) -> Failure {
    Failure::failed(format!("{what} cannot be read: {error}"))
}
