//! The workflow of **order**: reserve, capture, confirm, each step under a key of its own that is the same in every
//! attempt.
//!
//! *After a crash* the workflow of every order that is not `fulfilled` goes on at its open step. An order leaves `placed`
//! once, by the last step, in one transaction with the events that say so; it is `fulfilled` when the end of its workflow
//! is recorded as well.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use onefold::any::{AnyError, AnyRow, AnyTx};
use onefold::{BoxError, Recorded, Verdict};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::contracts;
use crate::events::Event;
use crate::rpc::inventory_client::InventoryClient;
use crate::rpc::payments_client::PaymentsClient;
use crate::rpc::{self, CaptureRequest, Peer, ReserveRequest};
use crate::safeguard::{self, Safeguard};
use crate::service::{Database, Settings};

/// How often orders that are not fulfilled are looked for, where nobody says that there is one.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Workflows at once, so that one that has to wait holds up nobody else.
const AT_ONCE_MAX: usize = 16;
const PLACED: &str = "SELECT order_id, checkout_id, customer_id, product, quantity, cents
    FROM orders WHERE fulfilled = 0 ORDER BY order_id";
const FULFILLED: &str = "UPDATE orders SET fulfilled = 1 WHERE order_id = $1";
const SETTLE: &str =
    "UPDATE orders SET status = $2, version = version + 1 WHERE order_id = $1 AND status = 'placed'";

/// The worker. Cheap to clone.
#[derive(Clone)]
pub struct Fulfilment {
    database: Database,
    placed: Arc<Notify>,
    inventory: InventoryClient<Peer>,
    payments: PaymentsClient<Peer>,
}

#[derive(Clone, Debug)]
struct Placed {
    order_id: i64,
    checkout_id: String,
    customer_id: String,
    product: String,
    quantity: u32,
    cents: i64,
}

/// How an order ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Confirmed,
    SoldOut,
    Unpaid,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Confirmed => "confirmed",
            Status::SoldOut => "sold_out",
            Status::Unpaid => "unpaid",
        }
    }
}

impl Fulfilment {
    /// With the services that it asks. `placed` says that there is a new order; a hint, nothing depends on it.
    pub fn new(settings: &Settings, database: &Database, placed: &Arc<Notify>) -> anyhow::Result<Fulfilment> {
        Ok(Fulfilment {
            database: database.clone(),
            placed: placed.clone(),
            inventory: InventoryClient::new(rpc::peer(settings.peer("inventory")?)?),
            payments: PaymentsClient::new(rpc::peer(settings.peer("payment")?)?),
        })
    }

    /// Starts the loop.
    pub fn start(self) -> JoinHandle<()> {
        tokio::spawn(async move {
            let (mut running, mut at_work) = (JoinSet::new(), HashSet::new());
            loop {
                let orders = self.placed().await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "the orders cannot be read");
                    Vec::new()
                });
                for order in orders {
                    if at_work.len() < AT_ONCE_MAX && at_work.insert(order.order_id) {
                        running.spawn(self.clone().one(order));
                    }
                }
                let _ = timeout(LOOK_EVERY, self.placed.notified()).await;
                while let Some(ended) = running.try_join_next() {
                    at_work
                        .remove(&ended.expect("the work runs in tasks of the layer, which catch its panics"));
                }
            }
        })
    }

    async fn one(self, order: Placed) -> i64 {
        let order_id = order.order_id;
        match self.fulfil(order).await {
            Ok(status) => tracing::info!(order_id, ?status, "fulfilled"),
            // The next round goes on under the same keys.
            Err(error) => tracing::info!(order_id, %error, "not fulfilled yet"),
        }
        order_id
    }

    async fn placed(&self) -> Result<Vec<Placed>, AnyError> {
        let read = |row: &AnyRow| -> Result<Placed, AnyError> {
            Ok(Placed {
                order_id: row.get(0)?,
                checkout_id: row.get(1)?,
                customer_id: row.get(2)?,
                product: row.get(3)?,
                quantity: row.get(4)?,
                cents: row.get(5)?,
            })
        };
        self.database.onefold.query(PLACED, &[]).await?.iter().map(read).collect()
    }

    async fn fulfil(&self, order: Placed) -> anyhow::Result<Status> {
        let order_id = order.order_id;
        let key = format!("order-{order_id}");
        let call = contracts::fulfil_order().call(contracts::scope("order"), key, &order.order_id)?;
        let call = call.correlated(order.checkout_id.clone());
        let own = self.clone();
        let fulfilled = self.database.onefold.resumable(call, move |steps| async move {
            let reserved = steps.run("reserve", |key| own.reserve(key, &order)).await?;
            let status = match reserved {
                false => Status::SoldOut,
                true => match steps.run("capture", |key| own.capture(key, &order)).await? {
                    true => Status::Confirmed,
                    false => Status::Unpaid,
                },
            };
            steps.run("settle", |key| own.settle(key, &order, status)).await?;
            Ok(Verdict::created("order", order.order_id, status))
        });
        let fulfilled = fulfilled.await?;
        if fulfilled.recorded() == Recorded::Durably {
            self.database.onefold.execute(FULFILLED, &[&order_id]).await?;
        }
        Ok(fulfilled.into_value())
    }

    async fn reserve(&self, key: String, order: &Placed) -> Result<bool, BoxError> {
        let key = safeguard::key(Safeguard::ReservationKey, &key);
        let (product, quantity) = (order.product.clone(), order.quantity);
        let asked =
            ReserveRequest { reservation_id: key.clone(), order_id: order.order_id, product, quantity };
        Ok(self.inventory.clone().reserve(rpc::under(&key, asked)?).await?.into_inner().reserved)
    }

    async fn capture(&self, key: String, order: &Placed) -> Result<bool, BoxError> {
        let asked = CaptureRequest {
            payment_attempt_id: key.clone(),
            order_id: order.order_id,
            customer_id: order.customer_id.clone(),
            cents: order.cents,
        };
        let receipt = self.payments.clone().capture(rpc::under(&key, asked)?).await?.into_inner();
        Ok(!receipt.charge.is_empty())
    }

    /// The end, in the order's own database: the status and the events in one transaction.
    async fn settle(&self, key: String, order: &Placed, status: Status) -> Result<(), BoxError> {
        let Placed { order_id, checkout_id, customer_id, cents, .. } = order.clone();
        let call = contracts::confirm_order().call(contracts::scope("order"), key, &status)?;
        let call = call.correlated(checkout_id.clone());
        let settled = self.database.onefold.atomic(call, async move |tx: &mut AnyTx| {
            let changed = tx.execute(SETTLE, &[&order_id, &status.name()]).await?;
            if changed == 1 && status == Status::Confirmed {
                let event = Event::OrderConfirmed { order_id, customer_id: customer_id.clone(), cents };
                for receiver in ["notification", "loyalty"] {
                    let id = format!("order-{order_id}/confirmed");
                    let message = event.to(receiver, &id, &format!("order-{order_id}"), &checkout_id)?;
                    tx.enqueue(&message).await?;
                }
            }
            Ok(Verdict::succeeded(()))
        });
        settled.await?;
        Ok(())
    }
}
