//! Looking up what became of messages whose answer was lost (docs/messages.md).
//!
//! *Promises.* Only messages that are `outcome_unknown` are looked up, one at a time, again and again until the
//! look-up or a person knows. That a message is not found says nothing by itself, since the first sending may still
//! be on its way: it counts only when the look-up began later than a window after the message became unknown. A
//! verdict that settles is kept with the message, with its evidence. What a person has done meanwhile stands.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use onefold_core::{Message, OutboxEntry, OutboxState, StoreTime};
use onefold_store::{OutboxQuery, OutboxStore, Redrive, Redriving, StoreError};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::limits::{LOOK_UP_TIMEOUT, PAGE};

/// Who acts, in the history of a message.
const WHO: &str = "look-up";

/// What is known of a message. The texts are kept: they name no body and no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The destination has it.
    Happened {
        /// How that is known.
        evidence: String,
    },
    /// The destination does not have it. Believed after [`LookUp::settled_after`].
    DidNotHappen {
        /// How that is known.
        evidence: String,
    },
    /// Nothing is known.
    Inconclusive,
}

/// Whoever can ask what a destination has: a provider's list of messages, an archive, a log.
#[async_trait]
pub trait LookUp: Send + Sync + 'static {
    /// For how long a message must have been unknown before "it is not there" is believed: longer than the first
    /// sending may still take to arrive and to be found.
    fn settled_after(&self) -> Duration;

    /// Asks for one message. Dropped after 30 s, which is no answer.
    async fn look_up(&self, message: &Message) -> Found;
}

/// Looks up the unknown messages of a destination until it is told to stop.
pub(crate) async fn run(
    store: Arc<dyn OutboxStore>,
    destination: String,
    look_up: Arc<dyn LookUp>,
    every: Duration,
    mut stop: watch::Receiver<bool>,
) {
    while !*stop.borrow_and_update() {
        // An act is one commit: dropped here, it is done or not.
        tokio::select! {
            done = round(&*store, &destination, &*look_up) => if let Err(error) = done {
                tracing::warn!(destination, %error, "the outbox does not answer");
            },
            _ = stop.changed() => return,
        }
        let pause = every.mul_f64(0.5 + rand::random::<f64>());
        let _ = timeout(pause, stop.changed()).await;
    }
}

async fn round(store: &dyn OutboxStore, destination: &str, look_up: &dyn LookUp) -> Result<(), StoreError> {
    let mut cursor = None;
    loop {
        let query = OutboxQuery {
            destination: Some(destination.to_owned()),
            state: Some(OutboxState::Unknown),
            cursor,
            limit: PAGE,
            ..OutboxQuery::default()
        };
        let page = store.list_outbox(query).await?;
        for entry in page.entries {
            one(store, entry, page.now, look_up).await?;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

/// `now` is not later than the beginning of the look-up.
async fn one(
    store: &dyn OutboxStore,
    entry: OutboxEntry,
    now: StoreTime,
    look_up: &dyn LookUp,
) -> Result<(), StoreError> {
    let unknown_for = entry.ended_at.map(|since| since.until(now)).unwrap_or_default();
    let asked = AssertUnwindSafe(timeout(LOOK_UP_TIMEOUT, look_up.look_up(&entry.message))).catch_unwind();
    let (redrive, reason) = match asked.await {
        Ok(Ok(Found::Happened { evidence })) => (Redrive::Delivered, evidence),
        Ok(Ok(Found::DidNotHappen { evidence })) if unknown_for >= look_up.settled_after() => {
            (Redrive::SendAgain, evidence)
        }
        Ok(_) => return Ok(()),
        Err(_) => {
            tracing::error!("a look-up panicked; the message stays unknown");
            return Ok(());
        }
    };
    let (id, attempt, who) = (entry.message.id, entry.attempt, WHO.to_owned());
    let redriving = Redriving { id, attempt, redrive, after: Duration::ZERO, who, reason };
    store.redrive(redriving).await.map(drop)
}
