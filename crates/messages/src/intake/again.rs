//! What people let through again: webhooks under a permit, and dead letters that were sent on, from their kept bodies.
//!
//! Each goes on as a delivery of it would. A permit is gone through once by each process; what it covers later is let
//! through by the next delivery. Rounds make all of this harmless to repeat.

use std::collections::HashSet;

use onefold_core::{Delivery, InboxEntry, InboxState, judge_delivery};
use onefold_store::{InboxQuery, KeptMessage, StoreError};

use super::{Arrival, CONSUMER, HANDLER, Inner, Read};
use crate::limits::PAGE;

impl Inner {
    /// Lets through what nobody delivers again by himself. `gone_through` are the permits that need no further look.
    pub(super) async fn let_through(
        &self,
        read: &Read,
        gone_through: &mut HashSet<u32>,
    ) -> Result<(), StoreError> {
        if self.store.survey_inbox().await?.failing > 0 {
            let failing = InboxQuery { state: Some(InboxState::Failing), ..InboxQuery::default() };
            self.each(failing, read, |_| true).await?;
        }
        for permit in self.store.permits(Some(CONSUMER)).await? {
            if permit.revoked.is_none() && !gone_through.contains(&permit.number) {
                let (source, message) = (permit.source.clone(), permit.message.clone());
                let named = InboxQuery { source, message, ..InboxQuery::default() };
                let covered =
                    |entry: &InboxEntry| entry.round < permit.number && permit.covers(entry, HANDLER);
                self.each(named, read, covered).await?;
                gone_through.insert(permit.number);
            }
        }
        Ok(())
    }

    /// Admits every kept message of a query that is wanted and may be handled.
    async fn each(
        &self,
        query: InboxQuery,
        read: &Read,
        wanted: impl Fn(&InboxEntry) -> bool,
    ) -> Result<(), StoreError> {
        let mut query = InboxQuery { consumer: Some(CONSUMER.into()), limit: PAGE, ..query };
        loop {
            let page = self.store.list_inbox(query.clone()).await?;
            let is_due = |entry: &&InboxEntry| entry.due_at().is_none_or(|due_at| due_at <= page.now);
            for entry in page.entries.iter().filter(is_due).filter(|entry| entry.kept && wanted(entry)) {
                match self.once_more(entry, read).await {
                    // It is about this one, and holds up no other.
                    Err(StoreError::Refused(why)) => {
                        tracing::error!(message = %entry.id, why, "a kept webhook cannot go on");
                    }
                    done => done?,
                }
            }
            match page.next_cursor {
                Some(cursor) => query.cursor = Some(cursor),
                None => return Ok(()),
            }
        }
    }

    async fn once_more(&self, entry: &InboxEntry, read: &Read) -> Result<(), StoreError> {
        let entries = self.store.entries(entry.id).await?;
        let permits = self.store.permits(Some(CONSUMER)).await?;
        let may = judge_delivery(&entries, &entry.fingerprint, HANDLER, &permits);
        let is_last = entries.iter().all(|other| other.round <= entry.round);
        if !is_last || !matches!(may, Delivery::Handle { .. }) {
            return Ok(());
        }
        let kept = self.store.kept_message(entry.id, entry.round).await?;
        if let Some(arrival) = kept.and_then(|kept| arrival(entry, kept, read)) {
            let admitted = self.admit(arrival).await?;
            tracing::info!(id = %entry.id, ?admitted, "a kept webhook was let through");
        }
        Ok(())
    }
}

/// The delivery that a kept message was; `None` when its source is not taken in any more.
fn arrival(entry: &InboxEntry, kept: KeptMessage, read: &Read) -> Option<Arrival> {
    let says = read(&entry.identity.source, &kept)?;
    Some(Arrival {
        source: entry.identity.source.clone(),
        id: entry.identity.message.clone(),
        fingerprint: entry.fingerprint,
        entity: says.entity,
        version: says.version,
        retention: says.retention,
        headers: kept.headers,
        body: kept.body,
    })
}
