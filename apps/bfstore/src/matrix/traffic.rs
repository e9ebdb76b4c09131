//! The requests between the services, and what the sources of repetition do to them.
//!
//! A source strikes once at its effect: at the first request that has made it, in the moment after it was done and before
//! anybody knows. Every other request is only counted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use parking_lot::Mutex;
use prost::Message;
use serde::Deserialize;
use tokio::join;
use tokio::sync::mpsc;
use tonic::Code;

use super::again::Again;
use super::deaths::{Death, Deaths};
use super::plan::{ASK_FOR_MAILS, Effect, Plan, Source};
use crate::events::Event;
use crate::ledgers::Ledgers;
use crate::rpc::{CaptureRequest, Order, PlaceOrderRequest, ReserveRequest};
use crate::stage::{Answer, Backend, Balance, Delivery};
use crate::story::Books;

/// What a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// The place of the checkout.
    pub checkout: usize,
    /// The effect.
    pub effect: Effect,
    hop: Hop,
    /// Who has sent the event, if it is one.
    sender: Option<&'static str>,
}

/// Which request on the way to an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hop {
    /// The shopper's, at the storefront.
    Front,
    /// The one that asks the service whose effect it is. These are what is counted.
    Service,
    /// The one that payment sends to the provider, or its look-up.
    Provider,
}

/// One source at one effect of one checkout.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cell {
    /// Requests that came to the service whose effect it is.
    pub deliveries: usize,
    /// Of those, the ones that were told that it is done.
    accepted: usize,
    /// The same of the provider.
    accepted_by_provider: usize,
    strike: Strike,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Strike {
    #[default]
    Waits,
    IsOnItsWay,
    Done,
}

/// All requests. Cheap to share.
pub struct Traffic {
    ledgers: Arc<Ledgers>,
    plans: Vec<Plan>,
    deaths: Arc<Deaths>,
    again: mpsc::Sender<Again>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    checkouts: HashMap<String, usize>,
    orders: HashMap<i64, usize>,
    providers_keys: HashMap<String, usize>,
    mails_looked_up: HashSet<String>,
    cells: Vec<[Cell; Effect::ALL.len()]>,
}

/// The name of a customer, of whom each checkout has one of its own.
pub fn customer(checkout: usize) -> String {
    format!("customer-{checkout}")
}

/// The checkout of a customer.
pub fn checkout_of(customer: &str) -> Option<usize> {
    customer.strip_prefix("customer-")?.parse().ok()
}

impl Traffic {
    /// For these checkouts. What is to be asked for later is sent to `again`.
    pub fn new(
        ledgers: Arc<Ledgers>,
        plans: Vec<Plan>,
        deaths: Arc<Deaths>,
        again: mpsc::Sender<Again>,
    ) -> Traffic {
        let cells = vec![Default::default(); plans.len()];
        Traffic { ledgers, plans, deaths, again, known: Mutex::new(Known { cells, ..Known::default() }) }
    }

    /// A checkout has this id from now on.
    pub fn begun(&self, checkout: usize, checkout_id: &str) {
        self.known.lock().checkouts.insert(checkout_id.to_owned(), checkout);
    }

    /// The source has struck.
    pub fn struck(&self, checkout: usize, effect: Effect) {
        self.cell(checkout, effect, |cell| cell.strike = Strike::Done);
    }

    /// The source is on its way to strike, elsewhere than at a request.
    pub fn strikes_elsewhere(&self, checkout: usize, effect: Effect) {
        self.cell(checkout, effect, |cell| cell.strike = Strike::IsOnItsWay);
    }

    /// The source had no chance to strike.
    pub fn missed(&self, checkout: usize, effect: Effect) {
        self.cell(checkout, effect, |cell| cell.strike = Strike::Waits);
    }

    /// Requests for this effect of this checkout so far.
    pub fn deliveries(&self, checkout: usize, effect: Effect) -> usize {
        self.cell(checkout, effect, |cell| cell.deliveries)
    }

