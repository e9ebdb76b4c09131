//! A person at the store of one service: what `onefold inbox` and `onefold permits` do, beside the running service.

use anyhow::ensure;
use onefold::any::{AnyStore, AnyTx};
use onefold::inbox::{Handled, Handling, Inbound, InboxEntry, InboxQuery, InboxState, NewPermit};
use onefold::{Onefold, OperationId};

/// Who acts.
const WHO: &str = "olga";
/// No chapter has more messages.
const ALL: u32 = 100;

/// A person at one store.
pub(super) struct Operator(Onefold<AnyStore>);

impl Operator {
    /// At the store of this URL.
    pub(super) async fn at(database: &str) -> anyhow::Result<Operator> {
        Ok(Operator(Onefold::any(database).await?))
    }

    /// `onefold inbox list --state …`
    pub(super) async fn messages(&self, state: InboxState) -> anyhow::Result<Vec<InboxEntry>> {
        let query = InboxQuery { state: Some(state), limit: ALL, ..InboxQuery::default() };
        Ok(self.0.messages().list_incoming(query).await?.entries)
    }

    /// `onefold inbox list --handler …`
    pub(super) async fn handled_by(&self, build: &str) -> anyhow::Result<Vec<InboxEntry>> {
        let query = InboxQuery { handler: Some(build.into()), limit: ALL, ..InboxQuery::default() };
        Ok(self.0.messages().list_incoming(query).await?.entries)
    }

    /// `onefold permits grant --consumer … --damaged … --reason …`
    pub(super) async fn permit(&self, consumer: &str, damaged: &str, reason: &str) -> anyhow::Result<()> {
        let permit = NewPermit {
            consumer: consumer.into(),
            source: None,
            damaged: Some(damaged.into()),
            handler: None,
            message: None,
            who: WHO.into(),
            reason: reason.into(),
        };
        self.0.messages().grant(permit).await?;
        Ok(())
    }

    /// `onefold inbox redrive ID --reason …`: whether it was taken out of the dead list now.
    pub(super) async fn unpark(&self, id: OperationId, reason: &str) -> anyhow::Result<bool> {
        Ok(!self.0.messages().unpark(&[id], WHO, reason).await?.done.is_empty())
    }

    /// Marks a message as handled, and does nothing else: what a script does that "cleans up".
    pub(super) async fn mark(&self, consumer: &str, message: Inbound) -> anyhow::Result<()> {
        let handling =
            self.0.inbox(consumer).handle(message, async |_: &mut AnyTx, _| Ok(Handled::Done)).await;
        ensure!(handling == Handling::Done(InboxState::Processed), "it was not marked: {handling:?}");
        Ok(())
    }
}
