//! Services that die: at random, and where somebody waits for it.
//!
//! A death is SIGKILL, or an orderly end as at an update; the service is started again at once, at its address and on its
//! files. Those who wait for the death of a service all wait for the next one, so one death strikes many requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::services::NAMES;
use crate::stage::Stage;

/// Pauses between deaths, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 100..500;
/// Of ten deaths, those of services whose death somebody waits for.
const AWAITED_OF_TEN: u32 = 7;
/// Every service is killed at least so often.
const KILLS_MIN: usize = 2;
/// Whoever awaits this one holds a connection open meanwhile.
const SOONEST: (&str, Death) = ("notification", Death::Killed);
/// Nobody waits longer for a death: on a busy machine there are few of them.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// How a service dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Death {
    /// SIGKILL.
    Killed,
    /// It is let end.
    Ended,
}

/// The deaths so far, and who waits for the next ones.
#[derive(Debug, Default)]
pub struct Deaths {
    so_far: BTreeMap<(&'static str, Death), watch::Sender<usize>>,
    awaited: Mutex<BTreeMap<(&'static str, Death), usize>>,
}

/// Which services die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaps {
    /// Every one at random, and those whose death somebody waits for.
    AtRandom,
    /// Those whose death somebody waits for, and every one as often as is the least.
    WhatMust,
    /// None any more.
    Nothing,
}

/// Whoever lets services die.
pub struct Reaper {
    stage: Stage,
    deaths: Arc<Deaths>,
    random: StdRng,
}

impl Deaths {
    /// None yet.
    pub fn new() -> Deaths {
        let of = |name| [Death::Killed, Death::Ended].map(|death| ((name, death), watch::Sender::new(0)));
        Deaths { so_far: NAMES.into_iter().flat_map(of).collect(), awaited: Mutex::default() }
    }

    /// Waits until this service dies in this way. False: it did not for long.
    pub async fn wait(&self, name: &'static str, death: Death) -> bool {
        let key = (name, death);
        let mut deaths = self.so_far[&key].subscribe();
        *self.awaited.lock().entry(key).or_default() += 1;
        let died = matches!(timeout(WAIT_MAX, deaths.changed()).await, Ok(Ok(())));
        if let Some(awaiting) = self.awaited.lock().get_mut(&key) {
            *awaiting -= 1;
        }
        died
    }

    /// How often each service was killed, and how often it has ended.
    pub fn counts(&self) -> Vec<(&'static str, usize, usize)> {
        let count = |name, death| *self.so_far[&(name, death)].borrow();
        NAMES.map(|name| (name, count(name, Death::Killed), count(name, Death::Ended))).into()
    }

    fn awaited(&self) -> Vec<(&'static str, Death)> {
        let awaited = self.awaited.lock();
        awaited.iter().filter(|(_, waiting)| **waiting > 0).map(|(key, _)| *key).collect()
    }

    /// Whether every service was killed as often as is the least.
    pub fn are_enough(&self) -> bool {
        self.counts().iter().all(|(_, killed, _)| *killed >= KILLS_MIN)
    }
}

impl Reaper {
    /// Over all services of a stage.
    pub fn new(stage: Stage, deaths: Arc<Deaths>, random: StdRng) -> Reaper {
        Reaper { stage, deaths, random }
    }

    /// Lets services die as long as this says; gives the stage back.
    pub async fn run(mut self, reaps: watch::Receiver<Reaps>) -> anyhow::Result<Stage> {
        loop {
            sleep(Duration::from_millis(self.random.random_range(PAUSE_MS))).await;
            let awaited = self.deaths.awaited();
            let only_what_must = match *reaps.borrow() {
                Reaps::AtRandom => false,
                Reaps::WhatMust => true,
                Reaps::Nothing => return Ok(self.stage),
            };
            if only_what_must && awaited.is_empty() && self.deaths.are_enough() {
                continue;
            }
            let of_those_awaited = only_what_must || self.random.random_ratio(AWAITED_OF_TEN, 10);
            let soonest = awaited.iter().copied().find(|death| *death == SOONEST);
            let next =
                soonest.or_else(|| awaited.choose(&mut self.random).copied().filter(|_| of_those_awaited));
            let at_random = *NAMES.choose(&mut self.random).expect("there are services");
            let (name, death) = next.unwrap_or((at_random, Death::Killed));
            match death {
                Death::Killed => self.stage.kill(name).await?,
                Death::Ended => self.stage.let_end(name).await?,
            }
            self.deaths.so_far[&(name, death)].send_modify(|deaths| *deaths += 1);
            self.stage.start_again(name).await?;
        }
    }
}