    /// Whether the source has struck at this effect, and what it caused came, when the effect was there already.
    pub fn is_exercised(&self, checkout: usize, effect: Effect) -> bool {
        let plan = &self.plans[checkout];
        let once = if effect == Effect::Notification { ASK_FOR_MAILS.len() } else { 1 };
        self.cell(checkout, effect, |cell| {
            let repeated = match plan.strikes_at(effect) {
                Some(Hop::Provider) => cell.accepted_by_provider > once,
                Some(_) => cell.accepted > once,
                None => true,
            };
            cell.strike == Strike::Done && repeated
        })
    }

    /// Whether notification has asked the mail server for this mail.
    pub fn is_looked_up(&self, message_id: &str) -> bool {
        self.known.lock().mails_looked_up.iter().any(|id| message_id.starts_with(id))
    }

    /// Delivers a request again, as it came.
    pub async fn deliver_again(
        &self,
        about: &About,
        service: &Backend,
        delivery: &Delivery,
    ) -> anyhow::Result<()> {
        let answer = self.deliver(about, service, delivery).await.context("there was no answer")?;
        ensure!(answer.is_success(), "it was not taken: {answer:?}");
        Ok(())
    }

    /// What is still to be asked for later, and now, where everything is at rest.
    pub fn on_its_way(&self, at_rest: bool) -> usize {
        let known = self.known.lock();
        let is_due = |(plan, cells): (&Plan, &[Cell; Effect::ALL.len()])| {
            let is_due = |effect: &Effect| {
                let waits_for_rest = plan.source(*effect) == Source::DeadLetter;
                cells[*effect as usize].strike == Strike::IsOnItsWay && (at_rest || !waits_for_rest)
            };
            Effect::ALL.into_iter().filter(is_due).count()
        };
        self.plans.iter().zip(&known.cells).map(is_due).sum()
    }

    fn cell<A>(&self, checkout: usize, effect: Effect, with: impl FnOnce(&mut Cell) -> A) -> A {
        with(&mut self.known.lock().cells[checkout][effect as usize])
    }

    /// What a request is about; `None` where it makes no effect.
    async fn about(&self, service: &Backend, delivery: &Delivery) -> Option<About> {
        let about = |checkout, effect, hop| Some(About { checkout, effect, hop, sender: None });
        let (service, path) = (service.name(), delivery.path.as_str());
        match (service, path) {
            ("storefront", _) if delivery.method == Method::POST => {
                let id = path.strip_prefix("/checkouts/")?;
                about(*self.known.lock().checkouts.get(id)?, Effect::Order, Hop::Front)
            }
            ("order", "/bfstore.v1.Orders/Place") => {
                let asked: PlaceOrderRequest = message(&delivery.body)?;
                about(checkout_of(&asked.customer_id)?, Effect::Order, Hop::Service)
            }
            ("inventory", "/bfstore.v1.Inventory/Reserve") => {
                let asked: ReserveRequest = message(&delivery.body)?;
                about(self.checkout_of_order(asked.order_id).await?, Effect::Reservation, Hop::Service)
            }
            ("payment", "/bfstore.v1.Payments/Capture") => {
                let asked: CaptureRequest = message(&delivery.body)?;
                about(checkout_of(&asked.customer_id)?, Effect::Capture, Hop::Service)
            }
            ("outside", _) => {
                about(self.checkout_at_provider(delivery).await?, Effect::Capture, Hop::Provider)
            }
            ("notification" | "loyalty", _) => {
                let (customer_id, sender) = match serde_json::from_slice(&delivery.body).ok()? {
                    Event::OrderConfirmed { customer_id, .. } => (customer_id, "order"),
                    Event::PaymentCaptured { customer_id, .. } => (customer_id, "payment"),
                    Event::ProductChanged { .. } => return None,
                };
                let effect = if service == "loyalty" { Effect::Award } else { Effect::Notification };
                let checkout = checkout_of(&customer_id)?;
                Some(About { checkout, effect, hop: Hop::Service, sender: Some(sender) })
            }
            _ => None,
        }
    }

