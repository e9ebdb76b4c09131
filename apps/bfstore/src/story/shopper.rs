//! The callers: whoever presses the button, and whoever tells the outside world what to do wrong.

use std::time::Duration;

use anyhow::{Context, ensure};
use onefold::client::{once_client, reqwest};
use serde_json::Value;

use crate::outside::{Fault, Happened, Held};
use crate::rpc::Known;

/// Nobody in the story waits longer for an answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// What a shopper has in hand after pressing the button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// The connection ended before an answer was there.
    Nothing,
    /// A whole answer.
    Answer {
        /// Of HTTP.
        status: u16,
        /// The order that it confirms.
        order: Option<i64>,
        /// Why there is none.
        error: Option<String>,
    },
}

impl Got {
    /// The order that is confirmed.
    pub fn order(&self) -> Option<i64> {
        match self {
            Got::Answer { status: 200, order, .. } => *order,
            _ => None,
        }
    }
}

/// A browser. Each request is sent once.
#[derive(Clone, Debug)]
pub struct Shopper {
    http: reqwest::Client,
    shop: String,
    outside: String,
}

impl Shopper {
    /// At the storefront and the outside world of these URLs.
    pub fn at(shop: &str, outside: &str) -> anyhow::Result<Shopper> {
        let http = once_client(|ours| ours.timeout(ANSWER_MAX).pool_max_idle_per_host(0))?;
        Ok(Shopper { http, shop: shop.to_owned(), outside: outside.to_owned() })
    }

    /// Opens the shop: a checkout is made, and its id is in the address of its page.
    pub async fn begin(&self, quantity: u32) -> anyhow::Result<String> {
        self.begin_as("ann", quantity).await
    }

    /// The same as this customer.
    pub async fn begin_as(&self, customer_id: &str, quantity: u32) -> anyhow::Result<String> {
        let wish = format!("product=lamp&quantity={quantity}&customer_id={customer_id}");
        let page = self.http.get(format!("{}/?{wish}", self.shop)).send().await?;
        checkout_of(&page)
    }

    /// Begins another checkout of the same basket.
    pub async fn again(&self, checkout_id: &str) -> anyhow::Result<String> {
        let page = self.http.post(format!("{}/checkouts/{checkout_id}/again", self.shop)).send().await?;
        checkout_of(&page)
    }

    /// Presses the button.
    pub async fn buy(&self, checkout_id: &str) -> Got {
        let Ok(answer) = self.http.post(format!("{}/checkouts/{checkout_id}", self.shop)).send().await else {
            return Got::Nothing;
        };
        let status = answer.status().as_u16();
        let Ok(body) = answer.bytes().await else { return Got::Nothing };
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let error = said["error"].as_str().map(str::to_owned);
        Got::Answer { status, order: said["order_id"].as_i64(), error }
    }

    /// Tells the outside world to do this wrong, once.
    pub async fn tell(&self, fault: Fault) -> anyhow::Result<()> {
        let told = self.http.post(format!("{}/faults", self.outside));
        let told = told.header("content-type", "application/json").body(serde_json::to_vec(&fault)?).send();
        ensure!(told.await?.status().is_success(), "the outside world does not listen");
        Ok(())
    }

    /// Tells the mail server to lose its answer to the next mail for this recipient.
    pub async fn lose_answer_to_mail(&self, to: &str) -> anyhow::Result<()> {
        let told = self.http.post(format!("{}/mails/{to}/unanswered", self.outside)).send().await?;
        ensure!(told.status().is_success(), "the outside world does not listen");
        Ok(())
    }

    /// Tells the mail server to take the next mail for this recipient, and to hold its answer.
    pub async fn hold_answer_to_mail(&self, to: &str) -> anyhow::Result<()> {
        let told = self.http.post(format!("{}/mails/{to}/held", self.outside)).send().await?;
        ensure!(told.status().is_success(), "the outside world does not listen");
        Ok(())
    }

    /// What has become of that mail.
    pub async fn held_mail(&self, to: &str) -> anyhow::Result<Option<Held>> {
        let answer = self.http.get(format!("{}/mails/{to}/held", self.outside)).send().await?;
        Ok(serde_json::from_slice(&answer.bytes().await?)?)
    }

    /// What was late at the provider lands now.
    pub async fn land(&self) -> anyhow::Result<()> {
        self.http.post(format!("{}/late", self.outside)).send().await?;
        Ok(())
    }

    /// What a service knows of the one that it calls at `url`.
    pub async fn knows(&self, service: &str, url: &str) -> anyhow::Result<Known> {
        let answer = self.http.get(format!("{service}/destinations")).send().await?;
        let known: Vec<Known> = serde_json::from_slice(&answer.bytes().await?)?;
        known.into_iter().find(|known| known.url == url).context("it was never called")
    }

    /// What happened outside.
    pub async fn happened(&self) -> anyhow::Result<Happened> {
        let answer = self.http.get(format!("{}/happened", self.outside)).send().await?;
        Ok(serde_json::from_slice(&answer.bytes().await?)?)
    }
}

/// The checkout whose page is shown.
fn checkout_of(page: &reqwest::Response) -> anyhow::Result<String> {
    let location = page.headers().get("location").context("no checkout was made")?.to_str()?;
    Ok(location.rsplit_once('/').context("no page of a checkout")?.1.to_owned())
}
