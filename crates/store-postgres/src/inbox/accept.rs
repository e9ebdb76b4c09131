//! A message whose effect is other messages: mark and messages in one commit, so after a crash there are both or
//! neither.

use onefold_core::InboxState;
use onefold_store::{Consumed, Mark, StoreError};

use super::{MarkWork, enter};
use crate::ask::Within;
use crate::atomic::{Stopped, bounded};
use crate::outgoing::{self, Outgoing};
use crate::server::{RERUNS_MAX, pause};
use crate::store::PostgresStore;

/// A message whose effect is other messages.
pub(crate) async fn accept(
    mark: Mark,
    messages: impl Fn() -> Vec<Outgoing> + Sync,
    store: &PostgresStore,
) -> Result<Consumed, StoreError> {
    let mark = MarkWork::new(mark, store.sealer());
    let mut reruns = 0;
    loop {
        let accepted = accept_once(&mark, &messages, store).await;
        match accepted.map_or_else(Stopped::consumed, Ok)? {
            Consumed::Contended(_) if reruns < RERUNS_MAX => {
                pause(reruns).await;
                reruns += 1;
            }
            consumed => return Ok(consumed),
        }
    }
}

async fn accept_once(
    mark: &MarkWork,
    messages: &(impl Fn() -> Vec<Outgoing> + Sync),
    store: &PostgresStore,
) -> Result<Consumed, Stopped> {
    let (held, standing) = enter(mark.mark.id, store).await?;
    if let Some(consumed) = mark.judge(&standing) {
        held.roll_back().await;
        return Ok(consumed);
    }
    let made = bounded(async {
        let within = Within { client: &*held, now: store.server().now() };
        if !mark.is_newer(&held, store).await? {
            return Ok(None);
        }
        // An earlier mark of the message, which is forgotten, may have brought them about before.
        outgoing::put_anew(messages, mark.mark.id, &within).await.map(Some)
    });
    let made = match made.await {
        Ok(made) => made,
        Err(failed) => return Err(held.failed(failed).await.into()),
    };
    let state = if made.is_some() { InboxState::Processed } else { InboxState::Superseded };
    let to = mark.done(state, None, &standing.entries);
    let now = match mark.commit(held, &to, store).await? {
        Ok(now) => now,
        Err(found) => return Ok(found),
    };
    if made.is_some_and(|made| made > 0) {
        store.hints().give();
    }
    Ok(Consumed::Done { now, state })
}
