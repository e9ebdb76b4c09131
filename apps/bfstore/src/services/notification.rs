//! **notification**: one mail for each order, whichever event asks for it first.
//!
//! The mail server may take a mail and its answer may be lost. Then nobody sends it again: the server is asked whether it
//! has the mail.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use onefold::BoxError;
use onefold::any::AnyTx;
use onefold::client::{once_client, reqwest};
use onefold::inbox::{Handled, Incoming};
use onefold::mail::{MailLookUp, SmtpSink};
use onefold::notify::{Found, Mail, Notify};

use crate::events::{Event, Inlets};
use crate::safeguard::{self, Safeguard};
use crate::service::{Database, Settings};

const TABLES: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS requests (event TEXT NOT NULL, order_id BIGINT NOT NULL, made BIGINT NOT NULL)",
];
const REQUESTED: &str = "INSERT INTO requests VALUES ($1, $2, $3)";
/// How often the mail server is asked about mails whose answer was lost.
const LOOK_UP_EVERY: Duration = Duration::from_millis(500);
/// A mail that was on its way is found by then.
const FOUND_WITHIN: Duration = Duration::from_secs(10);
/// How long the mail server has to say that it has a mail.
const ANSWER_MAX: Duration = Duration::from_secs(4);
/// How long one mail may take in all: one that a process which has died was sending is looked up not much later.
const SENDING_MAX: Duration = Duration::from_secs(5);
const SENDER: &str = "bfstore <shop@example.org>";

/// Runs the service.
pub async fn run(settings: &Settings) -> anyhow::Result<()> {
    let database = Database::open(settings, TABLES).await?;
    let onefold = &database.onefold;
    let archive =
        Archive { http: once_client(|ours| ours)?, url: format!("{}/mails", settings.peer("outside")?) };
    let mails = SmtpSink::at(settings.peer("smtp")?)?.sender(SENDER)?.answer_within(ANSWER_MAX);
    let mails = mails.look_up(archive, LOOK_UP_EVERY).destination("mail").timeout(SENDING_MAX);
    let _relay = onefold.relay(vec![mails]);

    let consumer = || onefold.inbox(settings.inbox("notification")).consumer(handle);
    let events = Inlets::default().of(settings, "order", consumer()).await?;
    events.of(settings, "payment", consumer()).await?.serve(settings, Router::new()).await
}

/// What this writes, the mail's job and the mark of the message are one commit.
async fn handle(tx: &mut AnyTx, message: Arc<Incoming>) -> Result<Handled, BoxError> {
    let (name, order_id, customer_id, cents) = match serde_json::from_slice(&message.body)? {
        Event::OrderConfirmed { order_id, customer_id, cents } => {
            ("order.confirmed", order_id, customer_id, cents)
        }
        Event::PaymentCaptured { order_id, customer_id, cents } => {
            ("payment.captured", order_id, customer_id, cents)
        }
        Event::ProductChanged { .. } => return Ok(Handled::rejected("not an event for notification")),
    };
    let mail = Mail::new(format!("{customer_id}@example.org"), format!("Your order {order_id}"))
        .text(format!("Thank you. We have taken {}.{:02} EUR.", cents / 100, cents % 100));
    // Its key as it is; only `bfstore unprotected` changes it (safeguard.rs).
    let effect = safeguard::key(Safeguard::MailKey, &format!("order-{order_id}/ORDER_CONFIRMED"));
    let made = Notify::by("mail").once_on_any(tx, &effect, &mail).await?;
    tx.execute(REQUESTED, &[&name, &order_id, &i64::from(made)]).await?;
    Ok(Handled::Done)
}

/// The mail server's own record of what it has taken.
struct Archive {
    http: reqwest::Client,
    url: String,
}

#[async_trait]
impl MailLookUp for Archive {
    fn settled_after(&self) -> Duration {
        FOUND_WITHIN
    }

    async fn look_up(&self, message_id: &str) -> Found {
        let message_id = message_id.trim_matches(['<', '>']);
        let asked = self.http.get(format!("{}/{message_id}", self.url)).send().await;
        match asked.map(|answer| answer.status().as_u16()) {
            Ok(200) => Found::Happened { evidence: "the mail server's archive has it".into() },
            Ok(404) => Found::DidNotHappen { evidence: "the mail server's archive does not have it".into() },
            _ => Found::Inconclusive,
        }
    }
}