    async fn checkout_of_order(&self, order_id: i64) -> Option<usize> {
        if let Some(checkout) = self.known.lock().orders.get(&order_id) {
            return Some(*checkout);
        }
        // The order's answer was lost with its process.
        let customer_id = Books::customer_of(&self.ledgers, order_id).await.ok()??;
        let checkout = checkout_of(&customer_id)?;
        self.known.lock().orders.insert(order_id, checkout);
        Some(checkout)
    }

    async fn checkout_at_provider(&self, delivery: &Delivery) -> Option<usize> {
        #[derive(Deserialize)]
        struct Asked {
            order_id: i64,
        }
        if let Some(id) = delivery.path.strip_prefix("/mails/") {
            self.known.lock().mails_looked_up.insert(id.to_owned());
            return None;
        }
        let path = delivery.path.strip_prefix("/captures")?;
        if let Some(key) = path.strip_prefix('/') {
            return self.known.lock().providers_keys.get(key).copied();
        }
        let asked: Asked = serde_json::from_slice(&delivery.body).ok()?;
        let checkout = self.checkout_of_order(asked.order_id).await?;
        let key = delivery.headers.get("idempotency-key")?.to_str().ok()?;
        self.known.lock().providers_keys.insert(key.to_owned(), checkout);
        Some(checkout)
    }

    /// Delivers and counts.
    async fn deliver(&self, about: &About, service: &Backend, delivery: &Delivery) -> Option<Answer> {
        if about.hop == Hop::Service {
            self.cell(about.checkout, about.effect, |cell| cell.deliveries += 1);
        }
        let answer = service.deliver(delivery).await.ok()?;
        if answer.is_success() {
            self.cell(about.checkout, about.effect, |cell| match about.hop {
                Hop::Front => {}
                Hop::Service => cell.accepted += 1,
                Hop::Provider => cell.accepted_by_provider += 1,
            });
            if (about.hop, about.effect) == (Hop::Service, Effect::Order)
                && let Some(order) = message::<Order>(&answer.body)
            {
                self.known.lock().orders.insert(order.order_id, about.checkout);
            }
        }
        Some(answer)
    }

    /// The source that is to strike at this request, if it is the time.
    fn strikes(&self, about: &About) -> Option<Source> {
        let plan = &self.plans[about.checkout];
        let of_the_other_event =
            about.effect == Effect::Notification && about.sender != Some(plan.mail_asked_by);
        if plan.strikes_at(about.effect) != Some(about.hop) || of_the_other_event {
            return None;
        }
        self.cell(about.checkout, about.effect, |cell| {
            let strikes = cell.strike == Strike::Waits;
            if strikes {
                cell.strike = Strike::IsOnItsWay;
            }
            strikes.then(|| plan.source(about.effect))
        })
    }

    /// What the caller is told after a source has struck at a request that was answered like this.
    async fn strike(
        &self,
        source: Source,
        about: &About,
        service: &Backend,
        delivery: &Delivery,
        answer: Answer,
    ) -> (Strike, Option<Answer>) {
        let later = || Again { source, about: *about, service: service.clone(), delivery: delivery.clone() };
        match source {
            Source::ClientRetry => (Strike::Done, None),
            Source::BalancerRetry => (Strike::Done, self.deliver(about, service, delivery).await),
            Source::ServiceRetry => (Strike::Done, Some(error(about))),
            Source::DeadLetter if service.is_behind_broker() => {
                // Its sender is done with it. Whoever keeps what could not be handled has it, until a person says otherwise.
                self.later(later());
                (Strike::IsOnItsWay, Some(answer))
            }
            Source::DeadLetter if about.sender.is_some() => {
                // Refused for good: its sender gives it up, until a person says otherwise.
                (Strike::Done, Some(Answer::status(StatusCode::GONE)))
            }
            Source::DeadLetter => {
                self.later(later());
                (Strike::IsOnItsWay, Some(Answer::grpc(Code::Unavailable, "nobody has answered")))
            }
            Source::Reconciliation if about.hop == Hop::Provider => (Strike::Done, None),
            Source::Redelivery | Source::OperatorReplay | Source::Reconciliation => {
                self.later(later());
                (Strike::IsOnItsWay, Some(answer))
            }
            Source::ConsumerRestart => (self.death(service.name(), Death::Ended).await, None),
            Source::WorkerCrash => (self.death(worker(about), Death::Killed).await, None),
            // Struck already: see `carry`, and the shoppers for the button.
            Source::DoubleSubmit => (Strike::Done, Some(answer)),
        }
    }

