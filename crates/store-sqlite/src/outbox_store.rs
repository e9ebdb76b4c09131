//! The outbox as relays see it: content is sealed and opened on the caller's side.

use std::time::Duration;

use async_trait::async_trait;
use onefold_core::{Act, Key, Message, OutboxEntry, outgoing_id};
use onefold_store::{
    Hint, OutboxPage, OutboxQuery, OutboxStore, OutboxSurvey, Redriving, Settlement, StoreError, Take, Taken,
};

use crate::outbox::{Settle, SettleAndTake, SweepOutbox, any_due};
use crate::outgoing::{Enqueue, Outgoing};
use crate::store::SqliteStore;
use crate::sweep::STEP_RECORDS_MAX;
use crate::{acts, outbox_row, read};

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn enqueue(&self, messages: Vec<Message>) -> Result<u64, StoreError> {
        let sealed = |message| Outgoing::new(message, &self.identity_key, &self.sealer);
        self.errand(Enqueue(messages.into_iter().map(sealed).collect())).await
    }

    async fn take(&self, take: Take) -> Result<Vec<Taken>, StoreError> {
        let (judge, destination) = (self.judge.clone(), take.destination.clone());
        let any = self.readers.run(move |connection| {
            let now = read::moment(connection, &judge)?.time;
            any_due(&destination, now, connection)
        });
        let taken = if any.await? { self.errand(take).await? } else { Vec::new() };
        taken.into_iter().map(|taken| taken.open(&self.identity_key, &self.sealer)).collect()
    }

    async fn settle_sent(&self, settlements: Vec<Settlement>) -> Result<Vec<bool>, StoreError> {
        self.errand(Settle(settlements)).await
    }

    async fn settle_and_take(
        &self,
        settlements: Vec<Settlement>,
        take: Take,
    ) -> Result<(Vec<bool>, Vec<Taken>), StoreError> {
        let (ended, taken) = self.errand(SettleAndTake(settlements, take)).await?;
        let taken = taken.into_iter().map(|taken| taken.open(&self.identity_key, &self.sealer));
        Ok((ended, taken.collect::<Result<_, _>>()?))
    }

    async fn outgoing(&self, id: &Key) -> Result<Option<OutboxEntry>, StoreError> {
        let id = id.clone();
        let entry = self.readers.run(move |connection| outbox_row::one(&id, connection)).await?;
        entry.map(|entry| entry.open(&self.identity_key, &self.sealer)).transpose()
    }

    async fn list_outbox(&self, query: OutboxQuery) -> Result<OutboxPage, StoreError> {
        let judge = self.judge.clone();
        let (mut page, entries) =
            self.readers.run(move |connection| outbox_row::list(&query, connection, &judge)).await?;
        let opened = entries.into_iter().map(|entry| entry.open(&self.identity_key, &self.sealer));
        page.entries = opened.collect::<Result<_, _>>()?;
        Ok(page)
    }

    async fn redrive(&self, redriving: Redriving) -> Result<bool, StoreError> {
        self.errand(redriving).await
    }

    async fn outbox_acts(&self, id: &Key) -> Result<Vec<Act>, StoreError> {
        let id = outgoing_id(id, &self.identity_key);
        self.readers.run(move |connection| acts::of(id, connection)).await
    }

    async fn sweep_outbox(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        let mut swept = 0;
        loop {
            let left = u64::from(limit).saturating_sub(swept);
            let step = u32::try_from(left).unwrap_or(u32::MAX).min(STEP_RECORDS_MAX);
            let done = if step > 0 { self.errand(SweepOutbox { keep, limit: step }).await? } else { 0 };
            if done == 0 {
                return Ok(swept);
            }
            swept += done;
        }
    }

    async fn survey_outbox(&self) -> Result<Vec<OutboxSurvey>, StoreError> {
        let judge = self.judge.clone();
        self.readers.run(move |connection| outbox_row::survey(connection, &judge)).await
    }

    fn hint(&self) -> Hint {
        self.hints.from_now_on()
    }
}
