//! What people do to messages: look, send dead letters again, settle unknown sendings, let parked ones be handled
//! again, grant permits (docs/messages.md, SEMANTICS 12).
//!
//! What they do to messages that came in is in `acts/incoming.rs`.
//!
//! *Promises.* Every act needs a reason, which is kept with the message. An act may name the attempt after which the
//! person saw the message: sent again since, it is another matter and passed over. Without it the act is on what stands there now. Many
//! dead letters are sent again with a pace.

mod incoming;

use std::sync::Arc;
use std::time::Duration;

use onefold_core::{
    Act, InboxEntry, Key, KeyError, OperationId, OutboxEntry, OutboxState, Permit, StoreTime, outgoing_id,
};
use onefold_store::{
    InboxPage, InboxQuery, InboxStore, KeptMessage, NewPermit, OutboxPage, OutboxQuery, OutboxStore, Redrive,
    Redriving, StoreError,
};

pub use incoming::{ActOnIncoming, HandleAgain, WhichIncoming};

use crate::limits::PAGE;

/// A store with both boxes.
pub trait MessageStore: OutboxStore + InboxStore {}

impl<S: OutboxStore + InboxStore> MessageStore for S {}

/// The messages of a store, for people. Cheap to clone.
#[derive(Clone)]
pub struct Messages(Arc<dyn MessageStore>);

/// An outgoing message with what people did to it.
#[derive(Clone, Debug)]
pub struct ShownOutgoing {
    /// The message.
    pub entry: OutboxEntry,
    /// Oldest first.
    pub acts: Vec<Act>,
    /// The store's time of reading.
    pub now: StoreTime,
}

/// An incoming message in all its rounds, with what people did to it.
#[derive(Clone, Debug)]
pub struct ShownIncoming {
    /// In the order of the rounds; not empty.
    pub entries: Vec<InboxEntry>,
    /// What the last of them keeps.
    pub kept: Option<KeptMessage>,
    /// Oldest first.
    pub acts: Vec<Act>,
    /// The store's time of reading.
    pub now: StoreTime,
}

/// Which outgoing messages are acted on.
#[derive(Clone, Debug)]
pub enum Which {
    /// These.
    Ids(Vec<Key>),
    /// All of a destination that are in this state: `dead` or `outcome_unknown`.
    All {
        /// The destination.
        destination: String,
        /// The state.
        state: OutboxState,
        /// Of this ordering key only.
        ordering_key: Option<String>,
    },
}

/// One act on outgoing messages.
#[derive(Clone, Debug)]
pub struct ActOnOutgoing {
    /// On which.
    pub which: Which,
    /// The attempt after which the person saw them; `None` acts on whatever stands there now.
    pub seen_attempt: Option<u32>,
    /// What is done with a message that is `dead` or `outcome_unknown`.
    pub redrive: Redrive,
    /// How many are due in a second where they are sent again; `None` is all at once.
    pub per_second: Option<u32>,
    /// Who.
    pub who: String,
    /// Why; required.
    pub reason: String,
}

/// What became of an act on several messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acted {
    /// On these it was done.
    pub done: Vec<String>,
    /// These were passed over, and why.
    pub passed_over: Vec<(String, String)>,
}

/// Why an act was refused; nothing changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ActError {
    /// There is nothing under this id or number.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// A reason is required.
    #[error("a reason is required: it is kept with the message")]
    ReasonMissing,
    /// Nothing of a state is waiting for a person.
    #[error("a message that is {0} waits for nobody; name dead or outcome_unknown")]
    NotWaiting(OutboxState),
    /// Somebody has ended the permit before.
    #[error("the permit was revoked before")]
    Revoked,
    /// What is to be permitted cannot be.
    #[error("{0}")]
    Invalid(String),
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<KeyError> for ActError {
    fn from(error: KeyError) -> ActError {
        ActError::Invalid(format!("the id of the message: {error}"))
    }
}

impl Messages {
    /// Those of this store.
    pub fn new(store: Arc<dyn MessageStore>) -> Messages {
        Messages(store)
    }

    /// One page of outgoing messages, oldest first. An error: the store did not answer. So do all that only look.
    pub async fn list_outgoing(&self, query: OutboxQuery) -> Result<OutboxPage, StoreError> {
        self.0.list_outbox(query).await
    }

    /// An outgoing message.
    pub async fn outgoing(&self, id: &Key) -> Result<Option<ShownOutgoing>, StoreError> {
        let Some(entry) = self.0.outgoing(id).await? else { return Ok(None) };
        let now = self.now(outgoing_id(id, self.0.identity_key())).await?;
        Ok(Some(ShownOutgoing { entry, acts: self.0.outbox_acts(id).await?, now }))
    }

    /// Acts on outgoing messages, one commit for each. A message of which somebody else has settled meanwhile is passed
    /// over. *Errors:* [`ActError::ReasonMissing`], [`ActError::Invalid`] and [`ActError::NotWaiting`] have changed nothing;
    /// after [`ActError::Store`] what was done stays done. *Cancellation:* the same; asked again, the rest is done.
    pub async fn act_on_outgoing(&self, act: ActOnOutgoing) -> Result<Acted, ActError> {
        required(&act.reason)?;
        let mut acted = Acted::default();
        match &act.which {
            Which::Ids(ids) => {
                for id in ids {
                    match self.0.outgoing(id).await? {
                        None => acted.pass_over(id.as_str(), "there is no such message"),
                        Some(entry) => self.act_on(&entry, &act, &mut acted).await?,
                    }
                }
            }
            Which::All { destination, state, ordering_key } => {
                if !waits_for_a_person(*state) {
                    return Err(ActError::NotWaiting(*state));
                }
                let mut query = OutboxQuery {
                    destination: Some(destination.clone()),
                    state: Some(*state),
                    ordering_key: ordering_key.clone(),
                    limit: PAGE,
                    ..OutboxQuery::default()
                };
                loop {
                    let page = self.0.list_outbox(query.clone()).await?;
                    for entry in &page.entries {
                        self.act_on(entry, &act, &mut acted).await?;
                    }
                    match page.next_cursor {
                        Some(cursor) => query.cursor = Some(cursor),
                        None => break,
                    }
                }
            }
        }
        tracing::info!(done = acted.done.len(), who = act.who, redrive = ?act.redrive, "a person acted on messages");
        Ok(acted)
    }

