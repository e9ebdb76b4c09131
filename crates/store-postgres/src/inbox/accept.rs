//! A message whose effect is other messages: mark and messages in one commit.

use onefold_core::{FingerprintBuilder, InboxState};
use onefold_store::{Consumed, Mark, StoreError, Versioned, crash};
use tokio_postgres::types::{ToSql, Type};

use super::{MarkWork, enter};
use crate::ask::Within;
use crate::atomic::{Stopped, bounded};
use crate::error::Failed;
use crate::held::Held;
use crate::outgoing::{self, Outgoing};
use crate::server::{RERUNS_MAX, pause};
use crate::store::PostgresStore;

/// Whether this version is newer than the entity's; it is noted then. $4: its own version counts as newer.
pub(crate) const NEWER: &str = "INSERT INTO onefold.entities AS e (entity, version, message) VALUES ($1, $2, $3)
    ON CONFLICT (entity) DO UPDATE SET version = excluded.version, message = excluded.message
    WHERE e.version < excluded.version OR ($4 AND e.message = excluded.message AND e.version = excluded.version)
    RETURNING e.version";

/// A message whose effect is other messages.
pub(crate) async fn accept(
    mark: Mark,
    versioned: Option<Versioned>,
    messages: impl Fn() -> Vec<Outgoing> + Sync,
    store: &PostgresStore,
) -> Result<Consumed, StoreError> {
    let mark = MarkWork::new(mark, store.sealer());
    let mut reruns = 0;
    loop {
        let accepted = accept_once(&mark, versioned.as_ref(), &messages, store).await;
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
    versioned: Option<&Versioned>,
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
        let newer = match versioned {
            Some(versioned) => is_newer(&mark.mark, versioned, &held, store).await?,
            None => true,
        };
        if !newer {
            return Ok(None);
        }
        // An earlier mark of the message, which is forgotten, may have brought them about before.
        outgoing::put_anew(messages, mark.mark.id, &within).await.map(Some)
    });
    let made = match made.await {
        Ok(made) => made,
        Err(failed) => {
            if !failed.ends_connection() {
                held.roll_back().await;
            }
            return Err(failed.into());
        }
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

/// Whether it brings something newer; notes that.
async fn is_newer(
    mark: &Mark,
    versioned: &Versioned,
    held: &Held,
    store: &PostgresStore,
) -> Result<bool, Failed> {
    let entity = FingerprintBuilder::new(store.secret())
        .part("consumer", mark.identity.consumer.as_bytes())
        .part("source", mark.identity.source.as_bytes())
        .part("entity", versioned.entity.as_bytes())
        .finish()
        .digest;
    let params: [(&(dyn ToSql + Sync), Type); 4] = [
        (&entity.as_slice(), Type::BYTEA),
        (&versioned.version, Type::INT8),
        (&mark.id.as_bytes().as_slice(), Type::BYTEA),
        (&(mark.round > 0), Type::BOOL),
    ];
    let rows = held.query_typed(NEWER, &params).await.map_err(|error| Failed::of(&error))?;
    crash::point("postgres.newer.after");
    Ok(!rows.is_empty())
}
