//! What is asked for later, when it is there already: by a transport that delivers twice, by a person, by a job that runs
//! on a schedule, and by whoever recovers what was given up.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use onefold::Onefold;
use onefold::messages::{ActOnOutgoing, OutboxState, Redrive, Sending, Sink, Which};
use onefold::webhooks::{HttpSink, KeyForm, Secret};
use rand::RngExt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::plan::Source;
use super::traffic::{About, Traffic, message};
use crate::events::Event;
use crate::ground::Ground;
use crate::rpc::inventory_client::InventoryClient;
use crate::rpc::orders_client::OrdersClient;
use crate::rpc::payments_client::PaymentsClient;
use crate::rpc::{self, CaptureRequest, PlaceOrderRequest, ReserveRequest};
use crate::stage::{Backend, Delivery, EVENT_ID};

/// How much later a transport delivers again, in milliseconds.
const REDELIVERED_AFTER_MS: std::ops::Range<u64> = 100..2000;
/// How much later a person has seen it.
const REPLAYED_AFTER_MS: std::ops::Range<u64> = 1000..3000;
/// How often the job runs that looks for what is missing.
const SCHEDULE: Duration = Duration::from_secs(2);
/// Services come and go: what could not be asked is asked again.
const PAUSE: Duration = Duration::from_millis(300);

/// One thing that is asked for once more.
#[derive(Clone, Debug)]
pub struct Again {
    /// By whom.
    pub source: Source,
    /// For what.
    pub about: About,
    /// Where.
    pub service: Backend,
    /// What was asked.
    pub delivery: Delivery,
}

/// How those who ask by hand reach the services.
#[derive(Clone)]
pub struct Reach {
    orders: OrdersClient<rpc::Peer>,
    inventory: InventoryClient<rpc::Peer>,
    payments: PaymentsClient<rpc::Peer>,
    /// Where events come in, by receiver and sender, and how they are signed.
    events: Vec<(&'static str, &'static str, HttpSink)>,
}

impl Reach {
    /// By these URLs and secrets, of a service and of a sender.
    pub fn by<'s>(url: impl Fn(&str) -> &'s str, secret: impl Fn(&str) -> &'s str) -> anyhow::Result<Reach> {
        let events = [("notification", "order"), ("notification", "payment"), ("loyalty", "order")];
        let sink = |(receiver, sender)| {
            let endpoint = format!("{}/events/{sender}", url(receiver));
            let secret = Secret::new(secret(sender), KeyForm::Whsec)?;
            anyhow::Ok((receiver, sender, HttpSink::new(&endpoint, vec![secret])?))
        };
        Ok(Reach {
            orders: OrdersClient::new(rpc::peer(url("order"))?),
            inventory: InventoryClient::new(rpc::peer(url("inventory"))?),
            payments: PaymentsClient::new(rpc::peer(url("payment"))?),
            events: events.into_iter().map(sink).collect::<anyhow::Result<_>>()?,
        })
    }

    /// Asks for the same by hand: under its key, or with an event that has an id of its own.
    async fn ask(&mut self, service: &str, delivery: &Delivery, by: &str) -> anyhow::Result<()> {
        match service {
            "order" => {
                let asked: PlaceOrderRequest = message(&delivery.body).context("no order")?;
                self.orders.place(rpc::under(&asked.checkout_id.clone(), asked)?).await?;
            }
            "inventory" => {
                let asked: ReserveRequest = message(&delivery.body).context("no reservation")?;
                self.inventory.reserve(rpc::under(&asked.reservation_id.clone(), asked)?).await?;
            }
            "payment" => {
                let asked: CaptureRequest = message(&delivery.body).context("no capture")?;
                self.payments.capture(rpc::under(&asked.payment_attempt_id.clone(), asked)?).await?;
            }
            receiver => {
                let event: Event = serde_json::from_slice(&delivery.body)?;
                let id = delivery.headers.get(EVENT_ID).context("no id")?.to_str()?;
                let sent_to = |(to, sender, _): &&(&str, &str, HttpSink)| {
                    *to == receiver && delivery.path.ends_with(&format!("/{sender}"))
                };
                let (_, _, sink) = self.events.iter().find(sent_to).context("nobody takes such an event")?;
                let again = event.to(receiver, &format!("{id}/{by}"), id, id);
                let sending = sink.send(&again.map_err(anyhow::Error::from_boxed)?).await;
                ensure!(sending == Sending::Accepted, "it was not taken: {sending:?}");
            }
        }
        Ok(())
    }
}

