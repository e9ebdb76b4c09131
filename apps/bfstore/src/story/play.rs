//! One chapter while it is played: the stage, a shopper, and what was tried.

use std::path::Path;
use std::time::Duration;

use anyhow::{bail, ensure};
use onefold::Key;
use onefold::messages::{Message, Sending};
use tokio::time::{Instant, sleep};

use crate::brokers::SERVER_REMEMBERS;
use crate::events::{self, Event};
use crate::ground::{Events, Ground};
use crate::ledgers::Ledgers;
use crate::outside::Happened;
use crate::stage::{Lines, Set, Stage};
use crate::story::Books;
use crate::story::operator::Operator;
use crate::story::shopper::{Got, Shopper};

/// How long a chapter may take to come to rest.
const REST_WITHIN: Duration = Duration::from_secs(90);
/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The messages that were handled.
const MARKS: &str = "SELECT message FROM {inbox} WHERE state <> 0";

/// A chapter while it is played.
pub(crate) struct Play {
    pub(crate) stage: Stage,
    pub(crate) ledgers: Ledgers,
    pub(crate) shopper: Shopper,
    pub(crate) submits: usize,
    /// Events that somebody outside of bfstore has sent.
    sendings: usize,
    kills: usize,
    /// How long payment is down, where it is.
    pub(super) down_for: Duration,
}

/// A chapter that was played.
#[derive(Clone, Debug)]
pub struct Played {
    /// What is there.
    pub books: Books,
    submits: usize,
    kills: usize,
    lost: usize,
    sendings: usize,
    happened: Happened,
}

impl Play {
    pub(crate) async fn start(
        binary: &Path,
        folder: &Path,
        ground: &Ground,
        down_for: Duration,
    ) -> anyhow::Result<Play> {
        let set = Set { lines: Lines::CanLose, ground: ground.clone(), ..Set::default() };
        Play::on(Stage::start(binary, folder, set).await?, down_for).await
    }

    /// On a stage that stands.
    pub(crate) async fn on(stage: Stage, down_for: Duration) -> anyhow::Result<Play> {
        let ledgers = Ledgers::at(stage.ground(), stage.folder()).await?;
        let shopper = Shopper::at(stage.url("storefront"), stage.url("outside"))?;
        Ok(Play { stage, ledgers, shopper, submits: 0, sendings: 0, kills: 0, down_for })
    }

    /// Presses the button of a checkout.
    pub(crate) async fn buy(&mut self, checkout_id: &str) -> Got {
        self.submits += 1;
        self.shopper.buy(checkout_id).await
    }

    /// Presses it this often at once.
    pub(crate) async fn buy_at_once(&mut self, checkout_id: &str, times: usize) -> Vec<Got> {
        self.submits += times;
        let presses = (0..times).map(|_| {
            let (shopper, checkout_id) = (self.shopper.clone(), checkout_id.to_owned());
            tokio::spawn(async move { shopper.buy(&checkout_id).await })
        });
        let presses: Vec<_> = presses.collect();
        let mut got = Vec::new();
        for press in presses {
            got.push(press.await.unwrap_or(Got::Nothing));
        }
        got
    }

    /// The first order, of one lamp, that went well.
    pub(crate) async fn order(&mut self) -> anyhow::Result<()> {
        self.order_of(1, 1).await?;
        Ok(())
    }

    /// The order of this number, of so many lamps, that went well; its checkout.
    pub(crate) async fn order_of(&mut self, quantity: u32, number: i64) -> anyhow::Result<String> {
        let checkout_id = self.shopper.begin(quantity).await?;
        let got = self.buy(&checkout_id).await;
        ensure!(got.order() == Some(number), "the order was not placed: {got:?}");
        Ok(checkout_id)
    }

