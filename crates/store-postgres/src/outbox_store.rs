//! The outbox as relays see it: content is sealed and opened on the caller's side.

use std::time::Duration;

use async_trait::async_trait;
use onefold_core::{Act, Key, Message, OutboxEntry};
use onefold_store::{
    Hint, OutboxPage, OutboxQuery, OutboxStore, OutboxSurvey, Redriving, Settlement, StoreError, Take, Taken,
};

use crate::acts::{self, Way};
use crate::committed::Committed;
use crate::outbox_row::Opener;
use crate::store::PostgresStore;
use crate::{outbox, outbox_row, outgoing};

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn enqueue(&self, messages: Vec<Message>) -> Result<u64, StoreError> {
        let sealed = messages.into_iter().map(|message| self.seal_message(message)).collect();
        let new = outgoing::put_new(sealed, &Committed(self.server())).await?;
        if new > 0 {
            self.hints().give();
        }
        Ok(new)
    }

    async fn take(&self, take: Take) -> Result<Vec<Taken>, StoreError> {
        let taken = outbox::take(&take, self).await?;
        let opener = self.opener();
        taken.into_iter().map(|taken| taken.open(opener.secret, opener.sealer)).collect()
    }

    async fn settle_sent(&self, settlements: Vec<Settlement>) -> Result<Vec<bool>, StoreError> {
        outbox::settle(&settlements, self.server()).await
    }

    async fn outgoing(&self, id: &Key) -> Result<Option<OutboxEntry>, StoreError> {
        outbox_row::one(id, self.server(), &self.opener()).await
    }

    async fn list_outbox(&self, query: OutboxQuery) -> Result<OutboxPage, StoreError> {
        outbox_row::list(&query, self.server(), &self.opener()).await
    }

    async fn redrive(&self, redriving: Redriving) -> Result<bool, StoreError> {
        let redriven = outbox::redrive(&redriving, self.server()).await?;
        if redriven {
            self.hints().give();
        }
        Ok(redriven)
    }

    async fn outbox_acts(&self, id: &Key) -> Result<Vec<Act>, StoreError> {
        acts::of(Way::Out, id.as_str().as_bytes(), self.server()).await
    }

    async fn sweep_outbox(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        outbox::sweep(keep, limit, self.server()).await
    }

    async fn survey_outbox(&self) -> Result<Vec<OutboxSurvey>, StoreError> {
        outbox_row::survey(self.server()).await
    }

    fn hint(&self) -> Hint {
        self.hints().from_now_on()
    }
}

impl PostgresStore {
    pub(crate) fn opener(&self) -> Opener<'_> {
        Opener { secret: self.secret(), sealer: self.sealer() }
    }

    pub(crate) fn seal_message(&self, message: Message) -> outgoing::Outgoing {
        outgoing::Outgoing::new(message, self.secret(), self.sealer())
    }
}
