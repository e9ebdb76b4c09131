//! The inbox as consumers and operators see it: content is sealed and opened on the caller's side.

use async_trait::async_trait;
use onefold_core::{Act, InboxEntry, Message, OperationId, Permit};
use onefold_store::{
    Consumed, DeliveryCounts, Failure, InboxPage, InboxQuery, InboxStore, InboxSurvey, KeptMessage, Mark,
    NewPermit, StoreError, Unparking,
};

use crate::inbox::{Accept, CountDeliveries, Fail, MarkWork, SweepInbox, Unpark};
use crate::outgoing::Outgoing;
use crate::permits::{self, Revoke};
use crate::store::SqliteStore;
use crate::sweep::STEP_RECORDS_MAX;
use crate::versions::Forget;
use crate::{acts, inbox_row};

#[async_trait]
impl InboxStore for SqliteStore {
    async fn accept(&self, mark: Mark, messages: Vec<Message>) -> Result<Consumed, StoreError> {
        let sealed = |message| Outgoing::new(message, &self.identity_key, &self.sealer);
        let mark = MarkWork::new(mark, &self.sealer);
        self.errand(Accept::new(mark, messages, sealed)).await
    }

    async fn entries(&self, id: OperationId) -> Result<Vec<InboxEntry>, StoreError> {
        self.readers.run(move |connection| inbox_row::entries(id, connection)).await
    }

    async fn list_inbox(&self, query: InboxQuery) -> Result<InboxPage, StoreError> {
        let judge = self.judge.clone();
        self.readers.run(move |connection| inbox_row::list(&query, connection, &judge)).await
    }

    async fn kept_message(&self, id: OperationId, round: u32) -> Result<Option<KeptMessage>, StoreError> {
        let form = self.readers.run(move |connection| inbox_row::kept(id, round, connection)).await?;
        form.map(|form| inbox_row::open(id, &form, &self.sealer)).transpose()
    }

    async fn fail(&self, failure: Failure) -> Result<InboxEntry, StoreError> {
        let Failure { mark, reason, park_after } = failure;
        let mark = MarkWork::new(mark, &self.sealer);
        let entry = self.errand(Fail { mark, reason, park_after }).await?;
        entry.ok_or_else(|| StoreError::Refused("a failure that was noted is not there".into()))
    }

    async fn count_deliveries(
        &self,
        counts: Vec<(OperationId, u32, DeliveryCounts)>,
    ) -> Result<(), StoreError> {
        self.errand(CountDeliveries(counts)).await
    }

    async fn unpark(&self, unparking: Unparking) -> Result<bool, StoreError> {
        self.errand(Unpark(unparking)).await
    }

    async fn inbox_acts(&self, id: OperationId) -> Result<Vec<Act>, StoreError> {
        self.readers.run(move |connection| acts::of(id, connection)).await
    }

    async fn grant_permit(&self, permit: NewPermit) -> Result<Permit, StoreError> {
        self.errand(permit).await
    }

    async fn permits(&self, consumer: Option<&str>) -> Result<Vec<Permit>, StoreError> {
        let consumer = consumer.map(str::to_owned);
        self.readers.run(move |connection| permits::of(consumer.as_deref(), connection)).await
    }

    async fn revoke_permit(&self, number: u32, who: &str, reason: &str) -> Result<bool, StoreError> {
        self.errand(Revoke { number, who: who.into(), reason: reason.into() }).await
    }

    async fn sweep_inbox(&self, limit: u32) -> Result<u64, StoreError> {
        let mut swept = 0;
        loop {
            let left = u64::from(limit).saturating_sub(swept);
            let step = u32::try_from(left).unwrap_or(u32::MAX).min(STEP_RECORDS_MAX);
            let done = if step > 0 { self.errand(SweepInbox(step)).await? } else { 0 };
            if done == 0 {
                return Ok(swept);
            }
            swept += done;
        }
    }

    async fn sweep_versions(&self, limit: u32) -> Result<u64, StoreError> {
        let place = self.versions.clone();
        let over = self.readers.run(move |connection| Forget::find(limit, &place, connection)).await?;
        let mut forgotten = 0;
        for part in over.parts(STEP_RECORDS_MAX) {
            forgotten += self.errand(part).await?;
        }
        Ok(forgotten)
    }

    async fn survey_inbox(&self) -> Result<InboxSurvey, StoreError> {
        let judge = self.judge.clone();
        self.readers.run(move |connection| inbox_row::survey(connection, &judge)).await
    }
}
