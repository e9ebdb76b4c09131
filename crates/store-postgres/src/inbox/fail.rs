//! A failure of a handler, noted in a commit of its own. A crash before it leaves the failure uncounted: the message
//! comes again as one that has not failed.

use onefold_core::contract::Retention;
use onefold_core::{InboxEntry, InboxState};
use onefold_store::{Consumed, StoreError};

use super::{MarkWork, State, enter};
use crate::atomic::Stopped;
use crate::inbox_row::{self, Standing};
use crate::server::{RERUNS_MAX, pause};
use crate::store::PostgresStore;

/// Notes a failure of a handler; gives the entry as it then stands.
pub(crate) async fn fail(
    mark: &MarkWork,
    reason: &str,
    park_after: Option<u32>,
    store: &PostgresStore,
) -> Result<InboxEntry, StoreError> {
    let mut reruns = 0;
    loop {
        let failed = fail_once(mark, reason, park_after, store).await;
        match failed.map_or_else(|stopped| stopped.consumed().map(Err), |entry| Ok(Ok(entry)))? {
            Ok(entry) => return Ok(entry),
            Err(Consumed::Contended(_)) if reruns < RERUNS_MAX => {
                pause(reruns).await;
                reruns += 1;
            }
            Err(other) => {
                return Err(StoreError::Unavailable(format!("a failure could not be noted: {other:?}")));
            }
        }
    }
}

async fn fail_once(
    mark: &MarkWork,
    reason: &str,
    park_after: Option<u32>,
    store: &PostgresStore,
) -> Result<InboxEntry, Stopped> {
    let (held, Standing { mut entries, .. }) = enter(mark.mark.id, store).await?;
    if mark.is_barred_by(&entries) {
        held.roll_back().await;
        return entries
            .pop()
            .ok_or_else(|| StoreError::Refused("an entry is there and is not".into()).into());
    }
    let failures = mark.failures(&entries).saturating_add(1);
    let parked = park_after.is_some_and(|after| failures >= after);
    let state = if parked { InboxState::Parked } else { InboxState::Failing };
    let (retention, reason) = (&Retention::Forever, Some(reason));
    let to = State { state, failures, retention, floor: None, reason };
    if let Err(other) = mark.commit(held, &to, store).await? {
        return Err(Stopped::contended(format!("somebody came between: {other:?}")));
    }
    let entry = inbox_row::standing(mark.mark.id, store.server()).await?.entries.pop();
    entry.ok_or_else(|| StoreError::Refused("a failure that was noted is not there".into()).into())
}