    /// The catalogue tells the storefront of a product, in a message of this id.
    pub(crate) async fn catalogue(&mut self, id: &str, cents: i64, version: i64) -> anyhow::Result<()> {
        let catalogue = self.stage.settings("catalogue")?;
        let event = Event::ProductChanged { product: "lamp".into(), cents, version };
        let message = event.to("storefront", id, "product-lamp", id).map_err(anyhow::Error::from_boxed)?;
        let message = Message { id: Key::new(id)?, ..message };
        let sink = events::sink(&catalogue, "storefront").await?;
        let known = self.has_handled("storefront", id).await?;
        let before = self.duplicates("storefront").await?;
        if known && matches!(self.stage.ground().events, Events::Nats(_)) {
            // The server would take it for its own repetition.
            sleep(SERVER_REMEMBERS * 2).await;
        }
        // A broker is connected to in its own time, and the storefront makes its queue.
        let by_broker = self.stage.ground().events != Events::Webhooks;
        let taken = async |_: &Play| match sink.send(&message).await {
            Sending::Accepted => Ok(true),
            Sending::NotYet { .. } => Ok(false),
            Sending::Failed { .. } if by_broker => Ok(false),
            other => bail!("the event was not taken: {other:?}"),
        };
        self.until("the event is taken", taken).await?;
        self.sendings += 1;
        if known {
            return self.repeated("storefront", before + 1).await;
        }
        let handled = async |play: &Play| play.has_handled("storefront", id).await;
        self.until("the storefront has handled the event", handled).await
    }

    async fn has_handled(&self, service: &str, id: &str) -> anyhow::Result<bool> {
        Ok(self.ledgers.ask(service, MARKS).await?.iter().any(|mark| mark == id))
    }

    /// Waits until so many messages have come to this service that it knew: a repetition that is not seen proves nothing.
    pub(crate) async fn repeated(&self, service: &str, times: u64) -> anyhow::Result<()> {
        let seen = async |play: &Play| Ok(play.duplicates(service).await? >= times);
        self.until("what is known has come again", seen).await
    }

    async fn duplicates(&self, service: &str) -> anyhow::Result<u64> {
        let counted = "SELECT CAST(coalesce(sum(duplicates), 0) AS BIGINT) FROM {inbox}";
        Ok(self.line_of(service, counted).await?.parse()?)
    }

    pub(crate) async fn kill(&mut self, name: &str) -> anyhow::Result<()> {
        self.kills += 1;
        self.stage.kill(name).await
    }

    /// Ends it and starts it again with these settings, as a deployment does.
    pub(super) async fn deploy(&mut self, name: &str, settings: &[&str]) -> anyhow::Result<()> {
        self.kill(name).await?;
        self.stage.set(name, settings);
        self.stage.start_again(name).await
    }

    /// The first line that this query has at the service's database.
    pub(super) async fn line_of(&self, service: &str, sql: &str) -> anyhow::Result<String> {
        Ok(self.ledgers.ask(service, sql).await?.into_iter().next().unwrap_or_default())
    }

    /// A person at the store of this service.
    pub(super) async fn operator(&self, service: &str) -> anyhow::Result<Operator> {
        Operator::at(&self.stage.ground().database(service, self.stage.folder())?).await
    }

    /// Waits until this is so.
    pub(crate) async fn until(
        &self,
        what: &str,
        is_so: impl AsyncFn(&Play) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let until = Instant::now() + REST_WITHIN;
        while !is_so(self).await? {
            if Instant::now() > until {
                bail!("not within {REST_WITHIN:?}: {what}");
            }
            sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until nothing is on its way any more.
    pub(crate) async fn rest(&self) -> anyhow::Result<()> {
        let rest = async |play: &Play| Books::settled(&play.ledgers).await;
        self.until("everything has come to rest", rest).await
    }

    /// Reads the books, ends every process, and clears the ground.
    pub(crate) async fn end(self) -> anyhow::Result<Played> {
        let happened = self.shopper.happened().await?;
        let books = Books::read(&self.ledgers, &happened).await?;
        let lost = ["storefront", "loyalty", "notification"].map(|name| self.stage.line(name).lost());
        let played = Played {
            books,
            submits: self.submits,
            kills: self.kills,
            lost: lost.iter().sum(),
            sendings: self.sendings + Books::sendings(&self.ledgers).await?,
            happened,
        };
        let ground = self.stage.ground().clone();
        self.stage.end().await;
        ground.clear().await?;
        Ok(played)
    }
}

impl Played {
    /// What was tried: submits, requests at the provider, sendings of events, answers that lines have lost, services that
    /// were killed.
    pub fn attempts(&self) -> [usize; 5] {
        [self.submits, self.happened.capture_requests, self.sendings, self.lost, self.kills]
    }
}
