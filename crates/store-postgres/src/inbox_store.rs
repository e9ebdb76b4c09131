//! The inbox as consumers and operators see it: content is sealed and opened on the caller's side.

use async_trait::async_trait;
use onefold_core::{Act, InboxEntry, Message, OperationId, Permit};
use onefold_store::{
    Consumed, DeliveryCounts, Failure, InboxPage, InboxQuery, InboxStore, InboxSurvey, KeptMessage, Mark,
    NewPermit, StoreError, Unparking,
};

use crate::acts::{self, Way};
use crate::inbox::{self, MarkWork};
use crate::store::PostgresStore;
use crate::{inbox_row, marks, permits, versions};

#[async_trait]
impl InboxStore for PostgresStore {
    async fn accept(&self, mark: Mark, messages: Vec<Message>) -> Result<Consumed, StoreError> {
        let sealed = || messages.iter().map(|message| self.seal_message(message.clone())).collect();
        inbox::accept::accept(mark, sealed, self).await
    }

    async fn entries(&self, id: OperationId) -> Result<Vec<InboxEntry>, StoreError> {
        Ok(inbox_row::standing(id, self.server()).await?.entries)
    }

    async fn list_inbox(&self, query: InboxQuery) -> Result<InboxPage, StoreError> {
        inbox_row::list(&query, self.server()).await
    }

    async fn kept_message(&self, id: OperationId, round: u32) -> Result<Option<KeptMessage>, StoreError> {
        inbox_row::kept(id, round, self.server(), self.sealer()).await
    }

    async fn fail(&self, failure: Failure) -> Result<InboxEntry, StoreError> {
        let Failure { mark, reason, park_after } = failure;
        inbox::fail::fail(&MarkWork::new(mark, self.sealer()), &reason, park_after, self).await
    }

    async fn count_deliveries(
        &self,
        counts: Vec<(OperationId, u32, DeliveryCounts)>,
    ) -> Result<(), StoreError> {
        marks::count(counts, self.server()).await
    }

    async fn unpark(&self, unparking: Unparking) -> Result<bool, StoreError> {
        marks::unpark(&unparking, self.server()).await
    }

    async fn inbox_acts(&self, id: OperationId) -> Result<Vec<Act>, StoreError> {
        acts::of(Way::In, id.as_bytes(), self.server()).await
    }

    async fn grant_permit(&self, permit: NewPermit) -> Result<Permit, StoreError> {
        permits::grant(permit, self.server()).await
    }

    async fn permits(&self, consumer: Option<&str>) -> Result<Vec<Permit>, StoreError> {
        permits::of(consumer, self.server()).await
    }

    async fn revoke_permit(&self, number: u32, who: &str, reason: &str) -> Result<bool, StoreError> {
        permits::revoke(number, who, reason, self.server()).await
    }

    async fn sweep_inbox(&self, limit: u32) -> Result<u64, StoreError> {
        marks::sweep(limit, self.server()).await
    }

    async fn sweep_versions(&self, limit: u32) -> Result<u64, StoreError> {
        versions::sweep(limit, self.versions(), self.server()).await
    }

    async fn survey_inbox(&self) -> Result<InboxSurvey, StoreError> {
        inbox_row::survey(self.server()).await
    }
}