    fn later(&self, again: Again) {
        // There is room for one of each cell.
        if let Err(error) = self.again.try_send(again) {
            tracing::error!(%error, "nobody asks again");
        }
    }

    async fn death(&self, name: &'static str, death: Death) -> Strike {
        if self.deaths.wait(name, death).await { Strike::Done } else { Strike::Waits }
    }
}

#[async_trait]
impl Balance for Traffic {
    async fn carry(&self, service: &Backend, delivery: Delivery) -> Option<Answer> {
        let Some(about) = self.about(service, &delivery).await else {
            return service.deliver(&delivery).await.ok();
        };
        let Some(source) = self.strikes(&about) else {
            return self.deliver(&about, service, &delivery).await;
        };
        let delivered = match source {
            Source::DoubleSubmit if about.hop == Hop::Service => {
                let once = || self.deliver(&about, service, &delivery);
                let (first, second) = join!(once(), once());
                first.filter(Answer::is_success).or(second)
            }
            _ => self.deliver(&about, service, &delivery).await,
        };
        let (strike, told) = match delivered {
            Some(answer) if answer.is_success() => {
                self.strike(source, &about, service, &delivery, answer).await
            }
            // It is not done yet: the next request is struck at.
            told => (Strike::Waits, told),
        };
        self.cell(about.checkout, about.effect, |cell| cell.strike = strike);
        told
    }
}

impl Plan {
    /// The request at which the source strikes. `None`: it is the mail server that loses its answer, or holds it.
    fn strikes_at(&self, effect: Effect) -> Option<Hop> {
        match (self.source(effect), effect) {
            (Source::ClientRetry | Source::BalancerRetry | Source::DoubleSubmit, Effect::Order) => {
                Some(Hop::Front)
            }
            // The library's own reconciler, and the process that it exists for.
            (Source::WorkerCrash | Source::Reconciliation, Effect::Capture) => Some(Hop::Provider),
            (Source::Reconciliation, Effect::Notification) => None,
            (Source::WorkerCrash, Effect::Notification) if self.dies_mailing => None,
            _ => Some(Hop::Service),
        }
    }
}

/// Who asks for this.
fn worker(about: &About) -> &'static str {
    match (about.effect, about.sender) {
        (Effect::Order, _) => "storefront",
        (Effect::Capture, _) => "payment",
        (_, Some(sender)) => sender,
        (_, None) => "order",
    }
}

/// What a service is told that has to start its work again. Its client does not repeat the call by itself, but for the
/// storefront's, whose work is one call.
fn error(about: &About) -> Answer {
    match about.effect {
        Effect::Order => Answer::grpc(Code::Unavailable, "not now"),
        Effect::Reservation | Effect::Capture => Answer::grpc(Code::PermissionDenied, "not you"),
        Effect::Notification | Effect::Award => {
            let mut answer = Answer::status(StatusCode::SERVICE_UNAVAILABLE);
            answer.headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            answer
        }
    }
}

/// The message of a unary call or its answer, behind the five bytes of its frame.
pub fn message<M: Message + Default>(body: &Bytes) -> Option<M> {
    M::decode(body.get(5..)?).ok()
}
