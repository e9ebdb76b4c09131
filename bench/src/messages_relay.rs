//! The relay under load: messages that wait, and messages that come at a steady rate.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use onefold_core::{Key, Message};
use onefold_messages::{Destination, Relay, Sending, Sink};
use onefold_store::OutboxStore;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval};

use crate::args::{KeysKind, Settings};
use crate::histogram::Histogram;
use crate::keys::KeyMaker;
use crate::messages_calls::{DESTINATION, message};

/// Messages of one commit while messages come at a rate, and how many such commits there are in a second at most.
const COMMITS_A_SECOND: f64 = 100.0;
/// Messages of one commit where as many come as go through, and how many of them may wait.
const EACH: u32 = 100;
const WAITING_MAX: usize = 2000;
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// A destination that accepts at once and says what came.
#[derive(Clone)]
struct Counting {
    came: Arc<Semaphore>,
    at: Arc<Mutex<HashMap<Key, Instant>>>,
}

#[async_trait]
impl Sink for Counting {
    async fn send(&self, message: &Message) -> Sending {
        self.at.lock().insert(message.id.clone(), Instant::now());
        self.came.add_permits(1);
        Sending::Accepted
    }
}

impl Counting {
    fn new() -> Counting {
        Counting { came: Arc::new(Semaphore::new(0)), at: Arc::default() }
    }

    async fn wait(&self, messages: u32) -> Result<()> {
        self.came.acquire_many(messages).await?.forget();
        Ok(())
    }
}

/// Messages a second that a relay sends to a destination that accepts at once.
pub(crate) async fn relayed(store: Arc<dyn OutboxStore>, messages: u32, kind: KeysKind) -> Result<f64> {
    fill(&*store, messages, kind).await?;
    let counting = Counting::new();
    let begun = Instant::now();
    let relay = Relay::start(&store, vec![Destination::new(DESTINATION, counting.clone())]);
    counting.wait(messages).await?;
    let took = begun.elapsed();
    ensure!(relay.stop(GRACE).await == 0, "messages are left to their leases");
    Ok(f64::from(messages) / took.as_secs_f64())
}

/// Messages a second that are written and relayed at the same time, as many as go through: what full load is.
pub(crate) async fn through(store: Arc<dyn OutboxStore>, settings: &Settings) -> Result<f64> {
    let counting = Counting::new();
    let relay = Relay::start(&store, vec![Destination::new(DESTINATION, counting.clone())]);
    let mut maker = KeyMaker::new(settings.keys_kind);
    let waiting = Arc::new(Semaphore::new(WAITING_MAX));
    let until = Instant::now() + settings.warmup() + settings.window();
    let from = until - settings.window();
    let mut made = 0;
    while Instant::now() < until {
        waiting.acquire_many(EACH).await?.forget();
        store.enqueue(some_messages(&mut maker, EACH)?).await?;
        made += EACH;
        let (counting, waiting) = (counting.clone(), waiting.clone());
        tokio::spawn(async move {
            if counting.wait(EACH).await.is_ok() {
                waiting.add_permits(EACH as usize);
            }
        });
    }
    waiting.acquire_many(u32::try_from(WAITING_MAX)?).await?.forget();
    ensure!(relay.stop(GRACE).await == 0, "messages are left to their leases");
    let at = counting.at.lock();
    ensure!(at.len() == made as usize, "{made} messages were made, {} came", at.len());
    let came = at.values().filter(|at| (from..until).contains(*at)).count();
    Ok(came as f64 / settings.window().as_secs_f64())
}

/// The 99th percentile from the commit of a message to its destination, in milliseconds, where so many come in a
/// second.
pub(crate) async fn latency(store: Arc<dyn OutboxStore>, per_s: f64, settings: &Settings) -> Result<f64> {
    let counting = Counting::new();
    let relay = Relay::start(&store, vec![Destination::new(DESTINATION, counting.clone())]);
    let mut maker = KeyMaker::new(settings.keys_kind);
    let each = (per_s / COMMITS_A_SECOND).ceil().max(1.0);
    let mut ticks = interval(Duration::from_secs_f64(each / per_s));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let until = Instant::now() + settings.warmup() + settings.window();
    let mut committed = Vec::new();
    while Instant::now() < until {
        ticks.tick().await;
        let some = some_messages(&mut maker, each as u32)?;
        let ids: Vec<Key> = some.iter().map(|message| message.id.clone()).collect();
        store.enqueue(some).await?;
        let now = Instant::now();
        committed.extend(ids.into_iter().map(|id| (id, now)));
    }
    counting.wait(u32::try_from(committed.len())?).await?;
    ensure!(relay.stop(GRACE).await == 0, "messages are left to their leases");
    let from = until - settings.window();
    let (at, mut histogram) = (counting.at.lock(), Histogram::new());
    for (id, committed) in committed.iter().filter(|(_, committed)| *committed >= from) {
        let came = at.get(id).context("a message has come")?;
        histogram.add(came.saturating_duration_since(*committed));
    }
    Ok(histogram.quantile_ms(0.99))
}

pub(crate) async fn fill(store: &dyn OutboxStore, messages: u32, kind: KeysKind) -> Result<()> {
    let mut maker = KeyMaker::new(kind);
    let mut left = messages;
    while left > 0 {
        let some = left.min(1000);
        store.enqueue(some_messages(&mut maker, some)?).await?;
        left -= some;
    }
    Ok(())
}

fn some_messages(maker: &mut KeyMaker, some: u32) -> Result<Vec<Message>> {
    (0..some).map(|_| message(&maker.uuid().to_string())).collect()
}
