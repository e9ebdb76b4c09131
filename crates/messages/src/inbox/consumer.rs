//! A consumer: an inbox with the one handler for its messages.

use std::fmt;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use onefold_core::{Delivery, InboxEntry, InboxState, Permit, judge_delivery, round_is_for};
use onefold_store::{ConsumeStore, InboxQuery, KeptMessage, StoreError};
use tokio::task::AbortHandle;

use super::handle::From;
use super::{Handling, Inbox, InboxSettings, Incoming, Word};
use crate::limits::{PAGE, REDRIVEN_POLL, RERUN_TRIES};
use crate::{Inbound, Receive, Settle, Told, wire};

type Handler<S> = dyn Fn(Arc<Incoming>, Word) -> <S as onefold_store::AtomicStore>::Work + Send + Sync;

/// Handles the deliveries of one consumer, each message once. Hand it to a broker's adapter as its
/// [`Receive`](crate::Receive), or call [`Consumer::handle`]. Cheap to clone; clones are one.
///
/// For as long as one of them is kept it also handles what people take out of the dead list
/// ([`Messages::act_on_incoming`](crate::Messages::act_on_incoming)) or let through again
/// ([`Messages::handle_again`](crate::Messages::handle_again)), in whatever process they do that: each message once, from
/// its kept body, and it is parked again where that fails.
pub struct Consumer<S: ConsumeStore> {
    shared: Arc<Shared<S>>,
}

struct Shared<S: ConsumeStore> {
    inbox: Inbox<S>,
    handler: Box<Handler<S>>,
    redriven: AbortHandle,
}

impl<S: ConsumeStore> Drop for Shared<S> {
    fn drop(&mut self) {
        self.redriven.abort();
    }
}

impl<S: ConsumeStore> Clone for Consumer<S> {
    fn clone(&self) -> Self {
        Consumer { shared: self.shared.clone() }
    }
}

impl<S: ConsumeStore> fmt::Debug for Consumer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("inbox", &self.shared.inbox).finish_non_exhaustive()
    }
}

/// What became of messages that permits let through again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rerun {
    /// Handled, each in the round of its permit.
    pub handled: u64,
    /// Failed several times, and parked in that round.
    pub parked: u64,
    /// Let through, but the handler or the store put them off, or their bodies are not kept: only another delivery, or
    /// another call, brings them.
    pub left: u64,
}

impl<S: ConsumeStore + 'static> Consumer<S> {
    /// A consumer with this handler, which makes the store's work of a message.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn new(
        inbox: Inbox<S>,
        handler: impl Fn(Arc<Incoming>, Word) -> S::Work + Send + Sync + 'static,
    ) -> Consumer<S> {
        let shared = Arc::new_cyclic(|shared: &Weak<Shared<S>>| {
            let redriven = tokio::spawn(watch_redriven(shared.clone())).abort_handle();
            Shared { inbox, handler: Box::new(handler), redriven }
        });
        Consumer { shared }
    }

    /// Its inbox.
    pub fn inbox(&self) -> &Inbox<S> {
        &self.shared.inbox
    }

    /// Handles a delivery; see [`Inbox::handle`]. No error is lost: whatever goes wrong is told as [`Handling::Again`].
    /// Cancellation: effect and mark are committed whole or not at all; the next delivery says which.
    pub async fn handle(&self, inbound: Inbound) -> Handling {
        self.shared.inbox.handle(inbound, |message, word| (self.shared.handler)(message, word)).await
    }

    /// Handles a delivery of which its source's contract says this; see [`Inbox::handle_as`].
    pub async fn handle_as(&self, inbound: Inbound, told: Told) -> Handling {
        let work = |message, word| (self.shared.handler)(message, word);
        self.shared.inbox.handle_as(inbound, told, work).await
    }

    /// Handles again, from the bodies that are kept, every message that a permit lets through for this build, in the
    /// order in which they first came. A permit for a source, without a damaged build, rebuilds a projection from its
    /// start. A message whose handler fails is tried again after a pause, a few times, before those behind it; then it is
    /// parked.
    ///
    /// Each message is let through once for each permit, so after an error or a crash call it again. Needs
    /// [`InboxSettings::keep_bodies`](super::InboxSettings::keep_bodies) from before; other messages come through when
    /// they are delivered again.
    ///
    /// An error: the store did not answer. Cancellation: what was handled stays handled.
    pub async fn rerun(&self) -> Result<Rerun, StoreError> {
        let shared = &self.shared;
        let settings = shared.inbox.settings();
        let store = shared.inbox.store();
        let permits = store.permits(Some(&settings.consumer)).await?;
        let (mut rerun, mut cursor) = (Rerun::default(), None);
        loop {
            let page = store.list_inbox(shared.query(None, cursor)).await?;
            for entry in page.entries {
                let begun = entry.round > 0 && entry.state == InboxState::Failing;
                let goes_on = begun && round_is_for(entry.round, &settings.build, &permits);
                if !goes_on && !permits.iter().any(|permit| permit.covers(&entry, &settings.build)) {
                    continue;
                }
                let entries = store.entries(entry.id).await?;
                // Of several rounds the last one counts; one that fails at the first time comes again by itself.
                let by_itself = |last: &&InboxEntry| last.round == 0 && last.state == InboxState::Failing;
                let Some(last) = entries.last().filter(|last| !by_itself(last)) else { continue };
                let judged = judge_delivery(&entries, &last.fingerprint, &settings.build, &permits);
                if !matches!(judged, Delivery::Handle { .. }) {
                    continue;
                }
                match shared.handle_to_the_end(last).await? {
                    Some(Handling::Done(_)) => rerun.handled += 1,
                    Some(Handling::Parked) => rerun.parked += 1,
                    // Another process was faster.
                    Some(Handling::Duplicate | Handling::Conflict) => {}
                    Some(Handling::Again { .. }) | None => rerun.left += 1,
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(rerun);
            }
        }
    }
}

