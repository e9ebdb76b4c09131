//! One of the two stores, as one: every call goes to the one that is there.

use std::time::Duration;

use async_trait::async_trait;
use onefold_core::{
    Act, Counters, Event, IdentityKey, InboxEntry, Kept, Key, Message, OperationId, OutboxEntry, Permit,
    Record,
};
use onefold_store::{
    Advance, Advanced, AtomicStore, Atomically, Claim, Claimed, ConsumeStore, Consumed, DeliveryCounts,
    Entry, Failure, FinishedStep, Hint, InboxPage, InboxQuery, InboxStore, InboxSurvey, KeptMessage, Mark,
    NewPermit, OperationStore, OutboxPage, OutboxQuery, OutboxStore, OutboxSurvey, Page, ProbeTurn, Query,
    Read, Redriving, Settlement, StepPut, StepStore, StoreError, Survey, Swept, Take, TakeProbes, Taken,
    Unparking, WriteStore, Written,
};
use onefold_store_postgres::{Ending, PostgresStore};
use onefold_store_sqlite::SqliteStore;

use super::{AnyTx, AnyWork};
use crate::asynchronous::AsyncStore;
use crate::ties::Ties;

/// A SQLite file or a PostgreSQL database.
pub struct AnyStore(pub(super) One);

pub(super) enum One {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

impl std::fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AnyStore").field(&self.name()).finish()
    }
}

macro_rules! ask {
    ($any:expr, $store:ident => $call:expr) => {
        match &$any.0 {
            One::Sqlite($store) => $call,
            One::Postgres($store) => $call,
        }
    };
}

impl AsyncStore for AnyStore {
    type Tx = AnyTx;

    fn work(
        ties: Ties,
        closure: impl for<'a> FnMut(&'a mut AnyTx) -> Ending<'a> + Send + 'static,
    ) -> AnyWork {
        AnyWork::new(ties, closure)
    }
}

#[async_trait]
impl OperationStore for AnyStore {
    fn name(&self) -> &'static str {
        ask!(self, store => store.name())
    }

    fn identity_key(&self) -> &IdentityKey {
        ask!(self, store => store.identity_key())
    }

    async fn read(&self, id: OperationId) -> Result<Read, StoreError> {
        ask!(self, store => store.read(id).await)
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        ask!(self, store => store.claim(claim).await)
    }

    async fn advance(&self, advance: Advance) -> Result<Advanced, StoreError> {
        ask!(self, store => store.advance(advance).await)
    }

    async fn count(&self, counts: Vec<(OperationId, Counters)>) -> Result<(), StoreError> {
        ask!(self, store => store.count(counts).await)
    }

    async fn list(&self, query: Query) -> Result<Page, StoreError> {
        ask!(self, store => store.list(query).await)
    }

    async fn events(&self, id: OperationId) -> Result<Vec<Event>, StoreError> {
        ask!(self, store => store.events(id).await)
    }

    async fn lose_stale(&self, limit: u32) -> Result<u64, StoreError> {
        ask!(self, store => store.lose_stale(limit).await)
    }

    async fn take_probes(&self, take: TakeProbes) -> Result<Vec<ProbeTurn>, StoreError> {
        ask!(self, store => store.take_probes(take).await)
    }

    async fn sweep(&self, limit: u32) -> Result<Swept, StoreError> {
        ask!(self, store => store.sweep(limit).await)
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        ask!(self, store => store.survey().await)
    }

    async fn interrupted(&self, operations: &[String], limit: u32) -> Result<Vec<Record>, StoreError> {
        ask!(self, store => store.interrupted(operations, limit).await)
    }

    async fn note_companion(&self, operation: &str) -> Result<(), StoreError> {
        ask!(self, store => store.note_companion(operation).await)
    }

    async fn has_companion(&self, operation: &str) -> Result<bool, StoreError> {
        ask!(self, store => store.has_companion(operation).await)
    }

    async fn ready(&self) -> Result<(), StoreError> {
        ask!(self, store => store.ready().await)
    }
}

#[async_trait]
impl AtomicStore for AnyStore {
    type Work = AnyWork;

    async fn atomically(&self, entry: Entry, work: &mut AnyWork) -> Result<Atomically, StoreError> {
        match &self.0 {
            One::Sqlite(store) => store.atomically(entry, &mut work.on_sqlite()).await,
            One::Postgres(store) => store.atomically(entry, &mut work.on_postgres()).await,
        }
    }
}

#[async_trait]
impl WriteStore for AnyStore {
    async fn write(&self, work: &mut AnyWork) -> Result<Written, StoreError> {
        match &self.0 {
            One::Sqlite(store) => store.write(&mut work.on_sqlite()).await,
            One::Postgres(store) => store.write(&mut work.on_postgres()).await,
        }
    }
}

#[async_trait]
impl StepStore for AnyStore {
    async fn put_step(
        &self,
        id: OperationId,
        attempt: u32,
        name: String,
        kept: Kept,
    ) -> Result<StepPut, StoreError> {
        ask!(self, store => store.put_step(id, attempt, name, kept).await)
    }

