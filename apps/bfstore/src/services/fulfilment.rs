//! The workflow of **order**: reserve, capture, settle, each step under a key of its own that is the same in every
//! attempt. What was reserved for an order that is refused its payment is released, under a key of its own as well.
//!
//! A loop begins the workflow of each order that is placed; one that is interrupted, by a service that does not answer
//! or by a crash, is driven on by the layer. *After a crash* the workflow of every order that is still `placed` goes on
//! at its open step. An order leaves `placed` once, by the last step, in one transaction with the events that say so.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use onefold::any::{AnyError, AnyRow, AnyTx};
use onefold::drive::{Drive, Driving, Interrupted};
use onefold::{BoxError, CallError, Rejection, StepError, Steps, Verdict};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::contracts;
use crate::events::Event;
use crate::rpc::inventory_client::InventoryClient;
use crate::rpc::payments_client::PaymentsClient;
use crate::rpc::{self, CaptureRequest, Correlate, Peer, ReleaseRequest, ReserveRequest};
use crate::safeguard::{self, Safeguard};
use crate::service::{Database, Settings};

/// How often orders that are still `placed` are looked for, where nobody says that there is one.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// Workflows that begin at once, so that one that has to wait holds up nobody else.
const AT_ONCE_MAX: usize = 16;
const PLACED: &str = "SELECT order_id, checkout_id, customer_id, product, quantity, cents
    FROM orders WHERE status = 'placed' ORDER BY order_id";
const ONE: &str = "SELECT order_id, checkout_id, customer_id, product, quantity, cents
    FROM orders WHERE order_id = $1";
/// What keys of workflows begin with; the order's number follows.
const KEY: &str = "order-";
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

    /// Starts what begins workflows, and what drives on those that are interrupted.
    pub fn start(self) -> (JoinHandle<()>, Driving) {
        let own = self.clone();
        let drive = Drive::new(&contracts::fulfil_order(), move |interrupted: Interrupted| {
            let own = own.clone();
            async move {
                let order = own.order_of(interrupted.key()).await?;
                own.fulfil(order).await?;
                Ok(())
            }
        });
        let driving = self.database.onefold.drive([drive]);
        (tokio::spawn(self.begin_all()), driving)
    }

    /// Begins the workflow of each order once; what was begun before a crash it goes on with.
    async fn begin_all(self) {
        let (mut running, mut begun) = (JoinSet::new(), HashSet::new());
        loop {
            let orders = self.placed().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the orders cannot be read");
                Vec::new()
            });
            begun.retain(|begun| orders.iter().any(|order| order.order_id == *begun));
            for order in orders {
                if running.len() < AT_ONCE_MAX && begun.insert(order.order_id) {
                    running.spawn(self.clone().begin(order));
                }
            }
            let _ = timeout(LOOK_EVERY, self.placed.notified()).await;
            while let Some(ended) = running.try_join_next() {
                let again = ended.expect("the work runs in tasks of the layer, which catch its panics");
                if let Some(order_id) = again {
                    begun.remove(&order_id);
                }
            }
        }
    }

    /// The order whose workflow is to be begun again, if it was not begun.
    async fn begin(self, order: Placed) -> Option<i64> {
        let order_id = order.order_id;
        match self.fulfil(order).await {
            Ok(status) => tracing::info!(order_id, ?status, "fulfilled"),
            Err(CallError::Interrupted { error, .. }) => tracing::info!(order_id, %error, "interrupted"),
            Err(error) => {
                tracing::info!(order_id, %error, "not fulfilled yet");
                return Some(order_id);
            }
        }
        None
    }

    async fn placed(&self) -> anyhow::Result<Vec<Placed>> {
        let orders = self.database.onefold.query(PLACED, &[]).await?;
        Ok(orders.iter().map(placed).collect::<Result<_, _>>()?)
    }

    async fn order_of(&self, key: &str) -> anyhow::Result<Placed> {
        let order_id: i64 = key.trim_start_matches(KEY).parse()?;
        let order = self.database.onefold.query_opt(ONE, &[&order_id]).await?;
        Ok(placed(&order.context("there is no such order")?)?)
    }

    async fn fulfil(&self, order: Placed) -> Result<Status, CallError> {
        let key = format!("{KEY}{}", order.order_id);
        let call = contracts::fulfil_order().call(contracts::scope("order"), key, &order.order_id)?;
        let call = call.correlated(order.checkout_id.clone());
        let own = self.clone();
        let fulfilled = self.database.onefold.resumable(call, move |steps| own.work(steps, order));
        Ok(fulfilled.await?.into_value())
    }

    async fn work(self, steps: Steps, order: Placed) -> Result<Verdict<Status>, BoxError> {
        let status = if refused(steps.run("reserve", |key| self.reserve(key, &order)).await)? {
            Status::SoldOut
        } else if refused(steps.run("capture", |key| self.capture(key, &order)).await)? {
            let reservation_id = steps.attempt().downstream_key("reserve");
            steps.run("release", |key| self.release(key, &order, reservation_id)).await?;
            Status::Unpaid
        } else {
            Status::Confirmed
        };
        steps.run("settle", |key| self.settle(key, &order, status)).await?;
        Ok(match status {
            Status::Confirmed => Verdict::created("order", order.order_id, status),
            Status::SoldOut | Status::Unpaid => Verdict::rejected(status),
        })
    }

    async fn reserve(&self, key: String, order: &Placed) -> Result<(), BoxError> {
        // Its key as it is; only `bfstore unprotected` changes it (safeguard.rs).
        let key = safeguard::key(Safeguard::ReservationKey, &key);
        let (product, quantity) = (order.product.clone(), order.quantity);
        let asked =
            ReserveRequest { reservation_id: key.clone(), order_id: order.order_id, product, quantity };
        let asked = rpc::under(&key, asked)?.correlated(&order.checkout_id);
        match self.inventory.clone().reserve(asked).await?.into_inner().reserved {
            true => Ok(()),
            false => Err(Rejection::of(Status::SoldOut).into()),
        }
    }

    async fn release(&self, key: String, order: &Placed, reservation_id: String) -> Result<(), BoxError> {
        let asked = ReleaseRequest { release_id: key.clone(), reservation_id };
        let asked = rpc::under(&key, asked)?.correlated(&order.checkout_id);
        self.inventory.clone().release(asked).await?;
        Ok(())
    }

    async fn capture(&self, key: String, order: &Placed) -> Result<(), BoxError> {
        let asked = CaptureRequest {
            payment_attempt_id: key.clone(),
            order_id: order.order_id,
            customer_id: order.customer_id.clone(),
            cents: order.cents,
        };
        let asked = rpc::under(&key, asked)?.correlated(&order.checkout_id);
        let receipt = self.payments.clone().capture(asked).await?.into_inner();
        match receipt.charge.is_empty() {
            false => Ok(()),
            true => Err(Rejection::of(Status::Unpaid).into()),
        }
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

fn placed(row: &AnyRow) -> Result<Placed, AnyError> {
    Ok(Placed {
        order_id: row.get(0)?,
        checkout_id: row.get(1)?,
        customer_id: row.get(2)?,
        product: row.get(3)?,
        quantity: row.get(4)?,
        cents: row.get(5)?,
    })
}

/// Whether a step was refused for good. That is kept, so it is the same in every attempt.
fn refused(step: Result<(), StepError>) -> Result<bool, StepError> {
    match step {
        Ok(()) => Ok(false),
        Err(StepError::Rejected { .. }) => Ok(true),
        Err(other) => Err(other),
    }
}
