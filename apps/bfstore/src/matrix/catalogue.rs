//! Prices beside the checkouts: what they cost is told again and in the wrong order, and the newest stands.
//!
//! Of each product the catalogue tells an old and a new version in any order, the new one again in the same message, and
//! last the old one in a message of its own, which no mark knows: only the version tells that it is old.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use onefold::Key;
use onefold::messages::{Message, Sending, Sink};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::events::Event;
use crate::ledgers::Ledgers;

/// Products of which it is told at once.
const AT_ONCE: usize = 4;
const PAUSE: Duration = Duration::from_millis(200);
/// The version that stands in the end, and the one that is old.
pub const NEW: i64 = 2;
const OLD: i64 = 1;
/// Messages about each product: one of them comes twice.
const MESSAGES_EACH: u64 = 3;
const HANDLED: &str = "SELECT count(*) FROM {inbox} WHERE source = 'catalogue' AND state <> 0";

/// A product of which the catalogue tells.
pub fn product(number: usize) -> String {
    format!("thing-{number}")
}

/// What it costs in the end, and by which version, as `Books` has it.
pub fn newest(number: usize) -> String {
    format!("{} {} {NEW}", product(number), cents(number, NEW))
}

fn cents(number: usize, version: i64) -> i64 {
    1000 * version + number as i64
}

/// Tells of so many products, through whatever stands between, and waits until the storefront has handled all of it.
/// Returns how many messages were sent.
pub async fn tell(
    products: usize,
    seed: u64,
    sink: Arc<dyn Sink>,
    ledgers: &Ledgers,
    until: Instant,
) -> anyhow::Result<usize> {
    let mut random = StdRng::seed_from_u64(seed);
    let (places, mut telling) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for number in 0..products {
        let messages = of(number, &mut random)?;
        let (sink, places) = (sink.clone(), places.clone());
        telling.spawn(async move {
            let _place = places.acquire().await?;
            for message in &messages {
                accepted(&*sink, message, until).await?;
            }
            anyhow::Ok(messages.len())
        });
    }
    let mut sent = 0;
    while let Some(told) = telling.join_next().await {
        sent += told??;
    }
    while ledgers.count("storefront", HANDLED).await? < MESSAGES_EACH * products as u64 {
        ensure!(Instant::now() < until, "the storefront has not handled what the catalogue told");
        sleep(PAUSE).await;
    }
    Ok(sent)
}

/// In the order in which they are sent.
fn of(number: usize, random: &mut StdRng) -> anyhow::Result<Vec<Message>> {
    let message = |version: i64, id: &str| {
        let (product, cents) = (product(number), cents(number, version));
        let about = format!("product-{product}");
        let event = Event::ProductChanged { product, cents, version };
        let message = event.to("storefront", id, &about, id).map_err(anyhow::Error::from_boxed)?;
        anyhow::Ok(Message { id: Key::new(id)?, ..message })
    };
    let [old, new, replayed] = ["old", "new", "replayed"].map(|what| format!("{}/{what}", product(number)));
    let mut messages = vec![message(OLD, &old)?, message(NEW, &new)?, message(NEW, &new)?];
    messages.shuffle(random);
    messages.push(message(OLD, &replayed)?);
    Ok(messages)
}

/// Sends it until it is taken: services come and go.
async fn accepted(sink: &dyn Sink, message: &Message, until: Instant) -> anyhow::Result<()> {
    loop {
        match sink.send(message).await {
            Sending::Accepted => return Ok(()),
            Sending::Refused { reason } => bail!("the storefront does not want it: {reason}"),
            sending => ensure!(Instant::now() < until, "it is not taken: {sending:?}"),
        }
        sleep(PAUSE).await;
    }
}