    async fn act_on(
        &self,
        entry: &OutboxEntry,
        act: &ActOnOutgoing,
        acted: &mut Acted,
    ) -> Result<(), ActError> {
        let id = &entry.message.id;
        if !waits_for_a_person(entry.state) {
            acted.pass_over(id.as_str(), format!("it is {}", entry.state));
            return Ok(());
        }
        if act.seen_attempt.is_some_and(|seen| seen != entry.attempt) {
            acted.pass_over(
                id.as_str(),
                format!("it was sent again since: this is attempt {}", entry.attempt),
            );
            return Ok(());
        }
        let redriving = Redriving {
            id: id.clone(),
            attempt: entry.attempt,
            redrive: act.redrive,
            after: pause(acted.done.len(), act.per_second),
            who: act.who.clone(),
            reason: act.reason.clone(),
        };
        match self.0.redrive(redriving).await? {
            true => acted.done.push(id.as_str().to_owned()),
            false => acted.pass_over(id.as_str(), "somebody was there before"),
        }
        Ok(())
    }

    /// One page of incoming messages, oldest first.
    pub async fn list_incoming(&self, query: InboxQuery) -> Result<InboxPage, StoreError> {
        self.0.list_inbox(query).await
    }

    /// An incoming message.
    pub async fn incoming(&self, id: OperationId) -> Result<Option<ShownIncoming>, StoreError> {
        let entries = self.0.entries(id).await?;
        let Some(last) = entries.last() else { return Ok(None) };
        let kept = if last.kept { self.0.kept_message(id, last.round).await? } else { None };
        let now = self.now(id).await?;
        Ok(Some(ShownIncoming { kept, acts: self.0.inbox_acts(id).await?, now, entries }))
    }

    /// The permits of a consumer, or of all, by number.
    pub async fn permits(&self, consumer: Option<&str>) -> Result<Vec<Permit>, StoreError> {
        self.0.permits(consumer).await
    }

    /// Permits a consumer to handle messages again, each of them once. It needs the build that did the damage, the
    /// source or the message: a permit for everything that a consumer ever handled is not given.
    ///
    /// *Errors:* [`ActError::ReasonMissing`] and [`ActError::Invalid`] have changed nothing. After [`ActError::Store`], and
    /// where the future is dropped, the permit may have been granted: look at [`permits`](Messages::permits) before
    /// asking again, since a second one lets each message through once more.
    pub async fn grant(&self, permit: NewPermit) -> Result<Permit, ActError> {
        required(&permit.reason)?;
        if permit.consumer.trim().is_empty() {
            return Err(ActError::Invalid("a permit is for one consumer; name it".into()));
        }
        if permit.source.is_none() && permit.damaged.is_none() && permit.message.is_none() {
            let text =
                "name the damaged build, the source or the message: this would permit everything again";
            return Err(ActError::Invalid(text.into()));
        }
        if permit.handler.is_some() && permit.handler == permit.damaged {
            let text = "the build that may handle them again is the damaged one";
            return Err(ActError::Invalid(text.into()));
        }
        Ok(self.0.grant_permit(permit).await?)
    }

    /// Ends a permit. What it has let through stays as it is.
    ///
    /// *Errors:* there is none, or it was revoked before. After [`ActError::Store`], and where the future is dropped, it may
    /// be revoked; asking again does no harm.
    pub async fn revoke(&self, number: u32, who: &str, reason: &str) -> Result<Permit, ActError> {
        required(reason)?;
        let ended = self.0.revoke_permit(number, who, reason).await?;
        let permits = self.0.permits(None).await?;
        let permit = permits.into_iter().find(|permit| permit.number == number);
        match (permit, ended) {
            (None, _) => Err(ActError::NotFound("permit")),
            (Some(_), false) => Err(ActError::Revoked),
            (Some(permit), true) => Ok(permit),
        }
    }

    /// The store's time, which comes with the reading of any record, also of one that is not there.
    async fn now(&self, id: OperationId) -> Result<StoreTime, StoreError> {
        Ok(self.0.read(id).await?.now)
    }
}

impl Acted {
    fn pass_over(&mut self, id: impl Into<String>, why: impl Into<String>) {
        self.passed_over.push((id.into(), why.into()));
    }
}

fn waits_for_a_person(state: OutboxState) -> bool {
    matches!(state, OutboxState::Dead | OutboxState::Unknown)
}

/// When the message with this place in the row is due.
fn pause(place: usize, per_second: Option<u32>) -> Duration {
    match per_second {
        None => Duration::ZERO,
        Some(rate) => Duration::from_secs_f64(place as f64 / f64::from(rate.max(1))),
    }
}

fn required(reason: &str) -> Result<(), ActError> {
    if reason.trim().is_empty() { Err(ActError::ReasonMissing) } else { Ok(()) }
}