/// Asks for everything that is sent here, each at its time, until it is dropped. What is recovered when everything is at
/// rest waits for `at_rest`.
pub async fn run(
    mut asked: mpsc::Receiver<Again>,
    traffic: Arc<Traffic>,
    reach: Reach,
    at_rest: watch::Receiver<bool>,
) {
    let mut on_its_way = JoinSet::new();
    let begun = Instant::now();
    while let Some(again) = asked.recv().await {
        let (traffic, reach, at_rest) = (traffic.clone(), reach.clone(), at_rest.clone());
        on_its_way.spawn(async move {
            when(again.source, begun, at_rest).await;
            one(again, &traffic, reach).await;
        });
    }
}

/// Waits for its time.
async fn when(source: Source, begun: Instant, mut at_rest: watch::Receiver<bool>) {
    let after = |range| Duration::from_millis(rand::rng().random_range(range));
    match source {
        Source::DeadLetter => {
            let _ = at_rest.wait_for(|at_rest| *at_rest).await;
        }
        Source::OperatorReplay => sleep(after(REPLAYED_AFTER_MS)).await,
        Source::Reconciliation => {
            let into = begun.elapsed().as_millis() % SCHEDULE.as_millis();
            sleep(SCHEDULE - Duration::from_millis(into as u64)).await;
        }
        _ => sleep(after(REDELIVERED_AFTER_MS)).await,
    }
}

/// Asks until it is done, since services come and go.
async fn one(again: Again, traffic: &Traffic, mut reach: Reach) {
    let Again { source, about, service, delivery } = again;
    loop {
        let by_hand = match source {
            Source::OperatorReplay => Some("replayed"),
            Source::Reconciliation => Some("reconciled"),
            _ => None,
        };
        let asked = match by_hand {
            Some(by) if service.is_behind_broker() => match renamed(&delivery, by) {
                Ok(event) => traffic.deliver_again(&about, &service, &event).await,
                Err(error) => Err(error),
            },
            Some(by) => reach.ask(service.name(), &delivery, by).await,
            None => traffic.deliver_again(&about, &service, &delivery).await,
        };
        match asked {
            Ok(()) => return traffic.struck(about.checkout, about.effect),
            Err(error) => tracing::info!(?source, ?about, %error, "not yet"),
        }
        sleep(PAUSE).await;
    }
}

/// The same event in a message of its own.
fn renamed(delivery: &Delivery, by: &str) -> anyhow::Result<Delivery> {
    let mut delivery = delivery.clone();
    let id = format!("{}/{by}", delivery.headers.get(EVENT_ID).context("no id")?.to_str()?);
    delivery.headers.insert(EVENT_ID, id.try_into()?);
    Ok(delivery)
}

/// A person sends every dead letter of these outboxes again. Returns how many there were.
pub async fn recover_dead_letters(ground: &Ground, folder: &Path) -> anyhow::Result<usize> {
    let mut recovered = 0;
    for (sender, receivers) in [("order", &["notification", "loyalty"][..]), ("payment", &["notification"])] {
        let messages = Onefold::any(&ground.database(sender, folder)?).await?.messages();
        for receiver in receivers {
            let act = ActOnOutgoing {
                which: Which::All {
                    destination: (*receiver).to_owned(),
                    state: OutboxState::Dead,
                    ordering_key: None,
                },
                seen_attempt: None,
                redrive: Redrive::SendAgain,
                per_second: None,
                who: "operator".into(),
                reason: "the receiver was mended".into(),
            };
            recovered += messages.act_on_outgoing(act).await?.done.len();
        }
    }
    Ok(recovered)
}