    async fn steps(&self, id: OperationId) -> Result<Vec<FinishedStep>, StoreError> {
        ask!(self, store => store.steps(id).await)
    }
}

#[async_trait]
impl InboxStore for AnyStore {
    async fn accept(&self, mark: Mark, messages: Vec<Message>) -> Result<Consumed, StoreError> {
        ask!(self, store => store.accept(mark, messages).await)
    }

    async fn entries(&self, id: OperationId) -> Result<Vec<InboxEntry>, StoreError> {
        ask!(self, store => store.entries(id).await)
    }

    async fn list_inbox(&self, query: InboxQuery) -> Result<InboxPage, StoreError> {
        ask!(self, store => store.list_inbox(query).await)
    }

    async fn kept_message(&self, id: OperationId, round: u32) -> Result<Option<KeptMessage>, StoreError> {
        ask!(self, store => store.kept_message(id, round).await)
    }

    async fn fail(&self, failure: Failure) -> Result<InboxEntry, StoreError> {
        ask!(self, store => store.fail(failure).await)
    }

    async fn count_deliveries(
        &self,
        counts: Vec<(OperationId, u32, DeliveryCounts)>,
    ) -> Result<(), StoreError> {
        ask!(self, store => store.count_deliveries(counts).await)
    }

    async fn unpark(&self, unparking: Unparking) -> Result<bool, StoreError> {
        ask!(self, store => store.unpark(unparking).await)
    }

    async fn inbox_acts(&self, id: OperationId) -> Result<Vec<Act>, StoreError> {
        ask!(self, store => store.inbox_acts(id).await)
    }

    async fn grant_permit(&self, permit: NewPermit) -> Result<Permit, StoreError> {
        ask!(self, store => store.grant_permit(permit).await)
    }

    async fn permits(&self, consumer: Option<&str>) -> Result<Vec<Permit>, StoreError> {
        ask!(self, store => store.permits(consumer).await)
    }

    async fn revoke_permit(&self, number: u32, who: &str, reason: &str) -> Result<bool, StoreError> {
        ask!(self, store => store.revoke_permit(number, who, reason).await)
    }

    async fn sweep_inbox(&self, limit: u32) -> Result<u64, StoreError> {
        ask!(self, store => store.sweep_inbox(limit).await)
    }

    async fn sweep_versions(&self, limit: u32) -> Result<u64, StoreError> {
        ask!(self, store => store.sweep_versions(limit).await)
    }

    async fn survey_inbox(&self) -> Result<InboxSurvey, StoreError> {
        ask!(self, store => store.survey_inbox().await)
    }
}

#[async_trait]
impl ConsumeStore for AnyStore {
    async fn consume(&self, mark: Mark, work: &mut AnyWork) -> Result<Consumed, StoreError> {
        match &self.0 {
            One::Sqlite(store) => store.consume(mark, &mut work.on_sqlite()).await,
            One::Postgres(store) => store.consume(mark, &mut work.on_postgres()).await,
        }
    }
}

#[async_trait]
impl OutboxStore for AnyStore {
    async fn enqueue(&self, messages: Vec<Message>) -> Result<u64, StoreError> {
        ask!(self, store => OutboxStore::enqueue(store, messages).await)
    }

    async fn take(&self, take: Take) -> Result<Vec<Taken>, StoreError> {
        ask!(self, store => store.take(take).await)
    }

    async fn settle_sent(&self, settlements: Vec<Settlement>) -> Result<Vec<bool>, StoreError> {
        ask!(self, store => store.settle_sent(settlements).await)
    }

    async fn settle_and_take(
        &self,
        settlements: Vec<Settlement>,
        take: Take,
    ) -> Result<(Vec<bool>, Vec<Taken>), StoreError> {
        ask!(self, store => store.settle_and_take(settlements, take).await)
    }

    async fn outgoing(&self, id: &Key) -> Result<Option<OutboxEntry>, StoreError> {
        ask!(self, store => store.outgoing(id).await)
    }

    async fn list_outbox(&self, query: OutboxQuery) -> Result<OutboxPage, StoreError> {
        ask!(self, store => store.list_outbox(query).await)
    }

    async fn redrive(&self, redriving: Redriving) -> Result<bool, StoreError> {
        ask!(self, store => store.redrive(redriving).await)
    }

    async fn outbox_acts(&self, id: &Key) -> Result<Vec<Act>, StoreError> {
        ask!(self, store => store.outbox_acts(id).await)
    }

    async fn sweep_outbox(&self, keep: Duration, limit: u32) -> Result<u64, StoreError> {
        ask!(self, store => store.sweep_outbox(keep, limit).await)
    }

    async fn survey_outbox(&self) -> Result<Vec<OutboxSurvey>, StoreError> {
        ask!(self, store => store.survey_outbox().await)
    }

    fn hint(&self) -> Hint {
        ask!(self, store => store.hint())
    }
}
