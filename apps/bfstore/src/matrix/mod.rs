//! The matrix: the ten sources of repetition, each at each of the five effects of a checkout, while every service is
//! killed at random. In the end every checkout has one order, one reservation, one capture, one mail and one award, in all
//! databases and outside. Beside them prices are told again and in the wrong order, and the newest stands.
//!
//! The seed deals the sources and the deaths. Which request is on its way when a service dies is left to the machine.

mod again;
mod catalogue;
mod deaths;
mod ledger;
mod mails;
mod plan;
mod shoppers;
mod table;
mod traffic;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::events;
use crate::ground::{Events, Ground, between_services};
use crate::ledgers::Ledgers;
use crate::stage::{Set, Stage};
use crate::story::Books;
use crate::story::shopper::Shopper;
use again::Reach;
use deaths::{Deaths, Reaper, Reaps};
use ledger::Ledger;
use plan::{Effect, Source};
pub use table::Outcome;
use traffic::Traffic;

/// With fewer there is not one for each source.
pub const CHECKOUTS_MIN: usize = Source::ALL.len();
/// Everything has come to rest by then: so long in any case, and so much longer for each checkout.
const REST_WITHIN: Duration = Duration::from_secs(180);
const REST_WITHIN_EACH: Duration = Duration::from_secs(1);
/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Lamps in stock beside those that are sold.
const LAMPS_LEFT: usize = 100;

/// What is to be played.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Where databases are, and what carries events.
    pub ground: Ground,
    /// How many, at least [`CHECKOUTS_MIN`].
    pub checkouts: usize,
    /// Deals the sources and the deaths.
    pub seed: u64,
}

impl Matrix {
    /// Plays it on a stage of its own in this folder. What it makes on servers it takes away where everything went well.
    pub async fn run(self, binary: &Path, folder: &Path) -> anyhow::Result<Outcome> {
        let Matrix { ground, checkouts, seed } = self;
        ensure!(checkouts >= CHECKOUTS_MIN, "there are {CHECKOUTS_MIN} sources: play with more checkouts");
        let begun = Instant::now();
        let until = begun + REST_WITHIN + REST_WITHIN_EACH * u32::try_from(checkouts)?;
        let plans = plan::deal(checkouts, seed);
        let deaths = Arc::new(Deaths::new());
        let (later, asked) = mpsc::channel(checkouts * Effect::ALL.len());
        ground.prepare().await?;
        let ledgers = Arc::new(Ledgers::at(&ground, folder).await?);
        let traffic = Arc::new(Traffic::new(ledgers.clone(), plans.clone(), deaths.clone(), later));
        let set = Set { ground: ground.clone(), balance: Some(traffic.clone()), ..Set::default() };
        let stage = Stage::start(binary, folder, set).await?;
        let fallen = stage.fallen();
        Books::restock(&ledgers, checkouts + LAMPS_LEFT).await?;

        let reach = Reach::by(|service| stage.url(service), |sender| stage.secret(sender))?;
        let shopper = Shopper::at(stage.url("storefront"), stage.url("outside"))?;
        let prices = events::sink(&stage.settings("catalogue")?, "storefront").await?;
        let (reap, reaps) = watch::channel(Reaps::AtRandom);
        let (rest, at_rest) = watch::channel(false);
        let mut beside = JoinSet::new();
        beside.spawn(again::run(asked, traffic.clone(), reach, at_rest));
        for checkout in (0..checkouts).filter(|checkout| plans[*checkout].dies_mailing) {
            traffic.strikes_elsewhere(checkout, Effect::Notification);
            let (shopper, traffic, deaths) = (shopper.clone(), traffic.clone(), deaths.clone());
            beside.spawn(async move { mails::die(checkout, &shopper, &traffic, &deaths).await });
        }
        let reaper = Reaper::new(stage, deaths.clone(), StdRng::seed_from_u64(seed));
        let mut reaping = tokio::spawn(reaper.run(reaps));
        let playing = async {
            let shopping = shoppers::all(&plans, &shopper, &traffic, until);
            let telling = catalogue::tell(checkouts, seed, prices, &ledgers, until);
            let (presses, prices) = tokio::try_join!(shopping, telling)?;
            reap.send_replace(Reaps::WhatMust);
            while !deaths.are_enough() && Instant::now() < until {
                sleep(LOOK_EVERY).await;
            }
            self::rest(&ledgers, &traffic, false, until).await?;
            reap.send_replace(Reaps::Nothing);
            anyhow::Ok((presses, prices))
        };
        let (presses, prices) = tokio::select! {
            played = playing => played?,
            failed = &mut reaping => bail!("a service cannot be started again: {:?}", failed?.err()),
            fallen = fallen => return Err(fallen),
        };
        let mut stage = reaping.await??;
        // Only now is sent again what was given up.
        rest.send_replace(true);
        let dead_letters = again::recover_dead_letters(&ground, folder).await?;
        self::rest(&ledgers, &traffic, true, until).await?;
        duplicates_are_handled(&mut stage, until).await?;

        let happened = shopper.happened().await?;
        let books = Books::read(&ledgers, &happened).await?;
        for mail in happened.mails.iter().filter(|mail| traffic.is_looked_up(&mail.message_id)) {
            let of = mail.to.first().and_then(|to| traffic::checkout_of(to.strip_suffix("@example.org")?));
            let looked_up = of.filter(|of| plans[*of].source(Effect::Notification) == Source::Reconciliation);
            looked_up.into_iter().for_each(|checkout| traffic.struck(checkout, Effect::Notification));
        }
        stage.end().await;
        ground.clear().await?;
        ground.sent().clear_events().await?;
        let ledger = Ledger::read(&books, &happened, &plans, checkouts + LAMPS_LEFT);
        Ok(Outcome::of(
            &plans,
            &traffic,
            ledger,
            table::Totals {
                presses,
                prices,
                dead_letters,
                deaths: deaths.counts(),
                books,
                took: begun.elapsed(),
            },
        ))
    }
}

/// Waits until nothing is on its way any more.
async fn rest(ledgers: &Ledgers, traffic: &Traffic, recovered: bool, until: Instant) -> anyhow::Result<()> {
    while traffic.on_its_way(recovered) > 0 || !Books::settled(ledgers).await? {
        if Instant::now() > until {
            let on_its_way = traffic.on_its_way(recovered);
            bail!("it does not come to rest; {on_its_way} are still to be asked for; the files tell why");
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// A broker may still hold events that were delivered before. Their receivers are ended, since RabbitMQ tells only then
/// what they have not acknowledged, and are started again where that is anything.
async fn duplicates_are_handled(stage: &mut Stage, until: Instant) -> anyhow::Result<()> {
    let ground = stage.ground().clone();
    if ground.events == Events::Webhooks {
        return Ok(());
    }
    let receivers: BTreeSet<&str> = between_services().map(|(_, receiver)| receiver).collect();
    loop {
        while ground.sent().waiting().await? + ground.waiting().await? > 0 {
            ensure!(Instant::now() < until, "events are left at the broker");
            sleep(LOOK_EVERY).await;
        }
        for receiver in &receivers {
            stage.let_end(receiver).await?;
        }
        if ground.waiting().await? == 0 {
            return Ok(());
        }
        for receiver in &receivers {
            stage.start_again(receiver).await?;
        }
    }
}
