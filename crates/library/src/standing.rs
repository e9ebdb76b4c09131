//! Where an operation or a message stands, for pages and tests. Nothing runs, and nobody waits.

use onefold_core::{InboxEntry, Key, MessageIdentity, OutboxEntry, Record, Resource, State, StoreTime};
use onefold_store::{AtomicStore, InboxStore, OutboxStore, StoreError};
use serde::de::DeserializeOwned;

use crate::{AccessError, Call, CallError, Done, Onefold, OperationId};

/// An operation as it stands.
#[derive(Clone, Debug)]
pub struct Standing {
    record: Record,
    now: StoreTime,
}

impl Standing {
    /// Its state; the five questions that a state answers are its own ([`State`]).
    pub fn state(&self) -> State {
        self.record.state
    }

    /// The number of its latest attempt.
    pub fn attempt(&self) -> u32 {
        self.record.attempt
    }

    /// What it brought forth.
    pub fn resource(&self) -> Option<&Resource> {
        self.record.resource.as_ref()
    }

    /// What ties it to other operations of one workflow.
    pub fn correlation_id(&self) -> Option<&str> {
        self.record.correlation_id.as_deref()
    }

    /// The whole record.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The store's time of reading.
    pub fn now(&self) -> StoreTime {
        self.now
    }

    /// The kept result of a call that was finished; `None` where it is not.
    ///
    /// # Errors
    /// [`CallError::ValueNotKept`] and [`CallError::ValueUnreadable`]: it is finished, and there is no result to give.
    pub fn result<T: DeserializeOwned>(&self, call: &Call) -> Result<Option<Done<T>>, CallError> {
        match self.state() {
            State::Succeeded | State::Rejected => Done::replay(call.operation(), &self.record).map(Some),
            State::Received | State::Processing | State::Failed | State::OutcomeUnknown => Ok(None),
        }
    }
}

impl<S: AtomicStore> Onefold<S> {
    /// Where the operation of a call stands; `None`: nothing is known of it, or it has expired and is gone.
    ///
    /// # Errors
    /// [`AccessError::StoreUnavailable`]: the store did not answer; since this only reads, nothing was written.
    /// Cancellation: nothing changes.
    pub async fn stands(&self, call: &Call) -> Result<Option<Standing>, AccessError> {
        self.operation(call.id(self)).await
    }

    /// The same by the operation's id; errors are those of [`Onefold::stands`].
    pub async fn operation(&self, id: OperationId) -> Result<Option<Standing>, AccessError> {
        let found = self.engine().look(id).await?;
        Ok(found.map(|(record, now)| Standing { record, now }))
    }
}

impl<S: AtomicStore + OutboxStore> Onefold<S> {
    /// Where a message on its way out stands; `None`: it was not made, or it is done and swept.
    ///
    /// # Errors
    /// [`AccessError::Stopped`]: the id is no key. [`AccessError::StoreUnavailable`]: the store did not answer. Nothing
    /// was written. Cancellation: nothing changes.
    pub async fn outgoing(&self, id: &str) -> Result<Option<OutboxEntry>, AccessError> {
        Ok(self.store().outgoing(&key(id)?).await?)
    }
}

impl<S: AtomicStore + InboxStore> Onefold<S> {
    /// Where a message that came in stands with a consumer, in its latest round; `None`: it never came, or its mark is
    /// forgotten. Errors are those of [`Onefold::outgoing`].
    pub async fn incoming(
        &self,
        consumer: &str,
        source: &str,
        id: &str,
    ) -> Result<Option<InboxEntry>, AccessError> {
        let identity =
            MessageIdentity { consumer: consumer.into(), source: source.into(), message: key(id)? };
        let entries = self.store().entries(identity.id(self.engine().identity_key())).await?;
        Ok(entries.into_iter().max_by_key(|entry| entry.round))
    }
}

fn key(id: &str) -> Result<Key, AccessError> {
    Key::new(id).map_err(|error| StoreError::Refused(error.to_string()).into())
}
