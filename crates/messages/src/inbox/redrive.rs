//! What a person lets go on again, many at once. Both acts are idempotent: they name what the person saw, and what was
//! done since is not done twice, so a second press, or one after a crash, goes on where the first one ended.

use std::time::Duration;

use onefold_core::{Key, OperationId};
use onefold_store::{InboxStore, OutboxStore, Redrive, Redriving, StoreError};

/// What a redrive has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Redriven {
    /// Messages that go on now.
    pub new: u64,
    /// Messages that somebody had let go on before, or that are done.
    pub already: u64,
}

impl Redriven {
    fn note(&mut self, new: bool) {
        if new {
            self.new += 1;
        } else {
            self.already += 1;
        }
    }
}

/// Takes parked messages out of the dead list: a running [`Consumer`](super::Consumer) handles each once from its kept
/// body, one after the other, and parks it again where that fails. They are named by digest and round, as entries are.
///
/// An error has redriven those before it; called again it finds them `already`.
pub async fn redrive_inbox(
    store: &dyn InboxStore,
    messages: &[(OperationId, u32)],
    who: &str,
    reason: &str,
) -> Result<Redriven, StoreError> {
    let mut redriven = Redriven::default();
    for (id, round) in messages {
        redriven.note(store.unpark(*id, *round, who, reason).await?);
    }
    Ok(redriven)
}

/// Sends dead messages again, or those whose outcome is unknown, under their ids, one each `pace`. They are named by id
/// and by the attempt after which the person saw them.
///
/// An error has redriven those before it; called again it finds them `already`.
pub async fn redrive_outbox(
    store: &dyn OutboxStore,
    messages: &[(Key, u32)],
    pace: Duration,
    who: &str,
    reason: &str,
) -> Result<Redriven, StoreError> {
    let mut redriven = Redriven::default();
    for (id, attempt) in messages {
        let after = pace.saturating_mul(u32::try_from(redriven.new).unwrap_or(u32::MAX));
        let (id, attempt, redrive) = (id.clone(), *attempt, Redrive::SendAgain);
        let (who, reason) = (who.to_owned(), reason.to_owned());
        redriven.note(store.redrive(Redriving { id, attempt, redrive, after, who, reason }).await?);
    }
    Ok(redriven)
}