impl<S: ConsumeStore + 'static> Shared<S> {
    fn query(&self, state: Option<InboxState>, cursor: Option<i64>) -> InboxQuery {
        let consumer = Some(self.inbox.settings().consumer.clone());
        InboxQuery { consumer, state, cursor, limit: PAGE, ..InboxQuery::default() }
    }

    /// Handles a message from its kept body, again after a pause as often as it fails, until it is parked.
    async fn handle_to_the_end(&self, entry: &InboxEntry) -> Result<Option<Handling>, StoreError> {
        let tries = self.inbox.settings().park_after.map_or(RERUN_TRIES, |most| most.min(RERUN_TRIES));
        // What deliveries in this round have failed before leaves it as many.
        let (mut entry, mut failures) = (entry.clone(), entry.failures);
        let tries = tries.saturating_add(failures);
        loop {
            let handling = self.handle_kept(&entry, tries).await?;
            let Some(Handling::Again { after }) = handling else { return Ok(handling) };
            let last = self.inbox.inner.store.entries(entry.id).await?.pop();
            // Otherwise it was put off, not tried in vain.
            match last.filter(|last| last.state == InboxState::Failing && last.failures > failures) {
                Some(last) => (failures, entry) = (last.failures, last),
                None => return Ok(handling),
            }
            tokio::time::sleep(after).await;
        }
    }

    /// Handles a message from its kept body. `None`: there is none, or it cannot be read, which holds up no other one.
    async fn handle_kept(&self, entry: &InboxEntry, tries: u32) -> Result<Option<Handling>, StoreError> {
        let inner = &self.inbox.inner;
        let kept = match inner.store.kept_message(entry.id, entry.round).await {
            Err(StoreError::Refused(why)) => {
                tracing::error!(message = %entry.id, why, "the kept body of a message cannot be read");
                None
            }
            kept => kept?,
        };
        let Some(KeptMessage { headers, body }) = kept else { return Ok(None) };
        let ordering_key = wire::line(&headers, wire::ORDERING_KEY).map(str::to_owned);
        let version = wire::line(&headers, wire::VERSION).and_then(|version| version.parse().ok());
        let told = Told { fingerprint: entry.fingerprint, version };
        let source = entry.identity.source.clone();
        let inbound = Inbound { source, id: None, ordering_key, headers, body };
        let subject = inner.subject(entry.identity.message.clone(), inbound, told);
        let _turn = inner.locks.take(subject.id).await;
        let work = |message, word| (self.handler)(message, word);
        Ok(Some(inner.run(&subject, From::Inbox(tries), work).await))
    }

    /// Handles what people have let go on and what is due: nobody else delivers it, and it has not failed since. What
    /// they let through under a permit waits for a build that the permit is for.
    async fn handle_redriven(&self) -> Result<(), StoreError> {
        let InboxSettings { consumer, build, .. } = self.inbox.settings();
        let store = &self.inbox.inner.store;
        let (mut cursor, mut permits): (_, Option<Vec<Permit>>) = (None, None);
        loop {
            let page = store.list_inbox(self.query(Some(InboxState::Failing), cursor)).await?;
            let is_due = |entry: &&InboxEntry| entry.due_at().is_some_and(|due_at| due_at <= page.now);
            for entry in page.entries.iter().filter(is_due) {
                if entry.round > 0 {
                    let permits = match &mut permits {
                        Some(permits) => permits,
                        none => none.insert(store.permits(Some(consumer)).await?),
                    };
                    if !round_is_for(entry.round, build, permits) {
                        continue;
                    }
                }
                self.handle_kept(entry, 1).await?;
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }
}

/// Looks for what was redriven until the consumer is gone.
async fn watch_redriven<S: ConsumeStore + 'static>(shared: Weak<Shared<S>>) {
    loop {
        tokio::time::sleep(REDRIVEN_POLL).await;
        let Some(shared) = shared.upgrade() else { return };
        if let Err(error) = shared.handle_redriven().await {
            let consumer = &shared.inbox.settings().consumer;
            tracing::warn!(consumer, %error, "messages that were redriven could not be looked for");
        }
    }
}

#[async_trait]
impl<S: ConsumeStore + 'static> Receive for Consumer<S> {
    async fn receive(&self, inbound: Inbound) -> Settle {
        self.handle(inbound).await.into()
    }
}
